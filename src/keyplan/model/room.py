"""How many different values a key or a unique set can take, which has to be enough for the rows there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf, prod

from keyplan import units
from keyplan.model.load_entity import EntityDraft
from keyplan.model.source import Node


class Room:
    """Bounds the values of fields by enums, bools, `distinct`, and the counts of what references point at."""

    def __init__(self, drafts: Mapping[str, EntityDraft]) -> None:
        self.drafts = drafts
        self.keys: dict[str, float] = {}

    def problems(self, draft: EntityDraft) -> Iterator[tuple[Node, str]]:
        """Where an entity has more rows than its key or one of its unique sets has values."""
        if not draft.counted:
            return
        entity, fields = draft.entity, draft.entity.fields
        rows = units.format_count(entity.count)
        if _is_short(most := self.of_key(entity.name), entity.count):
            heads = list({_head(part): None for part in entity.key_fields})
            is_marked = draft.key_node is draft.node and len(heads) == 1
            node = draft.drafts[heads[0]].node if is_marked else draft.key_node
            what = f"the key of '{entity.name}' can take {_values(most)}, but there are {rows} rows"
            yield node, f"{what}; {_cure(draft, entity.key_fields, 'add a part to the key')}"
        for item in fields.values():
            present = entity.count * (1.0 if item.optional is None else item.optional)
            if item.unique and item.computed is None and _is_short(most := self.of(draft, [item.name]), present):
                what = f"'{item.name}' is unique and can take {_values(most)}, but {units.format_count(present)} rows"
                cure = _cure(draft, [item.name], "remove 'unique'")
                yield draft.drafts[item.name].node, f"{what} have it; {cure}"
        for texts in draft.unique:
            names = [text.text for text in texts]
            shares = [fields[head].optional for head in {_head(name) for name in names} if head in fields]
            # those that miss one part need not be those that miss another, so no more than this is sure to have all
            share = 1.0 - sum(1.0 - share for share in shares if share is not None)
            if _is_short(most := self.of(draft, names), entity.count * share):
                have = units.format_count(entity.count * share)
                listed = " and ".join(f"'{name}'" for name in dict.fromkeys(names))
                what = f"{listed} are unique together and can take {_values(most)}, but {have} rows"
                what = what if len(names) > 1 else what.replace(" are unique together", " is unique")
                cure = _cure(draft, names, "add a field to them")
                yield texts[0], f"{what} have {'them' if len(names) > 1 else 'it'}; {cure}"

    def of_key(self, name: str) -> float:
        """The most keys that rows of an entity can have."""
        if name not in self.keys:
            draft = self.drafts[name]
            self.keys[name] = self.of(draft, draft.entity.key_fields)
        return self.keys[name]

    def of(self, draft: EntityDraft, parts: Iterable[str]) -> float:
        """The most values that fields, or parts inside references, can take together."""
        grouped: dict[str, list[str]] = {}
        for part in parts:
            head, _, rest = part.partition(".")
            grouped.setdefault(head, []).append(rest)
        return prod(self.of_field(draft, head, rests) for head, rests in grouped.items())

    def of_field(self, draft: EntityDraft, name: str, inside: list[str]) -> float:
        """Those of one field; of a reference, of the named parts of its key, or of all of it if one is empty."""
        item = draft.entity.fields.get(name)
        if item is None:
            return inf
        found = inf if item.distinct is None else item.distinct
        if item.type is not None and item.type.kind in ("enum", "bool"):
            return min(found, len(item.type.values) if item.type.kind == "enum" else 2)
        target = self.drafts.get(item.target or "")
        if target is None:
            return found
        counted = target.entity.count if target.counted else inf
        return min(found, counted, self.of(target, inside) if all(inside) else self.of_key(target.entity.name))


def _cure(draft: EntityDraft, parts: Iterable[str], otherwise: str) -> str:
    fields = draft.entity.fields
    said = any(fields[head].distinct is not None for head in map(_head, parts) if head in fields)
    return f"lower count, or {'raise distinct' if said else otherwise}"


def _head(name: str) -> str:
    return name.partition(".")[0]


def _is_short(most: float, rows: float) -> bool:
    return rows > most * (1 + 1e-9) + 1e-6


def _values(most: float) -> str:
    return f"only {units.format_count(most)} {'value' if most == 1 else 'values'}"
