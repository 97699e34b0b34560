"""What is asked: patterns, and the conditions and expressions they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from keyplan.model.types import Type
from keyplan.units import format_duration

CUTS = ("minute", "hour", "day", "week", "month", "year")
RANGES = ("<", "<=", ">", ">=", "between", "begins_with")
"""The operators that bound a value, so that an ordered key can answer them."""


class Path(NamedTuple):
    """A chain of roles from an entity, and a column at the end of it."""

    roles: tuple[str, ...]
    column: str

    def __str__(self) -> str:
        return ".".join((*self.roles, self.column)) if self.roles else self.column


@dataclass(frozen=True)
class Param:
    """A `:name` in a condition; `size` is the usual length of an `in` list (`:skus[20]`)."""

    name: str
    size: float | None = None
    negative: bool = False
    """`-:n`, in `add` only."""

    def __str__(self) -> str:
        return f"{'-' if self.negative else ''}:{self.name}"


@dataclass(frozen=True)
class Literal:
    """A value written into the model, canonical for the type it is compared with."""

    value: object

    def __str__(self) -> str:
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class Ago:
    """`ago('30d')`: that long before the call's clock reading."""

    ms: int

    def __str__(self) -> str:
        return f"ago('{format_duration(self.ms)}')"


@dataclass(frozen=True)
class Now:
    """`now` in a write: the call's clock reading."""

    def __str__(self) -> str:
        return "now"


@dataclass(frozen=True)
class Outer:
    """A value of the row that a nested read runs for; made by plans, never by models."""

    path: str

    def __str__(self) -> str:
        return f"its {self.path}"


Operand = Param | Literal | Ago | Now | Outer


@dataclass(frozen=True)
class Condition:
    """`path op operands`.

    op is one of = != < <= > >= in between begins_with contains present missing search.
    `in` has either one Param (a list) or any number of other operands; between has two; present and missing none.
    """

    path: Path
    op: str
    operands: tuple[Operand, ...] = ()
    cut: str | None = None
    """The truncation around the path: one of CUTS."""
    also: tuple[Path, ...] = ()
    """search: the further fields."""

    def __hash__(self) -> int:
        """Worked out once: what is found out about conditions is remembered under them."""
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash((self.path, self.op, self.operands, self.cut, self.also))
        return known

    def __str__(self) -> str:
        """As the model language writes it."""
        left = f"{self.cut}({self.path})" if self.cut else str(self.path)
        values = [str(operand) for operand in self.operands]
        if self.op in ("present", "missing", "begins_with", "contains", "search"):
            return f"{self.op}({', '.join((left, *map(str, self.also), *values))})"
        if self.op == "between":
            return f"{left} between {values[0]} and {values[1]}"
        if self.op == "in":
            is_list = len(values) == 1 and isinstance(self.operands[0], Param)
            return f"{left} in {values[0]}" if is_list else f"{left} in ({', '.join(values)})"
        return f"{left} {self.op} {values[0]}"


@dataclass(frozen=True)
class Order:
    """One term of an order. On aggregates `path` has no roles and names a group or compute key."""

    path: Path
    descending: bool = False


@dataclass(frozen=True)
class Term:
    """An expression over fields: a path, a number, or `left op right`."""

    path: Path | None = None
    number: object = None
    op: str = ""
    left: Term | None = None
    right: Term | None = None


def term_paths(term: Term | None) -> set[Path]:
    """The fields that an expression reads."""
    if term is None:
        return set()
    found = {term.path} if term.path is not None else set()
    return found | term_paths(term.left) | term_paths(term.right)


@dataclass(frozen=True)
class Compute:
    """One aggregate: count, sum, min, max or avg of an expression; count has none."""

    name: str
    how: str
    term: Term | None = None
    type: Type | None = None


@dataclass(frozen=True)
class Group:
    """One grouping key: a path, perhaps truncated, under the name it has in the answer."""

    name: str
    path: Path
    cut: str | None = None


@dataclass(frozen=True)
class Select:
    """The tree of what comes back of one entity's rows.

    `columns` are own columns (by column name); `roles` holds a Select per expanded role.
    """

    columns: tuple[str, ...]
    roles: Mapping[str, Select] = field(default_factory=dict)
    order: tuple[Order, ...] = ()
    """To-many only: the order of the children; by key if empty."""
    limit: int | None = None

    def __hash__(self) -> int:
        return hash((self.columns, tuple(self.roles.items()), self.order, self.limit))


@dataclass(frozen=True)
class Traffic:
    """How often something happens."""

    rate: float
    """Mean, per second."""
    peak: float = 1.0
    """Highest sustained rate over the mean."""
    peak_hours: float = 1.0
    """Hours of the day it lasts."""
    skew: float | None = None
    top: float | None = None


DEFAULT_PAGE = 100
"""Rows of a page where a pattern names neither `page` nor `limit`."""


@dataclass(frozen=True)
class Pattern:
    """A named read.

    kind: find (rows), aggregate (count, sum, min, max, avg, compute) or rank.
    one: a `where` that fixes the key or a unique set: the answer is a row or None.
    """

    name: str
    kind: str
    entity: str
    where: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    page: int | None = None
    limit: int | None = None
    select: Select = field(default_factory=lambda: Select(()))
    group: tuple[Group, ...] = ()
    compute: tuple[Compute, ...] = ()
    scalar: bool = False
    """An aggregate without group and `compute`: the answer is the bare value of compute[0]."""
    of: tuple[Condition, ...] = ()
    """rank: equality conditions on the key, one per key column."""
    one: bool = False
    rows: float | None = None
    traffic: Traffic = field(default_factory=lambda: Traffic(1.0))
    p99_ms: float | None = None
    consistency: str = "eventual"
    stale_ms: int | None = None
    params: Mapping[str, Type] = field(default_factory=dict)
    """In order of first appearance; an `in` list's parameter has a list type."""
    note: str = ""
    line: int = 0
