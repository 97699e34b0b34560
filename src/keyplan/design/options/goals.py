"""The graph that is searched for a design: goals, the options to reach each, and the goals that these raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, log10
from typing import NamedTuple

from keyplan.design.candidates.match import Match
from keyplan.design.candidates.measure import MeasureMatch
from keyplan.design.candidates.windows import Windowed
from keyplan.design.needs.need import Need
from keyplan.design.needs.owned import Columns
from keyplan.engines.work import Cost, Work
from keyplan.model.pattern import Select
from keyplan.plan.steps import Tell
from keyplan.plan.view import View

NO_LIMIT_MS = 1e9


class Heat(NamedTuple):
    """How often per second, at the peak, something is asked for, and the share of it that is the same."""

    per_second: float
    share: float


@dataclass(slots=True)
class Sub:
    """A goal that an option raises, and what its answer is for."""

    goal: Goal
    role: str = ""
    """The role chain that it fills in; empty: the row's own missing columns; for a computed column its name."""
    what: str = "row"
    """row, children, computed, outer, inner, rows, first, second, part, whole, edges, instead."""
    under: tuple[str, ...] = ()
    select: Select | None = None
    early: bool = False
    """Its conditions do not depend on the row, so that it runs in the same round trip as the search."""
    beyond: int | None = None
    """children: only for rows with which so many came along, which may not be all."""
    chance: float = 1.0
    """How often a row has that many."""
    if_gone: bool = False
    """computed, instead: only for rows whose `role` leads nowhere. That is so rare that no p99 tells of it."""


@dataclass(slots=True)
class Option:
    """One way to reach a goal."""

    kind: str
    """search, measure, windows, fold, apart, owned, drive, then, intersect; of what a home has along: held or
    patched."""
    view: View | None
    cost: Cost
    requests: float
    rows: float
    """Rows that it delivers per execution."""
    entries: float = 0.0
    bytes: float = 0.0
    match: Match | None = None
    measure: MeasureMatch | None = None
    subs: tuple[Sub, ...] = ()
    along: Mapping[str, Select] = field(default_factory=dict)
    sorted: bool = False
    heat: float = 0.0
    """Of a pattern's own search: the share of what the hottest place can take, at the peak."""
    reads: float = 0.0
    """Reads per second of the hottest place."""
    by_outer: bool = False
    """drive: the order is that of the outer rows."""
    windows: Windowed | None = None
    beside: str = ""
    """search: the further view that has to be there, whose documents the view leads to and brings children along."""
    tells: tuple[Tell, ...] = ()
    """search: what the children tell that come with the rows."""
    columns: Columns = ()
    """owned: the aggregates, and the columns of the row that keeps them."""

    waits: float = 0.0
    """Of a pattern: how often a call has to wait once more, because something is asked for behind this."""

    work: Work | None = None
    """search: one execution of it, of which there are so many `times`."""
    times: float = 1.0

    takes: frozenset[str] = field(init=False, repr=False)
    """The views that have to be there for it."""

    def __post_init__(self) -> None:
        if self.view is None:
            self.takes = frozenset()
        else:
            self.takes = frozenset((self.view.name, self.beside) if self.beside else (self.view.name,))

    def further_trips(self) -> float:
        """How often it takes another round trip than its own, or than those that come at the same time."""
        if self.kind == "drive":
            return 1.0
        if not self.subs or self.kind not in ("search", "intersect", "windows"):
            return 0.0
        return max((sub.chance for sub in self.subs if not sub.early), default=0.0)


@dataclass(slots=True)
class Goal:
    """A need in its place: how often it occurs per call of its root, and how much time is left for it."""

    need: Need
    times: float
    budget_ms: float
    options: list[Option] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)
    number: int = -1

    @property
    def foremost(self) -> list[str]:
        """The reasons that tell most: that there is no scan is said of every goal, and only where nothing else is."""
        return [text for text in self.rejections if "scan" not in text][:2] or self.rejections[:1]


def note_waiting(goal: Goal) -> None:
    """Has the options of a goal, and of all below it, say how often they make a caller wait."""
    seen: set[int] = set()
    stack = [goal]
    while stack:
        here = stack.pop()
        if here.number not in seen:
            seen.add(here.number)
            for option in here.options:
                option.waits = option.further_trips()
                stack.extend(sub.goal for sub in option.subs if not sub.if_gone)  # nobody waits for these


def goals_below(tops: Iterable[Goal]) -> Iterator[Goal]:
    """Goals and all below them, each once."""
    seen: set[int] = set()
    stack = list(tops)
    while stack:
        goal = stack.pop()
        if goal.number not in seen:
            seen.add(goal.number)
            yield goal
            stack.extend(sub.goal for option in goal.options for sub in option.subs)


def coarse(milliseconds: float) -> float:
    """A time budget with two digits, rounded down: goals that differ by less are one goal."""
    if milliseconds <= 0 or milliseconds >= NO_LIMIT_MS:
        return milliseconds
    step = 10.0 ** (floor(log10(milliseconds)) - 1)
    return floor(milliseconds / step + 1e-9) * step


def goal_p99(goal: Goal) -> float:
    """The least p99 with which a goal can be reached."""
    return _p99(goal, min, {})


def slowest_p99(goal: Goal) -> float:
    """The greatest p99 with which a goal may be reached, whatever is chosen below it."""
    return _p99(goal, max, {})


def _p99(goal: Goal, of: Callable[[list[float]], float], known: dict[int, float]) -> float:
    """The least or greatest p99 of a goal's options; many of them come to the same goals, whose own is then `known`."""
    found = known.get(goal.number)
    if found is None:
        each = [_option_p99(option, of, known) for option in goal.options]
        found = known[goal.number] = of(each) if each else 0.0
    return found


def _option_p99(option: Option, of: Callable[[list[float]], float], known: dict[int, float]) -> float:
    if not option.subs:
        return 0.0 if option.kind in ("drive", "then") else option.cost.p99_ms
    early = [_p99(sub.goal, of, known) for sub in option.subs if sub.early]
    late = [_p99(sub.goal, of, known) for sub in option.subs if not sub.early and not sub.if_gone]
    if option.kind in ("drive", "then"):
        return sum(late)
    return max([option.cost.p99_ms, *early]) + max(late, default=0.0)


def goal_cost(goal: Goal) -> float:
    """The least that reaching a goal can cost, whatever views there are."""
    return _least(goal, {})


def _least(goal: Goal, known: dict[int, float]) -> float:
    if goal.number not in known:
        known[goal.number] = 0.0
        sums = [option.cost.cost + sum(_least(sub.goal, known) for sub in option.subs) for option in goal.options]
        known[goal.number] = min(sums, default=0.0)
    return known[goal.number]
