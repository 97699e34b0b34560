"""From what a caller gives to canonical values: parameters, references and the parts of a transaction.

Nothing here knows an engine, so that every store and `reference` refuse the same calls in the same words:
`place_order: unknown argument 'usr'; did you mean 'user'?`. Rows to be created are made in `new_row`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from keyplan.errors import ArgumentError, nearest, quoted
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Param, Pattern
from keyplan.model.types import Type, to_give
from keyplan.model.values import canonical, checker
from keyplan.model.write import Transaction, Write

IN_MOST = 1000
"""The most different values an `in` list may have."""

Check = Callable[[object], Any]


class Binder:
    """Turns the keyword arguments of one pattern or write into its parameters' canonical values.

    Make it once and call it per call. It is not for creates and whole upserts, whose arguments are the fields of a row;
    see `new_row`.
    """

    def __init__(self, model: Model, call: Pattern | Write) -> None:
        self.label = call.name
        self.types = call.params
        self.checks: dict[str, Check] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        """Arguments that stand for several parameters: a composite reference and its dotted columns."""
        uses = _Uses(model, call)
        for name, type in call.params.items():
            self.checks[name] = uses.check(name, type)
            head, dot, _ = name.partition(".")
            if dot:
                self.groups[head] = (*self.groups.get(head, ()), name)
        self.names = tuple(dict.fromkeys(name.partition(".")[0] for name in self.checks))
        self.nullable = uses.nullable
        self.lists = uses.lists

    def __call__(self, arguments: Mapping[str, Any], label: str | None = None) -> dict[str, Any]:
        label = label or self.label
        check_names(label, self.names, arguments)
        missing = [name for name in self.names if name not in arguments]
        if missing:
            raise missing_arguments(label, missing)
        values: dict[str, Any] = {}
        for name in self.names:
            given = arguments[name]
            columns = self.groups.get(name)
            if columns is None:
                values[name] = self.value(label, name, name, given)
            elif given is None:
                values |= {column: self.value(label, name, column, None) for column in columns}
            else:
                parts = spread(label, name, [column[len(name) + 1 :] for column in columns], given)
                if None in parts:
                    raise partly_missing(label, name)
                values |= {
                    column: self.value(label, name, column, part) for column, part in zip(columns, parts, strict=True)
                }
        return values

    def value(self, label: str, name: str, param: str, given: Any) -> Any:
        if given is None:
            if param in self.nullable:
                return None
            raise ArgumentError(f"{label}: argument '{name}' is None; give a value")
        try:
            return self.checks[param](given)
        except ValueError as error:
            raise unfit(label, name, self.types[param], error) from None


def bind_params(
    model: Model, call: Pattern | Write, arguments: Mapping[str, Any], label: str | None = None
) -> dict[str, Any]:
    """The parameters of one call, for those who do not call often enough to hold on to a Binder."""
    return Binder(model, call)(arguments, label)


class _Uses:
    """What the parameters of a call are used for, which decides what they may be."""

    def __init__(self, model: Model, call: Pattern | Write) -> None:
        self.lists: set[str] = set()
        """Parameters that `in` looks for."""
        self.cuts: dict[str, set[str]] = {}
        self.nullable: set[str] = set()
        """Parameters that do nothing but set optional fields: None clears them."""
        conditions = (*call.where, *(call.of if isinstance(call, Pattern) else call.condition))
        fixed: set[str] = set()
        for condition in conditions:
            for name in _params(condition):
                fixed.add(name)
                if condition.op == "in":
                    self.lists.add(name)
                if condition.cut is not None:
                    self.cuts.setdefault(name, set()).add(condition.cut)
        if isinstance(call, Write):
            columns = model.entities[call.entity].columns
            fixed |= {operand.name for operand in call.adds.values() if isinstance(operand, Param)}
            for column, operand in call.sets.items():
                if isinstance(operand, Param):
                    (self.nullable if columns[column].optional else fixed).add(operand.name)
        self.nullable -= fixed

    def check(self, name: str, type: Type) -> Check:
        cuts = self.cuts.get(name)
        if name in self.lists and type.of is not None:
            return _list_check(_cut_check(cuts) if cuts else checker(type.of))
        return _cut_check(cuts) if cuts else checker(type)


def _params(condition: Condition) -> Iterable[str]:
    return (operand.name for operand in condition.operands if isinstance(operand, Param))


def _list_check(element: Check) -> Check:
    """The argument of an `in`: duplicates count once, and the order does not matter."""

    def check(value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple | set | frozenset):
            raise ValueError(f"expected a list, got {value.__class__.__name__}")
        if None in value:
            raise ValueError("holds None; leave it out")
        result = tuple(dict.fromkeys(map(element, value)))
        if len(result) > IN_MOST:
            raise ValueError(f"has {len(result)} different values; give at most {IN_MOST}")
        return result

    return check


def _cut_check(cuts: set[str]) -> Check:
    """The argument of a truncation: a timestamp, or a date where the truncation gives one."""
    timestamp, day = Type("timestamp"), Type("date")
    if cuts & {"minute", "hour"}:
        return checker(timestamp)

    def check(value: object) -> object:
        if isinstance(value, str) and len(value) > len("2024-02-29"):
            return canonical(timestamp, value)
        if isinstance(value, datetime):
            return canonical(timestamp, value)
        if isinstance(value, date | str):
            return canonical(day, value)
        raise ValueError(f"expected a date or timestamp, got {value.__class__.__name__}")

    return check


def check_names(label: str, known: Iterable[str], arguments: Mapping[str, Any]) -> None:
    """Refuses arguments that the call does not have."""
    names = tuple(known)
    for name in arguments:
        if name not in names:
            listed = ", ".join(f"'{one}'" for one in names)
            hint = nearest(str(name), names) or (f"; it takes {listed}" if names else "; it takes none")
            raise ArgumentError(f"{label}: unknown argument {quoted(name)}{hint}")


def missing_arguments(label: str, names: Sequence[str]) -> ArgumentError:
    """The error for arguments that have to be given and were not."""
    listed = ", ".join(f"'{name}'" for name in names)
    if len(names) > 1:
        return ArgumentError(f"{label}: missing arguments {listed}; give each of them a value")
    return ArgumentError(f"{label}: missing argument {listed}; give it a value")


def unfit(label: str, name: str, type: Type, error: ValueError) -> ArgumentError:
    """The error for a value that is none of its type."""
    return ArgumentError(f"{label}: argument '{name}': {error}{to_give(type, error)}")


def partly_missing(label: str, name: str) -> ArgumentError:
    """The error for a composite reference of which some parts are None."""
    return ArgumentError(f"{label}: argument '{name}' has a part that is None; give every part of the key")


def spread(label: str, name: str, parts: Sequence[str], given: Any) -> list[Any]:
    """The values of a composite reference, one per dotted part of its target's key.

    It is given as a tuple of all parts, as a tuple in which inner references are tuples (or mappings) themselves, or
    as a mapping by the names of the parts.

    >>> spread("f", "item", ["order.shop", "order.number", "line"], (("north", 7), 1))
    ['north', 7, 1]
    """
    if len(parts) == 1 and "." not in parts[0] and not isinstance(given, Mapping):
        return [given]
    heads: dict[str, list[str]] = {}
    for part in parts:
        heads.setdefault(part.partition(".")[0], []).append(part)
    if isinstance(given, Mapping):
        check_names(f"{label}: argument '{name}'", heads, given)
        missing = [head for head in heads if head not in given]
        if missing:
            raise ArgumentError(f"{label}: argument '{name}' lacks '{missing[0]}'; give every part of the key")
        by_head = dict(given)
    elif isinstance(given, tuple | list) and len(given) == len(parts):
        return list(given)
    elif isinstance(given, tuple | list) and len(given) == len(heads):
        by_head = dict(zip(heads, given, strict=True))
    else:
        listed = ", ".join(parts)
        raise ArgumentError(f"{label}: argument '{name}' is a reference of {len(parts)} parts; give ({listed})")
    found: dict[str, Any] = {}
    for head, group in heads.items():
        if group == [head]:
            found[head] = by_head[head]
        else:
            inner = spread(label, f"{name}.{head}", [part[len(head) + 1 :] for part in group], by_head[head])
            found |= zip(group, inner, strict=True)
    return [found[part] for part in parts]


def field_values(entity: Entity, label: str, name: str, field: str, given: Any) -> dict[str, Any]:
    """The columns of one field, from what was given for it; None is right for optional fields only.

    `name` is what messages call the argument; it differs from the field inside nested rows.
    """
    columns = [column for column in entity.columns.values() if column.field == field]
    if given is None:
        if not all(column.optional for column in columns):
            raise ArgumentError(f"{label}: argument '{name}' is None; give a value")
        return {column.name: None for column in columns}
    parts = [given]
    if len(columns) > 1:
        parts = spread(label, name, [column.name[len(field) + 1 :] for column in columns], given)
    values: dict[str, Any] = {}
    for column, part in zip(columns, parts, strict=True):
        if part is None:
            raise partly_missing(label, name)
        try:
            values[column.name] = canonical(column.type, part)
        except ValueError as error:
            raise unfit(label, name, column.type, error) from None
    return values


@dataclass(frozen=True)
class Part:
    """One write of a transaction's call, with its own arguments."""

    write: Write
    label: str
    arguments: Mapping[str, Any]
    many: bool


def transaction_parts(model: Model, transaction: Transaction, arguments: Mapping[str, Any]) -> list[Part]:
    """The writes of one call of a transaction, in order; `checkout(place_order={…}, take_stock=[{…}, …])`."""
    label = transaction.name
    check_names(label, [repeat.write for repeat in transaction.parts], arguments)
    missing = [repeat.write for repeat in transaction.parts if not repeat.many and repeat.write not in arguments]
    if missing:
        raise missing_arguments(label, missing)
    parts: list[Part] = []
    for repeat in transaction.parts:
        write = model.writes[repeat.write]
        given = arguments.get(repeat.write, ())
        if given is None:
            what = "give a list of arguments, or leave it out" if repeat.many else "give its arguments"
            raise ArgumentError(f"{label}: argument '{write.name}' is None; {what}")
        if not repeat.many:
            parts.append(Part(write, f"{label}: {write.name}", _mapping(label, write.name, given), False))
            continue
        if not isinstance(given, list | tuple):
            what = f"expected a list, got {given.__class__.__name__}; give a list of arguments"
            raise ArgumentError(f"{label}: argument '{write.name}': {what}")
        if len(given) > repeat.most:
            raise ArgumentError(f"{label}: argument '{write.name}' has {len(given)} writes; give at most {repeat.most}")
        for index, one in enumerate(given):
            name = f"{write.name}[{index}]"
            parts.append(Part(write, f"{label}: {name}", _mapping(label, name, one), True))
    return parts


def _mapping(label: str, name: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"{label}: argument '{name}': expected a mapping, got {given.__class__.__name__}; give its arguments"
        )
    return given
