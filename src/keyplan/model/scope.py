"""Conditions, orders and parameters of patterns and writes: names resolved, values typed.

Everything here reports what is wrong and goes on; None stands for what could not be resolved.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from keyplan import units
from keyplan.model.entity import Column
from keyplan.model.model import Model, UnknownPathError
from keyplan.model.pattern import CUTS, Ago, Condition, Literal, Operand, Order, Param, Path
from keyplan.model.reading import CALL_ARGUMENTS, Reader
from keyplan.model.source import Node, Report, Text
from keyplan.model.syntax import (
    Call,
    Name,
    Number,
    Quoted,
    Sort,
    Test,
    TextError,
    Value,
    parse_order,
    parse_where,
    shown,
)
from keyplan.model.types import Type, article, such_as
from keyplan.model.validate import leads_to_unknown
from keyplan.model.values import parse, truncate, truncated_type

TEXTS = ("string", "text")
MOST_LISTED = 1000
FUNCTIONS: Final = ("begins_with", "contains", "present", "missing", "search")


class Params:
    """The parameters of one call, each with one type."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.types: dict[str, Type] = {}
        self.cuts: dict[str, bool] = {}

    def add(self, node: Node, name: str, type: Type, *, cut: bool = False) -> None:
        """Notes a use; another use with a type that accepts other values is a problem."""
        if type.kind == "?" or (type.of is not None and type.of.kind == "?"):
            self.types.setdefault(name, type)
            return
        known = self.types.get(name)
        if known is None:
            plain = Text(node.line, node.path, name)
            if "." not in name and self.reader.name(plain, "a parameter") and name in CALL_ARGUMENTS:
                self.reader.report.add(
                    node, f"the parameter ':{name}' has the name of an argument that every call has; rename it"
                )
        elif known.kind != "?" and (not _same_arguments(known, type) or self.cuts[name] != cut):
            what = f"{known} and {type}"
            if self.cuts[name] != cut and _same_arguments(known, type):
                what = f"a {type.kind} and a moment to be truncated"
            self.reader.report.add(node, f"the parameter ':{name}' has two types, {what}; use two parameters")
            return
        else:
            return
        self.types[name] = type
        self.cuts[name] = cut


class Scope(Reader):
    """Resolves what is said about the rows of an entity."""

    def __init__(self, report: Report, model: Model) -> None:
        super().__init__(report)
        self.model = model

    def entity(self, node: Node, what: str) -> str | None:
        """The name of an entity that exists."""
        name = self.text(node, what)
        if name is None or name in self.model.entities:
            return name
        self.report.add(node, f"unknown entity '{shown(name)}'{self.report.among(name, self.model.entities)}")
        return None

    def rows(self, entity: str, node: Node | None, where: tuple[Condition, ...] = ()) -> float | None:
        """How many rows match, which is at most how many there can be."""
        rows = self.amount(node, "rows", units.parse_count)
        if node is None or rows is None:
            return rows
        most, why = self.most(entity, where)
        if rows > most:
            self.report.add(node, f"{units.format_count(rows)} rows cannot match, since {why}; correct one")
        return rows

    def most(self, entity: str, where: tuple[Condition, ...]) -> tuple[float, str]:
        """How many rows can match at most, and what says so."""
        here = self.model.entities[entity]
        if entity not in self.report.keyless and self.fixes_one(entity, where):
            return 1, f"the key or a unique value of '{entity}' is given, and one row has it"
        bounds: list[tuple[float, str]] = [(here.count, f"'{entity}' has {units.format_count(here.count)}")]
        fixed = self.fixed(where)
        for name, item in here.fields.items():
            columns = {column.name for column in here.columns.values() if column.field == name}
            if item.most is not None and columns and columns <= fixed:
                bounds.append((item.most, f"'{name}' is given, and at most {item.most} rows have the same"))
        return min(bounds)

    def path(self, entity: str, text: str, node: Node) -> Path | None:
        """A path to a column."""
        try:
            return self.model.resolve(entity, text)
        except UnknownPathError as error:
            if not leads_to_unknown(self.report, self.model, entity, text):
                self.report.add(node, str(error))
            return None

    def field_columns(self, entity: str, node: Text) -> list[Column]:
        """The columns of an own field, or one column of a composite reference by its dotted name."""
        columns = self.model.entities[entity].columns.values()
        found = [column for column in columns if node.text in (column.name, column.field) and not column.hidden]
        if not found:
            hint = self.report.among(node.text, self.model.entities[entity].fields)
            self.report.add(node, f"'{entity}' has no field '{shown(node.text)}'{hint}")
        return found

    def conditions(self, entity: str, node: Node | None, params: Params, what: str) -> tuple[Condition, ...]:
        """The conditions of a `where` or `if`: one text, or a list of texts."""
        found: list[Condition] = []
        for text in [] if node is None else self.texts(node, what):
            try:
                tests = parse_where(text.text)
            except TextError as error:
                self.report.add(text, str(error))
                continue
            for test in tests:
                condition = self.condition(entity, test, text, params)
                if condition is not None:
                    if what == "if":
                        self.own_field(entity, condition, text)
                    found.append(condition)
        return tuple(found)

    def own_field(self, entity: str, condition: Condition, node: Node) -> None:
        for path in (condition.path, *condition.also):
            if path.roles or self.model.column(entity, path).computed is not None:
                self.report.add(
                    node, f"'if' looks at the row's own stored fields only, and '{path}' is none of them; name one"
                )

    def condition(self, entity: str, test: Test, node: Node, params: Params) -> Condition | None:
        if test.op == "":
            assert isinstance(test.left, Call)
            return self.function(entity, test.left, node, params)
        cut: str | None = None
        left = test.left
        if isinstance(left, Call):
            cut = left.name
            if cut not in CUTS:
                hint = self.report.near(cut, CUTS) or f"; the truncations are {', '.join(CUTS)}"
                if cut in FUNCTIONS:
                    hint = "; it is a condition by itself and takes no comparison"
                elif cut in ("count", "sum", "min", "max"):
                    hint = "; make it a computed field, and compare that"
                self.report.add(node, f"'{shown(cut)}(...)' cannot stand before '{test.op}'{hint}")
                return None
            if len(left.arguments) != 1 or not isinstance(left.arguments[0], Name):
                self.report.add(node, f"'{cut}' takes one path; write {cut}(placed_at)")
                return None
            left = left.arguments[0]
        path = self.path(entity, left.text, node)
        if path is None:
            # the parameters are still parameters, so that the signature is known
            for value in test.values:
                if isinstance(value, Param):
                    params.add(node, value.name, Type("?"))
            return None
        type = self.model.column(entity, path).type
        if cut is not None and type.kind != "?":
            try:
                type = truncated_type(type, cut)
            except ValueError as error:
                self.report.add(node, f"'{left.text}': {error}")
                return None
        if not self.comparable(left.text, type, test.op, node):
            return None
        return self.comparison(path, type, cut, test, node, params)

    def comparable(self, text: str, type: Type, op: str, node: Node) -> bool:
        message = ""
        if type.kind == "json":
            message = f"'{text}' is json, which is opaque and cannot be in a condition; make what you ask for a field"
        elif type.kind == "set":
            message = f"'{text}' is a set; use contains({text}, :value)"
        elif type.kind == "list":
            message = f"'{text}' is a list, which cannot be in a condition; make it a set"
        elif op == "!=" and type.kind not in ("enum", "bool", "?"):
            message = f"'!=' is for enum and bool only, and '{text}' is {type}; use a range, or an enum"
        if message:
            self.report.add(node, message)
        return not message

    def comparison(
        self, path: Path, type: Type, cut: str | None, test: Test, node: Node, params: Params
    ) -> Condition | None:
        operands: list[Operand] = []
        alone = test.op == "in" and len(test.values) == 1 and isinstance(test.values[0], Param)
        if test.op == "in" and len(test.values) > MOST_LISTED:
            self.report.add(node, f"'in' lists {len(test.values)} values; at most {MOST_LISTED} are allowed")
            return None
        for value in test.values:
            if isinstance(value, Param) and alone:
                if value.size is not None and value.size > MOST_LISTED:
                    what = f"':{value.name}[{value.size:.0f}]' is too long a list"
                    self.report.add(node, f"{what}; 'in' takes at most {MOST_LISTED}, so ask in parts")
                    return None
                params.add(node, value.name, Type("list", size=value.size or 0.0, of=type), cut=cut is not None)
                operands.append(value)
                continue
            if isinstance(value, Param) and test.op == "in":
                self.report.add(
                    node,
                    f"'in' takes one list parameter or literals, not ':{value.name}' among others; keep one of them",
                )
                return None
            operand = self.operand(value, str(path), type, cut, node, params)
            if operand is None:
                return None
            operands.append(operand)
        return Condition(path, test.op, tuple(operands), cut)

    def operand(
        self, value: Value, text: str, type: Type, cut: str | None, node: Node, params: Params
    ) -> Operand | None:
        """A value that something of this type is compared with."""
        if isinstance(value, Param):
            if value.size is not None:
                self.report.add(
                    node, f"':{value.name}[..]' is a list, which only 'in' compares with; write :{value.name}"
                )
                return None
            params.add(node, value.name, type, cut=cut is not None)
            return value
        if isinstance(value, Call):
            return self.ago(value, text, type, node)
        found = self.literal(value, text, type, cut, node)
        return None if found is None else Literal(found)

    def ago(self, call: Call, text: str, type: Type, node: Node) -> Ago | None:
        if call.name == "ago" and len(call.arguments) == 1 and isinstance(call.arguments[0], Number | Param):
            self.report.add(node, "a duration has a unit and stands in quotes; write ago('30d')")
            return None
        if call.name != "ago" or len(call.arguments) != 1 or not isinstance(call.arguments[0], Quoted):
            self.report.add(
                node, f"'{shown(call.name)}(...)' is no value; write a literal, a ':parameter' or ago('30d')"
            )
            return None
        if type.kind not in ("timestamp", "date", "?"):
            self.report.add(node, f"ago(...) is a moment, and '{text}' is {type}; compare it with a timestamp or date")
            return None
        ms = self.parsed(node, "ago", units.parse_duration, call.arguments[0].text)
        return None if ms is None else Ago(ms)

    def literal(self, value: Name | Quoted | Number, text: str, type: Type, cut: str | None, node: Node) -> object:
        """A literal as a canonical value; None if it does not fit."""
        if type.kind == "?":
            return None
        if isinstance(value, Name):
            if type.kind == "bool" and value.text.lower() in ("true", "false"):
                return value.text.lower() == "true"
            hint = (
                "write ago('0s') for the present"
                if value.text.lower() == "now"
                else f"put text in quotes: '{shown(value.text)}'"
            )
            self.report.add(node, f"'{shown(value.text)}' is not a value, and two fields cannot be compared; {hint}")
            return None
        is_number = type.kind in ("int", "decimal", "float")
        if isinstance(value, Number) != is_number or type.kind == "bool":
            want = {"bool": "true or false"}.get(type.kind, "a number" if is_number else "text in quotes")
            self.report.add(node, f"'{text}' is {type}, but {shown(value.text)!r} is {_kind(value)}; write {want}")
            return None
        try:
            if cut is not None and type.kind == "date" and len(value.text) > len("2024-02-29"):
                found = parse(Type("timestamp"), value.text)
            else:
                found = parse(type, value.text)
        except ValueError as error:
            hint = self.report.near(value.text, [name for name, _ in type.values]) if type.kind == "enum" else ""
            self.report.add(node, f"'{text}' is {type}: {error}{hint or such_as(type, error)}")
            return None
        return truncate(found, cut) if cut is not None and isinstance(found, date) else found

    def function(self, entity: str, call: Call, node: Node, params: Params) -> Condition | None:
        """begins_with, contains, present, missing or search."""
        name, arguments = call.name, call.arguments
        if name not in FUNCTIONS:
            hint = self.report.near(name, FUNCTIONS) or f"; the functions are {', '.join(FUNCTIONS)}"
            if name in CUTS:
                hint = "; compare it with something"
            self.report.add(node, f"'{shown(name)}(...)' is not a condition{hint}")
            return None
        paths = arguments if name in ("present", "missing") else arguments[:-1]
        few = len(paths) != 1 if name != "search" else not paths
        if few or not all(isinstance(path, Name) for path in paths):
            shape = {"present": "path", "missing": "path", "search": "path, path, :words"}.get(name, "path, :value")
            self.report.add(node, f"'{name}' is written as {name}({shape})")
            return None
        resolved = [self.path(entity, path.text, node) for path in paths if isinstance(path, Name)]
        known = [path for path in resolved if path is not None]
        value = None if name in ("present", "missing") else arguments[-1]
        if len(known) < len(resolved):
            if isinstance(value, Param):
                params.add(node, value.name, Type("?"))
            return None
        types = [self.model.column(entity, path).type for path in known]
        wrong = _unfit(name, known, types)
        if wrong:
            self.report.add(node, wrong)
            return None
        if name == "search" and len({path.roles for path in known}) > 1:
            many = [path for path in known if self.model.is_many(entity, path.roles)]
            if many:
                self.report.add(
                    node,
                    f"search over '{many[0]}', which is to-many, takes no fields from elsewhere; search each apart",
                )
                return None
        if value is None:
            return Condition(known[0], name)
        type = types[0]
        if name == "search":
            type = Type("text")
        elif name == "contains":
            type = type.of or Type("?")
        elif name == "begins_with" and type.kind == "enum":
            type = Type("string")
        operand = self.operand(value, str(known[0]), type, None, node, params)
        return None if operand is None else Condition(known[0], name, (operand,), None, tuple(known[1:]))

    def sorts(self, node: Node | None) -> list[tuple[Sort, Text]]:
        """The terms of an `order`, as written: one text, or a list of texts."""
        found: list[tuple[Sort, Text]] = []
        for text in [] if node is None else self.texts(node, "order"):
            try:
                found += [(sort, text) for sort in parse_order(text.text)]
            except TextError as error:
                self.report.add(text, str(error))
        return found

    def order(self, entity: str, node: Node | None) -> tuple[Order, ...]:
        """An order of rows: own fields and fields over to-one roles."""
        found: list[Order] = []
        for sort, text in self.sorts(node):
            if not isinstance(sort.value, Name):
                self.report.add(text, "an order names fields, with 'asc' or 'desc' after each; write placed_at desc")
                continue
            path = self.path(entity, sort.value.text, text)
            if path is None:
                continue
            type = self.model.column(entity, path).type
            if self.model.is_many(entity, path.roles):
                self.report.add(
                    text, f"'{sort.value.text}' leads to many rows, which cannot be in an order; use a computed field"
                )
            elif not type.is_ordered:
                self.report.add(
                    text, f"'{sort.value.text}' is {article(type.kind)}, which has no order; order by another field"
                )
            elif any(path == other.path for other in found):
                self.report.add(text, f"the order names '{sort.value.text}' twice; keep one")
            else:
                found.append(Order(path, sort.descending))
        return tuple(found)

    def fixed(self, conditions: tuple[Condition, ...]) -> set[str]:
        """The own columns that a conjunction gives one value each."""
        return {
            condition.path.column
            for condition in conditions
            if condition.op == "=" and condition.cut is None and not condition.path.roles
        }

    def fixes_key(self, entity: str, conditions: tuple[Condition, ...]) -> bool:
        return set(self.model.entities[entity].key) <= self.fixed(conditions)

    def fixes_one(self, entity: str, conditions: tuple[Condition, ...]) -> bool:
        """Whether at most one row can match: the key or a unique set is fixed."""
        here = self.model.entities[entity]
        fixed = self.fixed(conditions)
        return any(set(columns) <= fixed for columns in (here.key, *here.unique))


def _unfit(name: str, paths: list[Path], types: list[Type]) -> str:
    """Why a function cannot be applied to columns of these types."""
    for path, type in zip(paths, types, strict=True):
        kind = type.kind
        if kind == "?":
            continue
        if kind == "json":
            return f"'{path}' is json, which is opaque and cannot be in a condition; make what you ask for a field"
        if name in ("present", "missing") and type.is_collection:
            return f"'{path}' is {article(kind)}, which is never missing; remove the condition"
        if name == "begins_with" and kind not in (*TEXTS, "enum"):
            return f"begins_with is for string, text and enum, and '{path}' is {type}; use a range"
        if name == "search" and kind not in TEXTS:
            return f"search is for string and text, and '{path}' is {type}; compare it as it is"
        if name == "contains" and kind != "set":
            return f"contains is for sets, and '{path}' is {type}; {'make it a set' if kind == 'list' else 'use ='}"
    return ""


def _kind(value: Quoted | Number) -> str:
    return "a number" if isinstance(value, Number) else "text"


def _same_arguments(one: Type, other: Type) -> bool:
    """Whether the same values can be given for both."""
    if one.of is not None and other.of is not None:
        return one.kind == other.kind and _same_arguments(one.of, other.of)
    if one.kind in TEXTS and other.kind in TEXTS:
        return True
    if one.kind == other.kind == "enum":
        return {name for name, _ in one.values} == {name for name, _ in other.values}
    return one.kind == other.kind and one.scale == other.scale


__all__ = ["Params", "Scope"]
