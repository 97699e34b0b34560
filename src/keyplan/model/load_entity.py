"""Entities: from nodes to entities whose keys, references and uniqueness hold together.

What is broken is reported and replaced by something harmless, so that the patterns and writes that come after can
be checked against the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from keyplan import units
from keyplan.model.entity import Entity, Field, Ttl
from keyplan.model.load_field import COMPUTED, MARKS, UNKNOWN, Draft, FieldReader
from keyplan.model.source import Items, Node, Table, Text
from keyplan.model.syntax import shown
from keyplan.model.types import COLLECTIONS, SCALARS, article

ENTITY_KEYS = ("count", "fields", "key", "unique", "ttl", "skew", "top", "note")
USUAL_COUNT = 1000.0
"""Rows of an entity without `count`; the model carries a warning then."""

MOST_KEY_DEPTH = 20
"""References inside references that one key may go through."""


@dataclass
class EntityDraft:
    """An entity that has been read; its fields' defaults and its unique sets are still text."""

    entity: Entity
    node: Node
    drafts: dict[str, Draft]
    counted: bool
    key_node: Node
    unique: list[list[Text]]
    ttl_node: Node | None = None


class EntityReader(FieldReader):
    """Reads `entities:`."""

    def entities_of(self, node: Node) -> dict[str, EntityDraft]:
        """All entities, with the names of fields, roles and key parts checked."""
        entries = self.table(node, None, "'entities'")
        assert isinstance(node, Table) or not entries
        names: dict[str, Node] = {}
        lowered: dict[str, str] = {}
        for name, value in entries.items():
            key = node.key(name) if isinstance(node, Table) else Text(0, "", name)
            if self.name(key, "an entity") and name.lower() in (*SCALARS, *COLLECTIONS, *COMPUTED):
                self.report.add(key, f"'{name}' cannot be the name of an entity, because it is a type; rename it")
            self.same_but_case(key, lowered, "entities")
            names[name] = value
        if not names and self.is_table(node):
            self.report.add(node, "the model has no entities; add one under 'entities'")
        self.entities = names
        drafts = {name: self.entity(name, value) for name, value in names.items()}
        self.check_roles(drafts)
        self.check_keys(drafts)
        return drafts

    def same_but_case(self, key: Text, seen: dict[str, str], what: str) -> None:
        other = seen.setdefault(key.text.lower(), key.text)
        if other != key.text:
            self.report.add(
                key, f"the {what} '{other}' and '{key.text}' differ only in case, as some engines cannot; rename one"
            )

    def entity(self, name: str, node: Node) -> EntityDraft:
        entries = self.table(node, ENTITY_KEYS, f"entity '{name}'")
        drafts: dict[str, Draft] = {}
        fields = entries.get("fields")
        if fields is None:
            if self.is_table(node):
                self.report.add(node, f"entity '{name}' has no fields; add them under 'fields'")
        else:
            table = self.table(fields, None, "'fields'")
            lowered: dict[str, str] = {}
            for field_name, value in self.joined(fields, table).items():
                assert isinstance(fields, Table)
                key = fields.key(field_name)
                self.name(key, "a field")
                self.same_but_case(key, lowered, "fields")
                drafts[field_name] = self.field(field_name, value, key.line)
            if not table and self.is_table(fields):
                self.report.add(fields, f"entity '{name}' has no fields; add them under 'fields'")
        key_node = entries.get("key", node)
        count = self.amount(entries.get("count"), "count", units.parse_count)
        if count is not None and count < 1:
            self.report.add(
                entries["count"],
                f"count: '{name}' has at least 1 row at steady state; write 1 or more, or leave it out",
            )
            count = None
        skew, top = self.skew_or_top(entries)
        entity = Entity(
            name,
            {field_name: draft.field for field_name, draft in drafts.items()},
            self.key_parts(name, entries.get("key"), node, drafts),
            USUAL_COUNT if count is None else count,
            ttl=self.ttl(entries.get("ttl")),
            skew=skew,
            top=top,
            note=(self.text(entries["note"], "note") or "") if "note" in entries else "",
            line=node.line,
        )
        unique = self.unique_sets(entries.get("unique"))
        return EntityDraft(entity, node, drafts, count is not None, key_node, unique, entries.get("ttl"))

    def joined(self, fields: Node, table: Mapping[str, Node]) -> dict[str, Node]:
        """The fields, with marks that a comma inside braces has made fields of their own: `{ id: uuid, key }`."""
        found: dict[str, Node] = {}
        cut: dict[str, Text] = {}
        for name, value in table.items():
            before = found[last] if (last := next(reversed(found), "")) else None
            is_mark = name.split(" ")[0].lower() in MARKS and isinstance(value, Text) and value.is_empty
            if is_mark and isinstance(before, Text):
                found[last] = cut[last] = replace(before, text=f"{before.text}, {name}")
            else:
                found[name] = value
        for name, text in cut.items():
            assert isinstance(fields, Table)
            self.report.add(
                fields.key(name),
                f"a comma inside braces begins another field; put what belongs to '{name}' in quotes: "
                f'{name}: "{text.text}"',
            )
        return found

    def key_parts(self, name: str, node: Node | None, entity: Node, drafts: dict[str, Draft]) -> tuple[str, ...]:
        marked = tuple(field_name for field_name, draft in drafts.items() if draft.is_key)
        if node is None:
            if not marked and drafts:
                self.report.add(entity, f"entity '{name}' has no key; mark a field with 'key', or add 'key: [..]'")
            return marked
        written = self.texts(node, "key")
        if marked:
            self.report.add(node, f"entity '{name}' has both 'key: [..]' and fields marked 'key'; keep one of them")
        if not written:
            self.report.add(node, f"the key of '{name}' is empty; name at least one field")
        parts: dict[str, None] = {}
        for text in written:
            if text.text in parts:
                self.report.add(text, f"the key names '{shown(text.text)}' twice; keep one")
            parts[text.text] = None
        return tuple(parts)

    def unique_sets(self, node: Node | None) -> list[list[Text]]:
        if node is None:
            return []
        if not isinstance(node, Items) or not all(isinstance(item, Items) for item in node.items):
            self.report.add(
                node, "'unique' is a list of lists of fields: [[a, b]]; for one field use its mark 'unique'"
            )
            return []
        for item in node.items:
            if isinstance(item, Items) and not item.items:
                self.report.add(item, "a unique set is empty; name its fields, or leave it out")
        return [self.texts(item, "a unique set") for item in node.items]

    def ttl(self, node: Node | None) -> Ttl | None:
        """`90d`, `30m since last_seen`, or `{after: 30m, since: last_seen}`."""
        if node is None:
            return None
        since: str | None = None
        if isinstance(node, Table):
            entries = self.table(node, ("after", "since"), "ttl")
            if "after" not in entries:
                self.report.add(node, "ttl has no 'after'; say how long a row lives")
                return None
            text = self.text(entries["after"], "ttl")
            since = self.text(entries["since"], "since") if "since" in entries else None
        else:
            whole = self.text(node, "ttl")
            text = whole
            if whole is not None and len(words := whole.split()) > 1:
                if len(words) != 3 or words[1].lower() != "since":
                    self.report.add(node, f"'{shown(whole)}' is not a ttl; write 90d, or 30m since last_seen")
                    return None
                text, since = words[0], words[2]
        ms = None if text is None else self.parsed(node, "ttl", units.parse_duration, text)
        if ms == 0:
            self.report.add(node, "ttl cannot be 0; leave it out, or say how long")
        return Ttl(ms, since) if ms else None

    def check_roles(self, drafts: dict[str, EntityDraft]) -> None:
        """`as` and `max` belong to references, and every name on an entity means one thing."""
        taken: dict[tuple[str, str], str] = {}
        for name, draft in drafts.items():
            for item in draft.entity.fields.values():
                taken[name, item.name] = f"a field of '{name}'"
        for name, draft in drafts.items():
            for field_draft in draft.drafts.values():
                item = field_draft.field
                if item.role is None:
                    continue
                if item.target is None:
                    if item.type is not UNKNOWN:
                        self.report.add(
                            field_draft.node,
                            f"'as {item.role}' is for references, and '{item.name}' is none; remove it",
                        )
                    continue
                at = (item.target, item.role)
                if at in taken:
                    self.report.add(
                        field_draft.node,
                        f"the role '{item.role}' on '{item.target}' is ambiguous: it is also {taken[at]}; rename one",
                    )
                    self.report.ambiguous.add(at)
                    self.change(draft, item.name, role=None)
                    continue
                taken[at] = f"the role of '{name}.{item.name}'"

    def change(self, draft: EntityDraft, field_name: str, **changes: object) -> None:
        """Replaces parts of a field, in place: copying all fields for each would take long where there are many."""
        field_draft = draft.drafts[field_name]
        field_draft.field = replace(field_draft.field, **changes)  # type: ignore[arg-type]
        assert isinstance(draft.entity.fields, dict)
        draft.entity.fields[field_name] = field_draft.field

    def check_keys(self, drafts: dict[str, EntityDraft]) -> None:
        """Every key part exists and can be one, and no key contains itself through references."""
        for draft in drafts.values():
            parts = tuple(part for part in draft.entity.key_fields if self.key_field(draft, part))
            if not parts or len(parts) < len(draft.entity.key_fields):
                self.report.keyless.add(draft.entity.name)
            draft.entity = replace(draft.entity, key_fields=parts)
        done: dict[str, tuple[str, ...]] = {}
        for name in drafts:
            self.key_columns(name, drafts, done, [])
        for name, draft in drafts.items():
            parts = tuple(
                dict.fromkeys(
                    p for part in draft.entity.key_fields for p in self.written_part(name, part, drafts, done)
                )
            )
            draft.entity = replace(draft.entity, key_fields=parts)
            if not parts:
                self.stand_in(draft)
        self.spread_keyless(drafts)

    def spread_keyless(self, drafts: dict[str, EntityDraft]) -> None:
        """A key with a reference in it is as broken as the key that this refers to."""
        keyless = self.report.keyless
        before = -1
        while before < len(keyless):
            before = len(keyless)
            for name, draft in drafts.items():
                fields = draft.entity.fields
                if any(fields[part.partition(".")[0]].target in keyless for part in draft.entity.key_fields):
                    keyless.add(name)

    def key_field(self, draft: EntityDraft, part: str) -> bool:
        entity = draft.entity
        head = part.partition(".")[0]
        node = self.part_node(draft, part)
        item = entity.fields.get(head)
        if item is None:
            self.report.add(
                node, f"'{entity.name}' has no field '{shown(head)}'{self.report.among(head, entity.fields)}"
            )
            return False
        problem = None
        if item.computed is not None:
            problem = "it is computed; use a stored field"
        elif item.type is not None and (item.type.kind in ("json", "float") or item.type.is_collection):
            problem = f"{article(item.type.kind)} cannot be part of a key; use another field"
        elif item.optional is not None:
            problem = "it is optional, and a key is never missing; remove 'optional'"
        elif "." in part and item.target is None and item.type is not UNKNOWN:
            problem = f"'{head}' is not a reference, so it has no parts; name it alone"
        if problem is not None:
            self.report.add(node, f"'{shown(part)}' cannot be in the key of '{entity.name}': {problem}")
        return problem is None

    def part_node(self, draft: EntityDraft, part: str) -> Node:
        """Where a key part is written: in the `key` list, or at the field with the mark."""
        if isinstance(draft.key_node, Items):
            for item in draft.key_node.items:
                if isinstance(item, Text) and item.text.strip() == part:
                    return item
        if draft.key_node is draft.node and part in draft.drafts:
            return draft.drafts[part].node
        return draft.key_node

    def key_columns(
        self, name: str, drafts: dict[str, EntityDraft], done: dict[str, tuple[str, ...]], above: list[str]
    ) -> tuple[str, ...]:
        """The columns of a key; a key that leads back to itself is reported once and broken open."""
        if name in done:
            return done[name]
        draft = drafts[name]
        columns: list[str] = []
        for part in draft.entity.key_fields:
            target = draft.entity.fields[part.partition(".")[0]].target
            if target is None:
                continue
            if target == name or target in above:
                circle = [*above[above.index(target) :], name] if target in above else [name]
                chain = " -> ".join(f"'{one}'" for one in [*circle, circle[0]])
                self.report.add(
                    self.part_node(draft, part),
                    f"the key of '{name}' contains itself: {chain}; use a key of its own, such as a uuid",
                )
                draft.entity = replace(
                    draft.entity, key_fields=tuple(other for other in draft.entity.key_fields if other != part)
                )
            elif len(above) >= MOST_KEY_DEPTH:
                self.report.add(
                    self.part_node(draft, part), f"the key goes through more than {MOST_KEY_DEPTH} references"
                )
            else:
                self.key_columns(target, drafts, done, [*above, name])
        if not draft.entity.key_fields:
            self.stand_in(draft)
        for part in draft.entity.key_fields:
            columns.extend(self.written_part(name, part, drafts, done))
        done[name] = tuple(dict.fromkeys(columns))
        return done[name]

    def written_part(
        self, name: str, part: str, drafts: dict[str, EntityDraft], done: dict[str, tuple[str, ...]]
    ) -> list[str]:
        """The columns of one key part; nothing, and a problem, if the path is not inside the reference's key."""
        head, _, rest = part.partition(".")
        target = drafts[name].entity.fields[head].target
        if target is None:
            return [head]
        key = done.get(target, ())
        columns = {column: head if len(key) == 1 else f"{head}.{column}" for column in key}
        if not rest:
            return list(columns.values())
        wanted = [columns[column] for column in self.inside_key(target, rest, drafts, done)]
        if not wanted:
            self.report.add(
                self.part_node(drafts[name], part),
                f"'{shown(part)}' is not inside the key of '{target}'{self.report.among(rest, key)}",
            )
        return wanted

    def inside_key(
        self, name: str, path: str, drafts: dict[str, EntityDraft], done: dict[str, tuple[str, ...]]
    ) -> list[str]:
        """The columns of an entity's key that a path means: `room` and `room.code` are the same column."""
        key = done.get(name, ())
        direct = [column for column in key if column == path or column.startswith(path + ".")]
        head, _, rest = path.partition(".")
        item = drafts[name].entity.fields.get(head)
        if direct or not rest or item is None or item.target is None or head not in {c.partition(".")[0] for c in key}:
            return direct
        inner = done.get(item.target, ())
        found = self.inside_key(item.target, rest, drafts, done)
        written = [head if len(inner) == 1 else f"{head}.{column}" for column in found]
        return [column for column in written if column in key]

    def stand_in(self, draft: EntityDraft) -> None:
        """Gives some key to an entity whose own is broken, so that the rest can be checked."""
        plain = [name for name, item in draft.entity.fields.items() if item.target is None and item.computed is None]
        if not plain:
            draft.drafts["?"] = Draft(Field("?", type=UNKNOWN), draft.node)
        fields = {name: field_draft.field for name, field_draft in draft.drafts.items()}
        draft.entity = replace(draft.entity, fields=fields, key_fields=(plain[0] if plain else "?",))
