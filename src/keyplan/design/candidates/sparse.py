"""What follows from a condition for another one: whether rows that are asked for are among those of a sparse view."""

from __future__ import annotations

from collections.abc import Sequence

from keyplan.model.pattern import Condition, Literal


def literals(condition: Condition) -> tuple[object, ...] | None:
    """The values that a condition names in the model itself; None if a call gives any of them."""
    values = tuple(operand.value for operand in condition.operands if isinstance(operand, Literal))
    return values if len(values) == len(condition.operands) and condition.cut is None else None


def is_literal(condition: Condition) -> bool:
    return literals(condition) is not None


def meets(value: object, state: Condition) -> bool:
    """Whether a value of the column is as a literal condition says."""
    if value is None or state.op in ("present", "missing"):
        return (value is None) == (state.op == "missing")
    listed = literals(state) or ()
    return (value in listed) == (state.op != "!=")


def follows(state: Condition, given: Condition) -> bool | None:
    """Whether a row that meets `given` is in a state: a literal condition, on one column; None if it may be or not."""
    if given == state:
        return True
    if given.path != state.path or given.cut is not None or state.cut is not None or given.also or state.also:
        return None
    if given.op == "missing":
        return meets(None, state)
    if state.op in ("present", "missing"):
        return state.op == "present"
    values = literals(given) if given.op in ("=", "in") else None
    met = {meets(value, state) for value in values or ()}
    return met.pop() if len(met) == 1 else None


def is_within(where: Sequence[Condition], given: Sequence[Condition], implied: Sequence[Condition] = ()) -> bool:
    """Whether all rows that meet `given` are rows of a view with this `where`: each of its conditions is asked for as
    it is, or is of several values, of which some are asked for."""
    return all(
        state in given
        or state in implied
        or (state.op in ("in", "!=") and any(follows(state, condition) for condition in given))
        for state in where
    )


def told_besides(where: Sequence[Condition], given: Sequence[Condition]) -> tuple[Condition, ...]:
    """What `where` says that does not follow from `given` anyway: only that makes the rows fewer."""
    return tuple(state for state in where if not any(follows(state, condition) for condition in given))
