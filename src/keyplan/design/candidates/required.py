"""What every design has to have: a home for each entity, and guards of keys and of unique sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from keyplan.design.candidates.homes import Homes, is_home
from keyplan.design.needs.need import is_generated
from keyplan.engines.base import Kind
from keyplan.model.model import Model
from keyplan.model.write import Children, written_entities
from keyplan.plan.view import Embed, View


def is_exact(model: Model, kinds: Mapping[str, Kind], view: View, also: Collection[str] = ()) -> bool:
    """A self-kept view under exactly the entity's key, and perhaps what else is always the same for the same key: it
    can refuse a second row."""
    if kinds[view.kind].kept_by_engine or view.where or view.measures or view.unique:
        return False
    return {part.path for part in view.parts}.difference(also) == set(model.entities[view.entity].key)


def purposes(model: Model, kinds: Mapping[str, Kind], view: View) -> Iterator[str]:
    """What a view would be of all that a design has to have, in the words of `required_views`."""
    if is_home(model, kinds, view):
        yield home_of(view.entity)
    if is_exact(model, kinds, view):
        yield key_guard(view.entity)
    if view.unique:
        yield unique_guard(view.entity, [part.path for part in view.parts])


def home_of(entity: str) -> str:
    return f"a home of '{entity}'"


def key_guard(entity: str) -> str:
    return f"a guard of the key of '{entity}'"


def unique_guard(entity: str, columns: Iterable[str]) -> str:
    return f"a guard of unique {', '.join(columns)} of '{entity}'"


def required_views(homes: Homes, *, upserts_meet: bool = False) -> list[tuple[str, list[str]]]:
    """Lists of views of each of which a design has at least one, with what for.

    `upserts_meet`: two upserts of one row are kept apart within their transactions, whatever stands under its key."""
    model, kinds = homes.model, homes.kinds
    views: dict[str, list[View]] = {name: [] for name in model.entities}
    inside: dict[str, list[tuple[View, Embed]]] = {name: [] for name in model.entities}
    for view in homes.views:
        views[view.entity].append(view)
        for embed in view.embeds:
            inside[embed.entity].append((view, embed))
    required = []
    for name, entity in model.entities.items():
        own = [home.view.name for home in homes.of(name) if home.embed is None]
        required.append(
            (home_of(name), [*own, *dict.fromkeys(home.view.name for home in homes.of(name) if home.embed)])
        )
        created = _needs_guard(model, name)
        upserted = not upserts_meet and _is_upserted(model, name)
        if created or upserted:
            # Two upserts of one key would leave two rows where the rest of their home's key may differ.
            also = set() if created else {c.name for c in entity.columns.values() if c.immutable} - {*entity.key}
            able = [v for v in views[name] if is_exact(model, kinds, v, also)]
            exact = [v.name for v in able if is_exact(model, kinds, v) or is_home(model, kinds, v)]
            for view, embed in inside[name]:
                if embed.limit is None and _embed_is_exact(model, view, embed.role, also):
                    exact.append(view.name)
            required.append((key_guard(name), exact))
        for columns in entity.unique:
            guards = [v.name for v in views[name] if v.unique and tuple(part.path for part in v.parts) == columns]
            required.append((unique_guard(name, columns), guards))
    return required


def _embed_is_exact(model: Model, view: View, role: str, also: Collection[str] = ()) -> bool:
    step = model.entities[view.entity].roles[role]
    embed = next(embed for embed in view.embeds if embed.role == role)
    parts = {*step.columns, *(part.path for part in embed.sort)}
    return parts.difference(also) == set(model.entities[step.entity].key)


def _needs_guard(model: Model, entity: str) -> bool:
    """Whether a create may meet an existing key: not where every new key is generated."""
    creates = [write for write in model.writes.values() if write.kind == "create"]
    return any(entity in _given(model, write.entity, write.children, False) for write in creates)


def _given(model: Model, entity: str, children: Children, is_named_after: bool) -> set[str]:
    """Of an entity that is created and of its children, at any depth, those whose keys are given: neither generated
    nor named after a row that is new itself, which a reference to some other row is not."""
    is_new = is_named_after or is_generated(model, entity)
    found = set() if is_new else {entity}
    for name, deeper in children.items():
        role = model.entities[entity].roles[name]
        named_after = is_new and {*role.columns} <= {*model.entities[role.entity].key}
        found |= _given(model, role.entity, deeper, named_after)
    return found


def _is_upserted(model: Model, entity: str) -> bool:
    upserts = [write for write in model.writes.values() if write.kind in ("upsert", "change")]
    return any(entity in written_entities(model.entities, write) for write in upserts)
