"""Views become one table and as few overloaded indexes as possible, under keys with readable tags.

Every view that we keep lies in the table. The partition key begins with a tag that says whose rows are gathered there
(`USER#…`), the sort key with one that says what the entry is (`ORDER#…`); the pair of them belongs to one view alone.
Views that agree in the first tag share item collections.

An index serves any number of entities, each once (or twice, where no row has both entries: `sharing.py`), so that as
many are needed per projection as the entity with the most views of that projection takes, which is how `couplings.py`
counts them; where an index that names its attributes can take in another one, there are fewer. Local indexes have the
table's `PK` and are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from keyplan.engines.dynamodb.families import embed_tags
from keyplan.engines.dynamodb.layout import attribute_name
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.native import is_native
from keyplan.engines.dynamodb.projection import projection_of
from keyplan.engines.dynamodb.sharing import arranged
from keyplan.engines.dynamodb.sizes import is_named
from keyplan.engines.dynamodb.tags import partition_tag
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Structure
from keyplan.plan.view import View

PROJECTIONS = ("ALL", "INCLUDE", "KEYS_ONLY")


def pack(model: Model, views: Sequence[View]) -> tuple[Structure, ...]:
    """The table first, then its indexes."""
    kept = [view for view in views if not view.base]
    table = Structure(model.name, "table", tuple(view.name for view in kept), {"tags": tags(model, kept)})
    indexes: list[tuple[str, str, list[View]]] = []
    for kind, scope, most in (("gsi", "global", LIMITS.global_indexes), ("lsi", "local", LIMITS.local_indexes)):
        found = list(_shelves(model, [view for view in views if view.base and view.kind == kind]))
        bases = {view.name: view for view in kept}
        if kind == "gsi":
            found = _together(model, found, bases)
        found = [(_projected(model, projection, shelf, bases), shelf) for projection, shelf in found]
        if len(found) > most:
            raise UnsupportedError(
                f"{model.name}: {len(found)} {scope} indexes are wanted, and dynamodb has {most} per table"
            )
        indexes += [(kind, projection, shelf) for projection, shelf in found]
    return (table, *_structures(model, indexes))


def _shelves(model: Model, views: Sequence[View]) -> Iterator[tuple[str, list[View]]]:
    """The views of each index: of one projection, and of an entity one; under keys of several attributes, a view."""
    yield from ((projection_of(model, view), [view]) for view in views if is_native(model, view))
    for projection in PROJECTIONS:
        mine: dict[str, list[View]] = {}
        for view in views:
            if not is_native(model, view) and projection_of(model, view) == projection:
                mine.setdefault(view.entity, []).append(view)
        for some in zip_longest(*(arranged(model, of) for of in mine.values()), fillvalue=()):
            yield projection, [view for of in some for view in of]


def _together(
    model: Model, shelves: list[tuple[str, list[View]]], kept: Mapping[str, View]
) -> list[tuple[str, list[View]]]:
    """The same views in fewer indexes: of different projections, where naming all that they want gives none more.

    An index that names attributes has them of every item, so two can be one if no item has an attribute of a name that
    only the other's entries want.
    """
    for one, (_, first) in enumerate(shelves):
        for other in range(one + 1, len(shelves)):
            both = [*first, *shelves[other][1]]
            if shelves[other][0] != shelves[one][0] and _fits_together(model, both, kept):
                rest = [shelf for number, shelf in enumerate(shelves) if number not in (one, other)]
                return _together(model, [*rest[:one], ("INCLUDE", both), *rest[one:]], kept)
    return shelves


def _fits_together(model: Model, views: list[View], kept: Mapping[str, View]) -> bool:
    named = set(included(views))
    if len(named) > LIMITS.included_attributes_of_one or any(is_native(model, view) for view in views):
        return False
    entities = {view.entity for view in views}
    if any(len(arranged(model, [view for view in views if view.entity == entity])) > 1 for entity in entities):
        return False
    for view in views:
        mine = set(included([view])) | {attribute_name(part.path) for part in view.parts if part.cut is None}
        if named & (_attributes(kept[view.base], view.entity) - mine):
            return False
    return True


def _projected(model: Model, projection: str, views: list[View], kept: Mapping[str, View]) -> str:
    """Whole rows are named attribute by attribute where that is smaller by much, or items have more than that, such as
    what is computed or copied: a change of it would be written, and paid for, in the index as well."""
    if projection != "ALL" or len(included(views)) > LIMITS.included_attributes_of_one:
        return projection
    if any(is_native(model, view) for view in views):
        return projection
    more = (_attributes(kept[view.base], view.entity) - {attribute_name(path) for path in view.holds} for view in views)
    return "INCLUDE" if any(more) or any(is_named(model, view) for view in views) else projection


def _attributes(base: View, entity: str) -> set[str]:
    """The attributes of the items of an entity in a view that we keep."""
    holds = [base.holds] if base.entity == entity else [e.holds for _, e in base.nested() if e.entity == entity]
    return {attribute_name(path) for paths in holds for path in paths}


def _structures(model: Model, indexes: Sequence[tuple[str, str, list[View]]]) -> list[Structure]:
    named = [included(views) if projection == "INCLUDE" else () for _, projection, views in indexes]
    while sum(map(len, named)) > LIMITS.included_attributes:
        # Whole items cost more than the attributes wanted, but they need not be named. The program chooses no such
        # views; a design that is kept may have them.
        largest = max(range(len(named)), key=lambda number: len(named[number]))
        named[largest] = ()
    found: list[Structure] = []
    for (kind, projection, views), attributes in zip(indexes, named, strict=True):
        settings: dict[str, object] = {"projection": projection, "tags": tags(model, views)}
        if projection == "INCLUDE":
            settings |= {"attributes": attributes} if attributes else {"projection": "ALL"}
        if is_native(model, views[0]):
            settings["native"] = True
        name = f"{kind.upper()}{1 + sum(one.kind == kind for one in found)}"
        found.append(Structure(name, kind, tuple(view.name for view in views), settings))
    return found


def included(views: Iterable[View]) -> tuple[str, ...]:
    """The attributes that an index has to name: what its entries hold besides their key."""
    wanted: dict[str, None] = {}
    for view in views:
        keys = {part.path for part in view.parts if part.cut is None}
        wanted |= dict.fromkeys(attribute_name(path) for path in view.holds if path not in keys)
    return tuple(wanted)


def tags(model: Model, views: Iterable[View]) -> dict[str, dict[str, object]]:
    """Per view of one structure: the tags of its partition key and sort key, and those of its embeds by role."""
    found: dict[str, dict[str, object]] = {}
    taken: set[tuple[str, str]] = set()
    for view in views:
        gathered = partition_tag(model, view)
        name = view.entity.upper()
        if view.measures:
            name += ".TOTALS"
        place = f"{gathered}#" if view.partition else gathered
        number, free = 1, name
        while (place, free) in taken:
            number += 1
            free = f"{name}.{number}"
        taken.add((place, free))
        found[view.name] = {"partition": gathered, "sort": free}
        if view.embeds:
            found[view.name]["embeds"] = dict(embed_tags(view.embeds))
    return found
