"""Views that no cheapest design needs, because another one does all that they do for no more.

By numbers, never by shape: `u` replaces `v` if its own cost is no more, it makes no write touch more or look up more,
it stands wherever one of several views is required and `v` would do, no engine row minds, and it serves every goal
that `v` serves at no higher price and without further goals. Whatever a design does with `v`, it can do with `u`. Where
`u` may be read too often, it may take both to serve all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from keyplan.design.options.goals import Option, goals_below
from keyplan.design.problem.definition import Problem, Touched
from keyplan.engines.work import LinearRow, Work

INF = float("inf")
SAME = 1.0 + 1e-12


@dataclass
class _Uses:
    """All that a problem has to do with one view."""

    options: dict[int, list[Option]] = field(default_factory=dict)
    """Per goal number."""
    goals: int = 0
    """The same goals as the bits of a number: most pairs of views differ in them."""
    lookups: int = 0
    """The roots that it demands, as bits."""
    required: int = 0
    """The lists that it stands on, as bits."""
    weights: dict[int, float] = field(default_factory=dict)
    """Its coefficient in each row of the engine."""
    rows: Set[int] = frozenset()
    """The same rows. There are far more of them than goals, and a set is mostly found not to be within another one at
    its first member."""
    takes_room: Set[int] = frozenset()
    """Those of them that have a limit which it comes nearer to."""
    gives_room: Set[int] = frozenset()
    """Those that have a limit which it leads away from."""
    several: int = 0
    """The lists of which the engine minds whether a design has several, as bits."""
    touches: dict[str, Touched] = field(default_factory=dict)
    """Per write."""


def replaceable(problem: Problem) -> set[str]:
    """The names of views that another one, which is not among them, replaces."""
    uses = _uses(problem)
    alike: dict[tuple[str, str], list[str]] = {}
    for name, view in problem.views.items():
        alike.setdefault((view.entity, view.kind), []).append(name)
    dropped: set[str] = set()
    crowded = problem.crowds.views
    for names in alike.values():
        costs = {name: problem.fixed_cost(name) for name in names}
        names.sort(key=lambda name: (costs[name], int(name[1:])))
        fixed = [costs[name] for name in names]
        goals = [uses[name].goals for name in names]
        for position, name in enumerate(names):
            for place, other in enumerate(names):
                if fixed[place] > fixed[position]:
                    break
                if goals[position] & ~goals[place] or other == name or other in dropped or other in crowded:
                    continue
                if not _replaces(problem, uses, other, name):
                    continue
                # Of those that do the same for the same cost, the first stays.
                if place < position or not _replaces(problem, uses, name, other):
                    dropped.add(name)
                    break
    return dropped


def _uses(problem: Problem) -> Mapping[str, _Uses]:
    found = {name: _Uses() for name in problem.views}
    places: dict[str, list[int]] = {name: [] for name in found}
    for place, goal in enumerate(goals_below(root.goal for root in problem.roots)):
        for option in goal.options:
            for name in option.takes:
                found[name].options.setdefault(goal.number, []).append(option)
                places[name].append(place)
    for number, root in enumerate(problem.roots):
        for name in root.demanded_by:
            found[name].lookups |= 1 << number
    for number, (_, names) in enumerate(problem.required):
        for name in names:
            found[name].required |= 1 << number
    for number, several in enumerate(problem.couplings.several.values()):
        for name in several:
            found[name].several |= 1 << number
    for write in problem.rates:
        for name, touch in problem.touches(write).items():
            found[name].touches[write] = touch
    takes: dict[str, list[int]] = {name: [] for name in found}
    gives: dict[str, list[int]] = {name: [] for name in found}
    for number, row in enumerate(problem.couplings.rows):
        for name, weight in row.coefficients.items():
            if name in found:
                found[name].weights[number] = weight
                if _minds(row, weight):
                    takes[name].append(number)
                if _minds(row, -weight):
                    gives[name].append(number)
    for name, uses in found.items():
        uses.goals, uses.rows = _bits(places[name]), frozenset(uses.weights)
        uses.takes_room, uses.gives_room = frozenset(takes[name]), frozenset(gives[name])
    return found


def _bits(numbers: Collection[int]) -> int:
    """A number with these bits: set one by one, each would copy all that are set already."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")


def _minds(row: LinearRow, more: float) -> bool:
    """Whether a row may not hold any more where its sum is larger by so much."""
    return (more > 0 and row.high < INF) or (more < 0 and row.low > -INF)


def _replaces(problem: Problem, uses: Mapping[str, _Uses], one: str, other: str) -> bool:
    new, old = uses[one], uses[other]
    return (
        not old.goals & ~new.goals
        and not old.required & ~new.required
        and not new.lookups & ~old.lookups
        and not new.several & ~old.several
        and _rows_allow(problem, new, old)
        and _grows_no_more(problem, one, other)
        and _touches_no_more(new.touches, old.touches)
        and all(
            _serves(
                [made for made in new.options[goal] if made.takes - {one} <= option.takes - {other}],
                option,
                as_few=one in problem.growth.growing,
            )
            for goal, many in old.options.items()
            for option in many
        )
    )


def _grows_no_more(problem: Problem, one: str, other: str) -> bool:
    """Whether a view makes entries larger by no more than the other one does, and is not larger itself than that would
    be. Which of several homes others make larger depends on what else is chosen."""
    growth = problem.growth
    before = growth.added.get(other, {})
    if any(many > before.get(path, 0.0) for path, many in growth.added.get(one, {}).items()):
        return False
    if one not in growth.growing:
        return True
    sizes = (problem.costs.entry_bytes(problem.views[name], problem.facts[name]) for name in (one, other))
    return one in growth.wholes and other in growth.wholes and next(sizes) <= next(sizes)


def _rows_allow(problem: Problem, new: _Uses, old: _Uses) -> bool:
    """Whether all rows hold with the one view that hold with the other: most that do not have only one of the two."""
    if not (new.takes_room <= old.rows and old.gives_room <= new.rows):
        return False
    rows = problem.couplings.rows
    for number, weight in new.weights.items():
        before = old.weights.get(number, weight)
        if before != weight and _minds(rows[number], weight - before):
            return False
    return True


def _touches_no_more(new: Mapping[str, Touched], old: Mapping[str, Touched]) -> bool:
    for write, touch in new.items():
        before = old.get(write)
        if before is None or touch.cost > before.cost * SAME:
            return False
        if touch.share > before.share or touch.several > before.several:
            return False
    return True


def _serves(new: list[Option], old: Option, *, as_few: bool) -> bool:
    """Whether one of several options does what another one does; `as_few`: by reading no more entries."""
    below = [sub.goal.number for sub in old.subs]
    return any(
        option.cost.cost <= old.cost.cost * SAME
        and option.waits <= old.waits
        and (not as_few or _reads_no_more(option.work, old.work))
        and _is_within([sub.goal.number for sub in option.subs], below)
        for option in new
    )


def _reads_no_more(new: Work | None, old: Work | None) -> bool:
    if new is None or old is None:
        return new is old
    return new.requests <= old.requests * SAME and new.entries <= old.entries * SAME and new.varies == old.varies


def _is_within(few: list[int], many: list[int]) -> bool:
    return all(few.count(number) <= many.count(number) for number in few)
