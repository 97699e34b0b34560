"""What the entities say together: computed fields, snapshots, defaults, uniqueness, lifetimes and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keyplan import units
from keyplan.model.entity import Column, Entity, Field
from keyplan.model.load_entity import EntityDraft, EntityReader
from keyplan.model.load_field import UNKNOWN, Draft
from keyplan.model.model import Model, UnknownPathError
from keyplan.model.room import Room
from keyplan.model.source import Report
from keyplan.model.syntax import Group, shown
from keyplan.model.types import Type, article, such_as
from keyplan.model.values import parse

NUMBERS = ("int", "decimal", "float")


class EntityCheck:
    """Checks read entities against each other and derives the final ones."""

    def __init__(self, drafts: dict[str, EntityDraft], reader: EntityReader) -> None:
        self.drafts = drafts
        self.reader = reader
        self.report: Report = reader.report
        self.room = Room(drafts)

    def run(self) -> dict[str, Entity]:
        """The entities with their columns and roles; what was wrong in them is in the report."""
        self.shapes()
        # without computed fields first: they can only be checked when the columns they read are known
        plain = {
            name: replace(
                draft.entity,
                fields={
                    field_name: replace(item, computed=None, type=UNKNOWN) if item.computed else item
                    for field_name, item in draft.entity.fields.items()
                },
            )
            for name, draft in self.drafts.items()
        }
        model = Model("", Model.derive(plain))
        for name, draft in self.drafts.items():
            self.unique_sets(draft, model.entities[name])
            self.ttl(draft, model.entities[name])
            for field_draft in list(draft.drafts.values()):
                item = field_draft.field
                if item.computed is not None:
                    self.computed(draft, field_draft, model)
                elif item.source is not None:
                    self.snapshot(draft, field_draft, model)
                if field_draft.default is not None:
                    self.default(draft, field_draft, model.entities[name])
            self.statistics(draft)
        return Model.derive({name: draft.entity for name, draft in self.drafts.items()})

    def shapes(self) -> None:
        """Which marks go together, one field at a time."""
        for draft in self.drafts.values():
            for field_draft in draft.drafts.values():
                for message in _shape_problems(field_draft):
                    self.report.add(field_draft.node, message)
                item = field_draft.field
                if item.unique and (item.computed is not None or draft.entity.key_fields == (item.name,)):
                    # a key is unique already, and a second guard for it would only cost
                    self.reader.change(draft, item.name, unique=False)

    def unique_sets(self, draft: EntityDraft, entity: Entity) -> None:
        sets: list[tuple[str, ...]] = []
        for texts in draft.unique:
            columns: list[str] = []
            for text in texts:
                found = [c.name for c in entity.columns.values() if text.text in (c.name, c.field) and not c.hidden]
                item = entity.fields.get(text.text.partition(".")[0])
                if not found:
                    hint = self.report.among(text.text, entity.fields)
                    self.report.add(text, f"'{entity.name}' has no field '{shown(text.text)}'{hint}")
                elif item is not None and item.type is not None and _not_unique(item.type):
                    self.report.add(
                        text,
                        f"'{text.text}' cannot be unique: {article(item.type.kind)} cannot be compared; leave it out",
                    )
                elif draft.entity.fields[found[0].partition(".")[0]].computed is not None:
                    self.report.add(text, f"'{text.text}' cannot be unique: it is computed; leave it out")
                if any(column in columns for column in found):
                    self.report.add(text, f"the unique set names '{shown(text.text)}' twice; keep one")
                columns.extend(found)
            if columns and tuple(columns) not in sets and set(columns) != set(entity.key):
                sets.append(tuple(columns))
        draft.entity = replace(draft.entity, unique=tuple(sets))

    def ttl(self, draft: EntityDraft, entity: Entity) -> None:
        ttl = draft.entity.ttl
        if ttl is None or ttl.since is None or draft.ttl_node is None:
            return
        column = entity.columns.get(ttl.since)
        if column is None:
            hint = self.report.near(ttl.since, entity.fields)
            self.report.add(draft.ttl_node, f"'{entity.name}' has no field '{shown(ttl.since)}'{hint}")
        elif draft.entity.fields[column.field].computed is not None or column.type.kind not in ("timestamp", "?"):
            self.report.add(
                draft.ttl_node, f"ttl counts since a timestamp, and '{ttl.since}' is none; use a timestamp field"
            )
        else:
            return
        draft.entity = replace(draft.entity, ttl=replace(ttl, since=None))

    def computed(self, draft: EntityDraft, field_draft: Draft, model: Model) -> None:
        item = field_draft.field
        computed = item.computed
        assert computed is not None
        entity = model.entities[draft.entity.name]
        role = entity.roles.get(computed.role)
        problem: str | None = None
        if role is None or not role.many:
            many = [name for name, other in entity.roles.items() if other.many]
            hint = self.report.near(computed.role, many)
            if role is not None:
                hint = "; it leads to one row, use a path in the pattern instead"
            elif not hint:
                hint = (
                    "; name it with 'as' at the reference to it" if not many else f"; the roles are {', '.join(many)}"
                )
            problem = f"'{entity.name}' has no to-many role '{shown(computed.role)}'{hint}"
        elif computed.column is not None:
            child = self.drafts[role.entity].entity
            column = model.entities[role.entity].columns.get(computed.column)
            if column is None or column.hidden:
                hint = self.report.among(computed.column, child.fields)
                problem = f"'{role.entity}' has no field '{shown(computed.column)}'{hint}"
                head, dot, _ = computed.column.partition(".")
                if dot and head in (*child.fields, *model.entities[role.entity].roles):
                    what = f"a computed field reads own fields of '{role.entity}', not '{shown(computed.column)}'"
                    problem = f"{what}; keep the value there too, as a field with 'from' or a computed one"
            elif child.fields[column.field].computed is not None:
                problem = f"'{role.entity}.{computed.column}' is computed itself; compute from stored fields"
            elif computed.how == "sum" and column.type.kind not in (*NUMBERS, "?"):
                what = f"'{role.entity}.{computed.column}' is {article(column.type.kind)}"
                problem = f"{what}, and only numbers have a sum; use count, min or max"
            elif not column.type.is_ordered:
                what = f"'{role.entity}.{computed.column}' is {article(column.type.kind)}"
                problem = f"{what}, which has no {computed.how}; use count"
        if problem is not None:
            if (entity.name, computed.role) not in self.report.ambiguous:
                self.report.add(field_draft.node, problem)
            self.reader.change(draft, item.name, computed=None, type=UNKNOWN)

    def snapshot(self, draft: EntityDraft, field_draft: Draft, model: Model) -> None:
        item = field_draft.field
        assert item.source is not None
        name = draft.entity.name
        if item.type is UNKNOWN:
            return
        try:
            path = model.resolve(name, item.source)
        except UnknownPathError as error:
            if not leads_to_unknown(self.report, model, name, item.source):
                self.report.add(field_draft.node, str(error))
            return
        column = model.column(name, path)
        owner = model.entity_at(name, path.roles)
        if model.is_many(name, path.roles):
            self.report.add(field_draft.node, f"'{item.source}' leads to many rows; a snapshot copies from one")
        elif not path.roles:
            self.report.add(field_draft.node, f"'{item.source}' is in the row already; 'from' follows a reference")
        elif self.drafts[owner].entity.fields[column.field].computed is not None:
            self.report.add(field_draft.node, f"'{item.source}' is computed; a snapshot copies a stored field")
        elif message := self.mismatch(item, column, self.drafts[owner].entity.fields[column.field]):
            self.report.add(field_draft.node, message)
        else:
            self.reader.change(draft, item.name, source=str(path))

    def mismatch(self, item: Field, column: Column, source: Field) -> str:
        """Why a field cannot hold what its snapshot copies; empty if it can."""
        if item.target is not None or source.target is not None:
            if item.target == source.target or column.type is UNKNOWN:
                return ""
            here, there = item.target or item.type, source.target or column.type
            return f"'{item.name}' is {here}, but '{item.source}' is {there}; make them the same type"
        if item.type is None or _same_values(item.type, column.type):
            return ""
        return f"'{item.name}' is {item.type}, but '{item.source}' is {column.type}; make them the same type"

    def default(self, draft: EntityDraft, field_draft: Draft, entity: Entity) -> None:
        item, node = field_draft.field, field_draft.node
        own = entity.columns.get(item.name)  # all but a reference of several parts
        columns = [own] if own is not None else [c for c in entity.columns.values() if c.field == item.name]
        if item.computed is not None or not columns or columns[0].type is UNKNOWN or field_draft.default is None:
            return
        if len(columns) > 1 or columns[0].type.is_collection:
            what = "a reference of several parts" if len(columns) > 1 else f"a {columns[0].type.kind}"
            self.report.add(node, f"'{item.name}' is {what}, which cannot have a default; remove it")
            return
        word = field_draft.default[0]
        assert not isinstance(word, Group)
        try:
            value = parse(columns[0].type, word.text)
        except ValueError as error:
            hint = ""
            if columns[0].type.kind == "enum":
                hint = self.report.near(word.text, [name for name, _ in columns[0].type.values])
            hint = hint or such_as(columns[0].type, error)
            self.report.add(node, f"default of '{item.name}', which is {columns[0].type}: {error}{hint}")
            value = word.text  # it has one, so that no write is told to lack it
        self.reader.change(draft, item.name, default=value)

    def statistics(self, draft: EntityDraft) -> None:
        """Figures that cannot all be true."""
        entity = draft.entity
        for field_draft in draft.drafts.values():
            item = field_draft.field
            for message in self.impossible(draft, item):
                self.report.add(field_draft.node, message)
        if entity.top is not None and entity.count and entity.top * entity.count < 1 - 1e-9 and draft.counted:
            rows, top = units.format_count(entity.count), units.format_share(entity.top)
            self.report.add(draft.node, f"the hottest of {rows} rows has more than {top}; raise top")
        if entity.name not in self.report.keyless:
            for node, message in self.room.problems(draft):
                self.report.add(node, message)

    def impossible(self, draft: EntityDraft, item: Field) -> list[str]:
        found: list[str] = []
        entity = draft.entity
        share = 1.0 if item.optional is None else item.optional
        present = entity.count * share
        values = item.distinct
        if values is not None:
            if draft.counted and values > present + 1e-6:
                found.append(
                    f"'{item.name}' cannot have {units.format_count(values)} distinct values in "
                    f"{units.format_count(present)} rows; lower distinct or raise count"
                )
            target = self.drafts.get(item.target or "")
            if target is not None and target.counted and values > target.entity.count:
                found.append(
                    f"'{item.name}' cannot point at {units.format_count(values)} distinct rows of '{item.target}', "
                    f"which has {units.format_count(target.entity.count)}; lower distinct"
                )
            if item.type is not None and item.type.kind in ("enum", "bool"):
                most = len(item.type.values) if item.type.kind == "enum" else 2
                if values > most:
                    found.append(f"'{item.name}' has only {most} values; lower or remove distinct")
            if item.top is not None and item.top * values < 1 - 1e-9:
                found.append(
                    f"the hottest of {units.format_count(values)} values has at least "
                    f"{units.format_share(round(1 / values, 4))} of the rows, not {units.format_share(item.top)}; "
                    "raise top"
                )
        if item.most is not None and item.target is not None:
            target = self.drafts[item.target]
            groups = values or (target.entity.count if target.counted else None)
            if groups and draft.counted and present / groups > item.most * (1 + 1e-9):
                found.append(
                    f"max {item.most} is under the average: {units.format_count(round(present))} rows point at "
                    f"{units.format_count(groups)} of '{item.target}', {units.format_about(present / groups)} each; "
                    f"raise max or correct the counts"
                )
        return found


def leads_to_unknown(report: Report, model: Model, entity: str, text: str) -> bool:
    """Whether a path breaks at a field whose type could not be read, or at a name that is to be two things, either of
    which has been reported already."""
    for name in text.split("."):
        here = model.entities.get(entity)
        if here is None or (entity, name) in report.ambiguous:
            return True
        column = here.columns.get(name)
        if column is not None and column.type.kind == "?":
            return True
        role = here.roles.get(name)
        if role is None:
            return False
        entity = role.entity
    return False


def _shape_problems(draft: Draft) -> list[str]:
    item = draft.field
    kind = item.type.kind if item.type is not None else ""
    found: list[str] = []
    if item.computed is not None:
        marks: Mapping[str, object] = {
            "unique": item.unique,
            "optional": item.optional,
            "default": draft.default,
            "now": item.now,
            "from": item.source,
            "immutable": item.immutable,
            "distinct": item.distinct,
            "skew": item.skew,
            "top": item.top,
        }
        found += [
            f"'{item.name}' is computed, so it cannot be '{mark}'; remove the mark"
            for mark, value in marks.items()
            if value
        ]
        return found
    if item.now and kind not in ("timestamp", "date", "?"):
        found.append(f"'now' is for timestamps and dates, and '{item.name}' is neither; remove the mark")
    if item.unique and item.type is not None and _not_unique(item.type):
        found.append(f"'{item.name}' cannot be unique: {article(kind)} cannot be compared exactly; remove the mark")
    if item.optional is not None and kind in ("set", "list"):
        found.append(f"'{item.name}' cannot be optional: a {kind} is never missing, only empty; remove the mark")
    filled = [name for name, is_on in (("now", item.now), ("from", item.source), ("default", draft.default)) if is_on]
    if len(filled) > 1:
        found.append(f"'{item.name}' has both '{filled[0]}' and '{filled[1]}'; keep one")
    if item.skew is not None and item.top is not None:
        found.append(f"'{item.name}' has both 'skew' and 'top', which say the same thing twice; keep one")
    return found


def _not_unique(type: Type) -> bool:
    return type.kind in ("float", "json") or type.is_collection


def _same_values(one: Type, other: Type) -> bool:
    if "?" in (one.kind, other.kind):
        return True
    if one.kind in ("string", "text") and other.kind in ("string", "text"):
        return True
    if one.kind == "enum" and other.kind == "enum":
        return {name for name, _ in other.values} <= {name for name, _ in one.values}
    if one.of is not None and other.of is not None:
        return one.kind == other.kind and _same_values(one.of, other.of)
    return one.kind == other.kind and one.scale == other.scale
