"""A design: the chosen views, how they are laid out on the engine, and how everything runs on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyplan.plan.steps import Node, Plan, WritePlan
from keyplan.plan.view import View


@dataclass(frozen=True)
class Finding:
    """Something the user should know about the model or the design."""

    severity: str
    """error, warning or note."""
    path: str
    message: str
    fix: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True)
class Structure:
    """Something physical on the engine: a table, index, collection or key family, and the views it holds."""

    name: str
    kind: str
    views: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    """What the engine needs to know besides: attribute names, projections, prefixes per view."""


@dataclass(frozen=True)
class ViewFigures:
    """What one view is expected to take up and cost."""

    rows: float = 0.0
    bytes: float = 0.0
    partitions: float = 0.0
    cost: float = 0.0
    """Per month or second as the objective's unit says: storage and every write's part."""
    because: tuple[str, ...] = ()
    """The patterns and writes that need it."""
    storage: float = 0.0
    """The part of `cost` that does not depend on any call."""


@dataclass(frozen=True)
class Objective:
    """What was minimised, and how well it is known."""

    unit: str
    value: float
    bound: float
    gap: float
    candidates: int
    seconds: float = 0.0
    per_second: float = 1.0
    """A cost per call, times calls per second, times this is a cost in `unit` (money: the seconds of a month)."""
    carrying: float = 0.0
    """The part of `value` that structures are thought to cost by being there, so that ties are broken against clutter.
    The rest is the cost of all calls and of storage."""


@dataclass(frozen=True)
class Unserved:
    """A pattern that the engine cannot serve, why, and the cheapest change that would serve it."""

    reason: str
    change: str = ""


@dataclass(frozen=True)
class Design:
    """Everything that a store needs besides the model."""

    model: str
    engine: str
    views: Mapping[str, View]
    structures: tuple[Structure, ...]
    homes: Mapping[str, tuple[str, tuple[str, ...]]]
    """Per entity: the view that is its home, and the roles that lead to it inside that view (embeds)."""
    rows: Mapping[str, Node]
    """Per entity: the plan that reads a whole row by its key, strongly; Outer paths are the key's columns."""
    dependents: Mapping[str, Node]
    """Per 'Entity.role' (to-one): the plan that finds whole rows of Entity by the target's key, strongly.
    Present where a cascade or a copy needs it; Outer paths are the target's key columns."""
    plans: Mapping[str, Plan]
    writes: Mapping[str, WritePlan]
    objective: Objective
    figures: Mapping[str, ViewFigures] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unserved: Mapping[str, Unserved] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    """The engine's own global choices, e.g. the billing mode."""
    dangling: Mapping[str, Node] = field(default_factory=dict)
    """Like `dependents`, of a target that was not there until now: where a view keeps the rows that point at nothing.
    Without it, these rows are found as any others."""
    refills: Mapping[str, Node] = field(default_factory=dict)
    """Per 'Entity.role' (to-many) of which a view keeps a subset: the plan that finds the whole child rows of one key,
    in the order of the subset, strongly; Outer paths are the key's columns. By it the next row is found when one that
    is kept goes."""
    groups: Mapping[str, Node] = field(default_factory=dict)
    """Per view that keeps a minimum or maximum of rows that may go: the plan that finds the whole rows of one group,
    strongly; Outer paths are the parts of the view's key, as text."""

    def __hash__(self) -> int:
        return id(self)
