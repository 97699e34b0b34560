"""Tests as condition expressions: exact for the stored form of each type, and false for missing values.

DynamoDB's own operators differ from ours in a few places, which are spelt out here: `<>` holds for a missing attribute,
BETWEEN refuses bounds in the wrong order, BOOL has no order, an empty collection is no attribute, and there is no
truncation, so that a truncated column is compared with the ends of the time it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from keyplan.engines.dynamodb.layout import Place, Slot
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.values import attribute_encoder
from keyplan.errors import UnsupportedError
from keyplan.model.predicate import compile_condition
from keyplan.model.types import Type
from keyplan.plan.edits import Test

_COMPARISONS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Expression:
    """Collects the names and values that the expressions of one operation use, each under a placeholder."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        found = self.names.get(attribute)
        if found is None:
            found = self.names[attribute] = f"#{len(self.names)}"
        return found

    def value(self, value: dict[str, Any]) -> str:
        name = f":{len(self.values)}"
        self.values[name] = value
        return name

    def into(self, body: dict[str, Any]) -> None:
        """Adds the placeholders to a request."""
        if self.names:
            body["ExpressionAttributeNames"] = {name: attribute for attribute, name in self.names.items()}
        if self.values:
            body["ExpressionAttributeValues"] = self.values


def test_term(place: Place, test: Test, use: Expression) -> str:
    """A test as a term of a condition expression."""
    slot = place.slots.get(test.path)
    if slot is None:
        raise UnsupportedError(f"view '{place.view.name}': dynamodb cannot test '{test.path}', which it does not hold")
    name = use.name(slot.attribute)
    if test.op in ("present", "missing"):
        return _presence(slot, name, test.op == "present")
    if test.cut is not None:
        return _truncated(slot, name, test, use)
    if test.value is None:
        return _presence(slot, name, test.op != "=")
    if test.op == "contains":
        return _contains(slot, name, test.value, use)
    if slot.type.kind == "bool":
        return _bool(name, test, use)

    def operand(value: Any) -> str:
        found = slot.encode(value)
        assert found is not None
        return use.value(found)

    if slot.type.is_collection and not test.value:
        return _presence_of_any(name, test.op == "!=")
    if test.op == "in":
        return _in(name, test.value, operand)  # type: ignore[arg-type]
    if test.op == "between":
        low, high = wanted(test)
        return f"({name} >= {operand(low)} AND {name} <= {operand(high)})"
    if test.op == "begins_with":
        return f"begins_with({name}, {operand(test.value)})" if test.value else f"attribute_exists({name})"
    if test.op == "!=":
        present = "" if slot.type.is_collection else f"attribute_exists({name}) AND "
        return f"({present}{name} <> {operand(test.value)})"
    if test.op in _COMPARISONS:
        return f"{name} {_COMPARISONS[test.op]} {operand(test.value)}"
    raise UnsupportedError(f"dynamodb: '{test.op}' cannot be tested by a write")


def _presence(slot: Slot, name: str, present: bool) -> str:
    if slot.type.is_collection:  # never missing, but not stored while it is empty
        return f"(attribute_exists({name}) OR attribute_not_exists({name}))" if present else _never(name)
    return _presence_of_any(name, present)


def _never(name: str) -> str:
    """A term that does not hold; it uses the name, as DynamoDB refuses placeholders that nothing uses."""
    return f"(attribute_exists({name}) AND attribute_not_exists({name}))"


def _presence_of_any(name: str, present: bool) -> str:
    return f"attribute_exists({name})" if present else f"attribute_not_exists({name})"


def _contains(slot: Slot, name: str, value: object, use: Expression) -> str:
    of = slot.type.of
    if of is None:
        raise UnsupportedError(f"dynamodb: '{slot.path}' is no set, so that nothing can be in it")
    element = attribute_encoder(of)(value)
    assert element is not None
    return f"contains({name}, {use.value(element)})"


def _bool(name: str, test: Test, use: Expression) -> str:
    holds = compile_condition(Type("bool"), test.op)
    matching = [value for value in (False, True) if holds(value, wanted(test))]
    if len(matching) == 2:
        return f"attribute_exists({name})"
    return f"{name} = {use.value({'BOOL': matching[0]})}" if matching else _never(name)


def _in(name: str, values: Sequence[Any], operand: Callable[[Any], str]) -> str:
    if not values:
        return _never(name)
    most = LIMITS.in_operands
    groups = [values[start : start + most] for start in range(0, len(values), most)]
    terms = [f"{name} IN ({', '.join(map(operand, group))})" for group in groups]
    return terms[0] if len(terms) == 1 else f"({' OR '.join(terms)})"


def _truncated(slot: Slot, name: str, test: Test, use: Expression) -> str:
    """A truncated column: each value stands for the time from its start to the next one's."""
    cut = test.cut
    assert cut is not None

    def start(value: date) -> str:
        found = slot.encode(_moment(value, slot.type))
        assert found is not None
        return use.value(found)

    def end(value: date) -> str | None:
        after = following(value, cut)
        return None if after is None else start(after)

    def within(value: date) -> str:
        until = end(value)
        low = f"{name} >= {start(value)}"
        return low if until is None else f"({low} AND {name} < {until})"

    value: Any = test.value
    if test.op == "=":
        return within(value)
    if test.op == "in":
        terms = [within(one) for one in value]
        # DynamoDB refuses brackets within brackets that nothing stands beside.
        return _never(name) if not terms else terms[0] if len(terms) == 1 else f"({' OR '.join(terms)})"
    if test.op == "<":
        return f"{name} < {start(value)}"
    if test.op == ">=":
        return f"{name} >= {start(value)}"
    if test.op == "between":
        until = end(value[1])
        low = f"{name} >= {start(value[0])}"
        return low if until is None else f"({low} AND {name} < {until})"
    until = end(value)
    if test.op == "<=":
        return f"attribute_exists({name})" if until is None else f"{name} < {until}"
    if test.op == ">":
        return _never(name) if until is None else f"{name} >= {until}"
    if test.op == "!=":
        before = f"{name} < {start(value)}"
        return before if until is None else f"({before} OR {name} >= {until})"
    raise UnsupportedError(f"dynamodb: '{test.op}' of a truncated column cannot be tested by a write")


def _moment(value: date, type: Type) -> date:
    if type.kind == "timestamp" and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value


def following(value: date, cut: str) -> date | None:
    """The truncated value after this one; None after the year 9999."""
    try:
        if cut in ("minute", "hour", "day", "week"):
            return value + timedelta(**{f"{cut}s": 1})
        if cut == "year":
            return value.replace(year=value.year + 1)
        return value.replace(year=value.year + value.month // 12, month=value.month % 12 + 1)
    except (OverflowError, ValueError):
        return None


def wanted(test: Test) -> tuple[Any, ...]:
    """The right side of a test as `compile_condition` takes it."""
    if test.op == "in":
        return (frozenset(test.value),)  # type: ignore[call-overload]
    if test.op == "between":
        return tuple(test.value)  # type: ignore[arg-type]
    return (test.value,)


def test_holds(place: Place, test: Test, entry: dict[str, Any]) -> bool:
    """Whether a test holds for an entry as it was found."""
    value = entry[test.path]
    if test.value is None and test.op not in ("present", "missing"):
        return (value is None) == (test.op == "=")
    return compile_condition(place.slots[test.path].type, test.op, test.cut)(value, wanted(test))
