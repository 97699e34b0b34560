"""Aggregation pipelines for the aggregates of a model, over the documents of a design.

The store answers an aggregate from kept sums or from the rows that an index finds. Who wants to ask the server itself,
in mongosh or from a dashboard, takes these: they begin at the home of the rows, unwind what is embedded or packed, look
up what lies behind references and is not copied, and group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.mongodb.bounds import id_range
from keyplan.engines.mongodb.filters import successor
from keyplan.engines.mongodb.layout import OF, Layout, Place, layout
from keyplan.engines.mongodb.script import Before, Parameter
from keyplan.engines.mongodb.values import ID, Document, Slot, encoder
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Ago, Condition, Literal, Operand, Param, Path, Pattern, Term, term_paths
from keyplan.model.values import truncated_type
from keyplan.plan.design import Design

_COMPARE = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}
_COMBINE = {"+": "$add", "-": "$subtract", "*": "$multiply"}


@dataclass(frozen=True)
class Pipeline:
    """The stages over a collection; `Parameter` and `Before` stand for values of a call."""

    collection: str
    stages: list[Document]
    parameters: tuple[str, ...]


class _NoPipelineError(Exception):
    """What a pipeline cannot say."""


def pipelines(model: Model, design: Design) -> dict[str, Pipeline | str]:
    """Per aggregate of the model: its pipeline, or why there is none."""
    places = layout(model, design)
    found: dict[str, Pipeline | str] = {}
    for name, pattern in model.patterns.items():
        if pattern.kind == "aggregate":
            try:
                found[name] = _Maker(model, design, places, pattern).make()
            except _NoPipelineError as error:
                found[name] = str(error)
    return found


@dataclass
class _Maker:
    model: Model
    design: Design
    places: Layout
    pattern: Pattern
    stages: list[Document] = field(default_factory=list)
    joined: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Role chains that were looked up, with the field that holds the row."""

    def make(self) -> Pipeline:
        pattern = self.pattern
        view, at = self._source()
        self.place = self.places.places[view, at]
        self.root = self.places.places[view, ()]
        early = [c for c in pattern.where if not self._needs_lookup(c)]
        late = [c for c in pattern.where if c not in early]
        if self.place.array:
            # What the parent's own fields decide is tested before its array is taken apart, so that an index helps.
            outside = [c for c in early if self._is_outside(c.path)]
            self._match(outside)
            self.stages.append({"$unwind": f"${self.place.array}"})
            early = [c for c in early if c not in outside]
        elif self.place.tag:
            self.stages.append({"$match": self.place.only_these})
        elif self.root.presence:
            self.stages.append({"$match": {self.root.presence: {"$exists": True}}})
        self._match(early)
        if EXPIRES in self.place.slots:
            alive = {"$gt": [{"$ifNull": [f"${self._field(Path((), EXPIRES))}", "$$NOW"]}, "$$NOW"]}
            self.stages.append({"$match": {"$expr": alive}})
        self._match(late)
        group = self._group()
        self.stages.append({"$group": group})
        self.stages.append({"$project": self._answer()})
        self._sort()
        if pattern.limit is not None and pattern.group:
            self.stages.append({"$limit": pattern.limit})
        return Pipeline(self.root.collection, self.stages, tuple(pattern.params))

    def _source(self) -> tuple[str, tuple[str, ...]]:
        """Where the rows are read: inside their parents' documents, if they stand there whole and parents are asked."""
        pattern = self.pattern
        paths = {condition.path for condition in pattern.where} | {group.path for group in pattern.group}
        paths = paths.union(*(term_paths(compute.term) for compute in pattern.compute))
        stored = set(self.model.entities[pattern.entity].stored)
        for (view, at), place in self.places.places.items():
            if place.array and at and place.entity == pattern.entity and stored <= set(place.slots):
                parent = self.model.entities[self.places.places[view, ()].entity].roles[at[-1]].field
                if any(path.roles[:1] == (parent,) for path in paths):
                    return view, at
        home, inside = self.design.homes[pattern.entity]
        return home, tuple(inside)

    # fields

    def _outer(self, path: Path) -> Path | None:
        """A path behind the parent that the rows are embedded in, as seen from the parent."""
        if not self.place.at or not self.place.array or not path.roles:
            return None
        role = self.model.entities[self.root.entity].roles[self.place.at[-1]]
        return Path(path.roles[1:], path.column) if path.roles[0] == role.field else None

    def _held(self, path: Path) -> tuple[Place, Slot] | None:
        """The slot that has the value without a lookup, and whether it is in the element or around it."""
        outer = self._outer(path)
        if outer is not None and str(outer) in self.root.slots:
            return self.root, self.root.slots[str(outer)]  # though the element may repeat it
        slot = self.place.slots.get(str(path))
        return None if slot is None else (self.place, slot)

    def _is_outside(self, path: Path) -> bool:
        held = self._held(path)
        if held is None:
            return False
        return (held[0] is self.root and not self.root.packed) or held[1].field.partition(".")[0] == ID

    def _needs_lookup(self, condition: Condition) -> bool:
        return self._held(condition.path) is None

    def _field(self, path: Path) -> str:
        """The field that has a value, looked up where no document here holds it."""
        held = self._held(path)
        if held is not None:
            place, slot = held
            inside = place.array and place is self.place and slot.field.partition(".")[0] != ID
            return f"{self.place.array}.{slot.field}" if inside else slot.field
        if not path.roles:
            raise _NoPipelineError(f"'{path}' is computed; ask the store")
        row, target = self._row(path.roles)
        there = target.slots.get(path.column)
        if there is None:
            raise _NoPipelineError(f"'{path}' is computed; ask the store")
        return f"{row}.{there.field}"

    def _row(self, roles: tuple[str, ...]) -> tuple[str, Place]:
        """The field with the row behind to-one roles, after a `$lookup`; and where rows of its entity live."""
        if self.model.is_many(self.pattern.entity, roles):
            raise _NoPipelineError(f"'{'.'.join(roles)}' has several rows; ask the store")
        entity = self.model.entity_at(self.pattern.entity, roles)
        view, at = self.design.homes[entity]
        if at:
            where = "embedded" if self.places.places[view, tuple(at)].array else "under another key"
            raise _NoPipelineError(f"rows of '{entity}' are {where}; ask the store")
        target = self.places.places[view, ()]
        if target.packed:
            raise _NoPipelineError(f"rows of '{entity}' are packed; ask the store")
        if roles in self.joined:
            return self.joined[roles], target
        owner = self.model.entity_at(self.pattern.entity, roles[:-1])
        role = self.model.entities[owner].roles[roles[-1]]
        refer = dict(zip(self.model.entities[entity].key, role.columns, strict=True))
        local = [self._field(Path(roles[:-1], refer[part.slot.path])) for part in target.parts]
        name = self.joined[roles] = "_" + "_".join(roles)
        if len(local) == 1 and not target.tag:
            look: Document = {"localField": local[0], "foreignField": ID}
        else:
            given = {f"k{number}": f"${each}" for number, each in enumerate(local)}
            names = [part.slot.field.partition(".")[2] for part in target.parts]
            key: Document = {each: f"$$k{number}" for number, each in enumerate(names)}
            key |= {OF: {"$literal": target.tag}} if target.tag else {}
            look = {"let": given, "pipeline": [{"$match": {"$expr": {"$eq": [f"${ID}", key]}}}]}
        self.stages.append({"$lookup": {"from": target.collection, **look, "as": name}})
        self.stages.append({"$unwind": {"path": f"${name}", "preserveNullAndEmptyArrays": True}})
        return name, target

    def _slot(self, path: Path) -> Slot:
        held = self._held(path)
        if held is not None:
            return held[1]
        entity = self.model.entity_at(self.pattern.entity, path.roles)
        return Slot(path.column, path.column, self.model.entities[entity].columns[path.column].type)

    # stages

    def _match(self, conditions: Sequence[Condition]) -> None:
        """One stage; conditions on the first parts of a compound `_id` become a range of it."""
        parts = [slot.field for slot in self.root.root_key]
        keyed: Document = {}
        tests = []
        for condition in conditions:
            test = self._test(condition)
            ((name, inner),) = test.items()
            if len(parts) > 1 and not self.place.tag and name in parts and not set(inner) & set(keyed.get(name, {})):
                keyed[name] = {**keyed.get(name, {}), **inner}
            else:
                tests.append(test)
        if keyed:
            tests.insert(0, id_range(parts, keyed))
        if tests:
            self.stages.append({"$match": tests[0] if len(tests) == 1 else {"$and": tests}})

    def _test(self, condition: Condition) -> Document:
        name = self._field(condition.path)
        slot = self._slot(condition.path)
        if condition.cut:
            type = truncated_type(slot.type, condition.cut)
            slot = Slot(slot.path, slot.field, type)
        values = [_operand(slot, operand) for operand in condition.operands]
        test = _tests(condition, values)
        if not condition.cut:
            return {name: test}
        cut = _truncated(f"${name}", condition.cut)
        terms = [{operator: [cut, _cut_operand(value, condition.cut)]} for operator, value in test.items()]
        present = {"$gt": [f"${name}", None]}
        return {"$expr": {"$and": [present, *terms]}}

    def _group(self) -> Document:
        key: Any = None
        if self.pattern.group:
            key = {}
            for group in self.pattern.group:
                value: Any = f"${self._field(group.path)}"
                key[group.name] = _truncated(value, group.cut) if group.cut else {"$ifNull": [value, None]}
        found: Document = {ID: key}
        for compute in self.pattern.compute:
            for path in sorted(term_paths(compute.term)):
                self._field(path)
        for compute in self.pattern.compute:
            if compute.term is None:
                found[compute.name] = {"$sum": 1}
            elif compute.how == "count":
                found[compute.name] = {"$sum": {"$cond": [{"$gt": [self._term(compute.term), None]}, 1, 0]}}
            elif compute.how == "avg":
                found[compute.name] = {"$avg": {"$toDouble": self._term(compute.term)}}
            else:
                found[compute.name] = {f"${compute.how}": self._term(compute.term)}
        return found

    def _term(self, term: Term) -> Any:
        if term.path is not None:
            return f"${self._field(term.path)}"
        if term.left is None or term.right is None:
            return {"$literal": term.number}
        return {_COMBINE[term.op]: [self._term(term.left), self._term(term.right)]}

    def _answer(self) -> Document:
        names = {group.name: f"${ID}.{group.name}" for group in self.pattern.group}
        return {ID: 0, **names, **{compute.name: 1 for compute in self.pattern.compute}}

    def _sort(self) -> None:
        """By the pattern's order, then by the groups; what is missing comes last, which in MongoDB it does not."""
        pattern = self.pattern
        if not pattern.group:
            return
        terms = [(order.path.column, -1 if order.descending else 1) for order in pattern.order]
        named = {name for name, _ in terms}
        terms += [(group.name, 1) for group in pattern.group if group.name not in named]
        lacks = {group.name for group in pattern.group if self._may_lack(group.path)}
        lacks |= {each.name for each in pattern.compute if each.how in ("min", "max", "avg")}
        flags = {f"_{name}": {"$eq": [{"$ifNull": [f"${name}", None]}, None]} for name, _ in terms if name in lacks}
        if flags:
            self.stages.append({"$set": flags})
        order: Document = {}
        for name, way in terms:
            if name in lacks:
                order[f"_{name}"] = 1
            order[name] = way
        self.stages.append({"$sort": order})
        if flags:
            self.stages.append({"$unset": list(flags)})

    def _may_lack(self, path: Path) -> bool:
        if path.roles:
            return True
        return self.model.entities[self.pattern.entity].columns[path.column].optional


def _truncated(value: Any, cut: str) -> Document:
    more = {"startOfWeek": "monday"} if cut == "week" else {}
    return {"$dateTrunc": {"date": value, "unit": cut, **more}}


def _cut_operand(value: Any, cut: str) -> Any:
    """What a truncated value is compared with: a moment of a call is truncated, too."""
    return _truncated(value, cut) if isinstance(value, Parameter | Before) else value


def _operand(slot: Slot, operand: Operand) -> Any:
    if isinstance(operand, Param):
        return Parameter(operand.name)
    if isinstance(operand, Ago):
        return Before(operand.ms)
    if isinstance(operand, Literal):
        return encoder(slot)(operand.value)
    raise _NoPipelineError(f"'{operand}' belongs to a write")


def _tests(condition: Condition, values: list[Any]) -> Document:
    """The operators of a condition; a value that is missing meets none but `missing`."""
    op = condition.op
    if op in _COMPARE:
        return {_COMPARE[op]: values[0]}
    if op == "!=":
        return {"$ne": values[0], "$exists": True}
    if op == "between":
        return {"$gte": values[0], "$lte": values[1]}
    if op == "in":
        return {"$in": values[0] if len(values) == 1 and isinstance(values[0], Parameter) else values}
    if op == "contains":
        return {"$eq": values[0]}
    if op in ("present", "missing"):
        return {"$exists": op == "present"}
    if op == "begins_with" and isinstance(values[0], str):
        above = successor(values[0])
        return {"$gte": values[0], **({} if above is None else {"$lt": above})}
    raise _NoPipelineError(f"'{op}' is tested by the store")


def filled(stages: Any, values: Mapping[str, Any], now: Any) -> Any:
    """The stages with values in place of their parameters; `now` is a function from milliseconds to a time."""
    if isinstance(stages, Parameter):
        return values[stages.name]
    if isinstance(stages, Before):
        return now(stages.ms)
    if isinstance(stages, Mapping):
        return {name: filled(each, values, now) for name, each in stages.items()}
    if isinstance(stages, list):
        return [filled(each, values, now) for each in stages]
    return stages
