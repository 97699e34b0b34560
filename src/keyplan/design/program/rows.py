"""The binary program: x (views chosen) and y (options used), as rows of a linear model.

min  sum_v fixed_v x_v + sum_o rate cost_o y_o + transaction premiums
(1) a root:              sum of its options = 1
(2) a goal below:        sum of its options >= sum of the options that raise it
(3) demanded by a view:  sum of its options >= x_v
(4) each goal and view:  sum of the options using the view <= x_v, times the branches that lead to the goal; views that
                         are alike for the goal have these options and that row in common: see `alike.py`
(5) required:            at least one of the views
(6) the engine's rows
(7) a place:             sum of the heat of the options that read it <= what it takes; these are whole numbers
(8) what several views imply together, as far as the relaxed program does not meet it by itself: see `implied.py`
(9) what entries cost that are larger beside other views, as far as an answer does not meet it: see `larger.py`
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import combinations

from keyplan.design.options.goals import Goal, Option, goals_below
from keyplan.design.problem.crowds import Crowd, Crowds
from keyplan.design.problem.definition import Problem, Root, Touched
from keyplan.design.program.alike import Alike
from keyplan.design.program.implied import Choice, Implied
from keyplan.design.program.larger import Kept, LargerEntries, Member, Reader, places_of

INF = float("inf")


@dataclass
class Linear:
    """A linear model in sparse rows."""

    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    """Where the views are decided, it is a whole number in some cheapest answer; shares of calls are not."""
    names: list[str] = field(default_factory=list)
    rows: list[dict[int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    columns: dict[str, int] = field(default_factory=dict)
    implied: Implied = field(default_factory=Implied)
    """Further rows, which tell the relaxed program what it would know with integers."""
    premiums: list[tuple[str, str, int, float]] = field(default_factory=list)
    """What transactions add: a write, a view that it touches, the variable that says whether, and the share of it."""
    larger: LargerEntries | None = None
    """Further rows, about what entries cost that others make larger."""

    def variable(
        self, name: str, cost: float, upper: float = 1.0, *, integer: bool = False, whole: bool = False
    ) -> int:
        number = len(self.costs)
        self.costs.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        self.whole.append(integer or whole)
        self.names.append(name)
        self.columns[name] = number
        return number

    def row(self, coefficients: dict[int, float], low: float = -INF, high: float = INF) -> None:
        self.rows.append(coefficients)
        self.low.append(low)
        self.high.append(high)


Columns = dict[int, list[tuple[Option, int]]]
"""Per goal number: its options in the program, and the variable of each, which those of views that are alike share."""


def build(problem: Problem, dropped: Set[str] = frozenset(), *, soft: bool = False) -> Linear:
    """The program of a problem; the first variables are the views, in order. Those `dropped` are not to be chosen, and
    nothing else is said of them. If it is `soft`, a variable per place says by how much it is read too often."""
    linear = Linear()
    for name in problem.views:
        linear.variable(name, problem.fixed_cost(name), 0.0 if name in dropped else 1.0, integer=True)
    columns: Columns = {}
    for demanded, cost in _paid_once(problem, dropped).items():
        once = linear.variable(f"once.{min(demanded)}", cost, whole=True)
        for name in sorted(demanded):
            linear.row({once: 1.0, linear.columns[name]: -1.0}, low=0.0)
        linear.implied.add({once}, {linear.columns[name] for name in demanded})
    readers: list[tuple[Goal, float, float]] = []
    for root in (root for root in problem.roots if not _is_paid_once(root)):
        times = _times(root.goal)
        known = columns.keys() if problem.growth.adding else set(times)
        readers += [
            (goal, root.rate, times[goal.number]) for goal in goals_below([root.goal]) if goal.number not in known
        ]
        _add_goal(problem, linear, columns, dropped, root.goal, root.rate, times)
        uses = {column: 1.0 for _, column in columns[root.goal.number]}
        if root.always:
            linear.row(uses, 1.0, 1.0)
        else:
            for name in sorted(root.demanded_by - dropped):
                linear.row({**uses, linear.columns[name]: -1.0}, low=0.0)
            linear.implied.add(uses.keys(), {linear.columns[name] for name in root.demanded_by - dropped})
        _raised(linear, columns, root.goal)
    for _, names in problem.required:
        linear.row({linear.columns[name]: 1.0 for name in names}, low=1.0)
        linear.implied.required.append(frozenset(linear.columns[name] for name in names if name not in dropped))
    for name, (cost, upper, integer) in problem.couplings.variables.items():
        linear.variable(name, cost, upper, integer=integer)
    for coupling in problem.couplings.rows:
        linear.row({linear.columns[k]: v for k, v in coupling.coefficients.items()}, coupling.low, coupling.high)
        if coupling.high < INF and all(k in problem.views and v >= 0 for k, v in coupling.coefficients.items()):
            left = {linear.columns[k]: v for k, v in coupling.coefficients.items() if k not in dropped}
            linear.implied.limit(left, coupling.high)
    for name, views in problem.couplings.several.items():
        _at_most_one(linear, name, [linear.columns[view] for view in views if view not in dropped])
    _limits(linear, columns, problem.crowds, soft=soft)
    _bases(problem, linear, dropped)
    if problem.costs.transactional:
        _premiums(problem, linear, dropped)
    if problem.growth.adding and not soft:
        linear.larger = _larger(problem, linear, columns, dropped, readers)
    return linear


def _is_paid_once(root: Root) -> bool:
    """Whether there is nothing to choose about a root, and nothing that it takes: it has a price."""
    return not root.always and not root.looks_up and len(root.goal.options) == 1


def _paid_once(problem: Problem, dropped: Set[str]) -> dict[frozenset[str], float]:
    """The price of such roots, by the views that make writes need them: those of the same views come together."""
    found: dict[frozenset[str], float] = {}
    for root in problem.roots:
        demanded = frozenset(root.demanded_by - dropped)
        if _is_paid_once(root) and demanded:
            cost = problem.option_cost(root.goal.options[0]) * root.rate * problem.costs.per_second
            found[demanded] = found.get(demanded, 0.0) + cost
    return found


def _larger(
    problem: Problem, linear: Linear, columns: Columns, dropped: Set[str], goals: Sequence[tuple[Goal, float, float]]
) -> LargerEntries:
    """(9): the variables of what costs more where entries are larger; rows come with answers that do not meet them."""
    found = LargerEntries(problem, linear.columns)
    for number, one in enumerate(problem.growth.adding):
        names = [name for name in one.bytes if name not in dropped]
        if len(names) == 1:
            found.sums.append(linear.columns[names[0]])
            continue
        found.sums.append(linear.variable(f"adding.{number}", 0.0))
        for name in names:
            linear.row({found.sums[-1]: 1.0, linear.columns[name]: -1.0}, low=0.0)
    for name in sorted(problem.growth.growing & linear.columns.keys() - dropped, key=linear.columns.__getitem__):
        _add_reader(problem, linear, found, [(Kept(name), linear.columns[name])], 1.0, 1.0)
    for write, name, column, share in linear.premiums if problem.growth.adding else ():
        if name in problem.growth.growing and share:
            _add_reader(problem, linear, found, [(Kept(name, write), column)], share, 1.0)
    for goal, rate, times in goals:
        options: list[tuple[Member, int]] = [
            (option, column) for option, column in columns.get(goal.number, ()) if option.work is not None
        ]
        _add_reader(problem, linear, found, options, rate * problem.costs.per_second, times)
    return found


def _add_reader(
    problem: Problem,
    linear: Linear,
    found: LargerEntries,
    members: Sequence[tuple[Member, int]],
    rate: float,
    times: float,
) -> None:
    """One reader of all that others may make larger among these."""
    paid = (one for one in members if linear.costs[one[1]] > 0)
    some = [used for member, column in paid if (used := found.used(member, column)) is not None]
    if some:
        unit = min(linear.costs[used.column] for used in some)
        more = linear.variable(f"larger.{len(found.readers)}", unit, INF)
        entities = frozenset(problem.growth.entities[place] for used in some for place, _ in used.places)
        found.add(Reader(more, unit, some, entities, rate, times))


def _add_goal(
    problem: Problem,
    linear: Linear,
    columns: Columns,
    dropped: Set[str],
    goal: Goal,
    rate: float,
    times: dict[int, float],
) -> None:
    """The options of a goal and of all below it, and that each wants its views."""
    if goal.number in columns:
        return
    hot = goal.number in problem.crowds.goals
    here = columns[goal.number] = []
    by_view: dict[str, list[int]] = {}
    choices: list[Choice] = []
    alike = Alike(_told_apart(problem, goal, dropped, each=hot))
    for options in alike.options():
        cost = problem.option_cost(options[0]) * rate * problem.costs.per_second
        column = linear.variable(f"y{goal.number}.{len(here)}", cost, INF, integer=hot, whole=True)
        here += [(option, column) for option in options]
        choices.append((tuple(frozenset(linear.columns[name] for name in one.takes) for one in options), column))
        for name in options[0].takes:
            by_view.setdefault(name, []).append(column)
    if times[goal.number] <= 1:
        linear.implied.goals.append(choices)
    for names in alike.views():
        row = dict.fromkeys((column for name in names for column in by_view.get(name, ())), 1.0)
        linear.row(row | {linear.columns[name]: -times[goal.number] for name in names}, high=0.0)
    for option, _ in here:
        for sub in option.subs:
            _add_goal(problem, linear, columns, dropped, sub.goal, rate, times)


def _told_apart(problem: Problem, goal: Goal, dropped: Set[str], *, each: bool) -> Iterator[tuple[Option, Hashable]]:
    """The options of a goal that are left, with what tells those of one view from others: each by itself, or what they
    cost and raise, and whether others may make them larger."""
    for number, option in enumerate(goal.options):
        if dropped.isdisjoint(option.takes):
            raised = tuple(sub.goal.number for sub in option.subs)
            larger = bool(problem.growth.adding) and next(places_of(problem, option), None) is not None
            yield option, number if each else (problem.option_cost(option), raised, larger)


def beyond_limit(place: Crowd) -> str:
    """The variable of a soft program that says by how much a place is read too often."""
    return f"beyond.{place.name}"


def _limits(linear: Linear, columns: Columns, crowds: Crowds, *, soft: bool) -> None:
    """(7): what all patterns read of a place, by the options that they are answered by."""
    rows: list[dict[int, float]] = [{} for _ in crowds.places]
    for number in sorted(crowds.goals & columns.keys()):
        for option, column in columns[number]:
            for which, heat in crowds.heats(option).items():
                rows[which][column] = heat
    for place, row in zip(crowds.places, rows, strict=True):
        if soft:
            row = {**row, linear.variable(beyond_limit(place), 0.0, INF): -1.0}
        else:
            linear.implied.limit(row, place.most)
        linear.row(row, high=place.most)


def _bases(problem: Problem, linear: Linear, dropped: Set[str]) -> None:
    """The engine's rows by which a view is only possible beside another one, or makes a variable one."""
    resting: dict[frozenset[int], set[int]] = {}
    for row in problem.couplings.rows:
        views = [name for name, weight in row.coefficients.items() if weight > 0]
        by = [name for name, weight in row.coefficients.items() if weight < 0]
        if len(views) == 1 and row.high == 0 and all(abs(weight) == 1 for weight in row.coefficients.values()):
            numbers = frozenset(linear.columns[name] for name in by if name not in dropped)
            resting.setdefault(numbers, set()).update(linear.columns[name] for name in views if name not in dropped)
    for numbers, resting_views in resting.items():
        linear.implied.add(numbers, resting_views | {number for number in numbers if number < len(problem.views)})


def _finish(goal: Goal, seen: set[int], finished: list[Goal]) -> None:
    """Appends a goal behind all that are below it."""
    if goal.number not in seen:
        seen.add(goal.number)
        for option in goal.options:
            for sub in option.subs:
                _finish(sub.goal, seen, finished)
        finished.append(goal)


def _times(top: Goal) -> dict[int, float]:
    """How often a plan may come to each goal: branches that have a goal in common both raise it."""
    finished: list[Goal] = []
    _finish(top, set(), finished)
    times = dict.fromkeys((goal.number for goal in finished), 0.0)
    times[top.number] = 1.0
    for goal in reversed(finished):
        most: dict[int, int] = {}
        for option in goal.options:
            raised = [sub.goal.number for sub in option.subs]
            for number in raised:
                most[number] = max(most.get(number, 0), raised.count(number))
        for number, count in most.items():
            times[number] += times[goal.number] * count
    # That is as if all options were used at once; where it says more than once, count along single plans.
    counted = _Plans(finished)
    return {number: counted.most_times(number) if many > 1 else many for number, many in times.items()}


class _Plans:
    """Counts how often one plan comes to a goal; the goals of a root, each behind all those that are below it."""

    def __init__(self, goals: Sequence[Goal]) -> None:
        self.goals = goals
        self.place = {goal.number: place for place, goal in enumerate(goals)}
        self.above: dict[int, set[int]] = {goal.number: set() for goal in goals}
        for goal in goals:
            for option in goal.options:
                for sub in option.subs:
                    self.above[sub.goal.number].add(goal.number)

    def most_times(self, number: int) -> float:
        """The most often that one plan comes to a goal: what does not lead to it need not be looked at."""
        leading: set[int] = set()
        stack = [number]
        while stack:
            more = self.above[stack.pop()] - leading
            leading |= more
            stack.extend(more)
        found = {number: 1.0}
        for place in sorted(self.place[one] for one in leading):
            goal = self.goals[place]
            sums = [sum(found.get(sub.goal.number, 0.0) for sub in option.subs) for option in goal.options]
            found[goal.number] = max(sums)
        return found[self.goals[-1].number]


def _raised(linear: Linear, columns: Columns, top: Goal) -> None:
    """(2): goals below, each once."""
    raised: dict[int, dict[int, float]] = {}
    seen = set()
    stack = [top]
    while stack:
        goal = stack.pop()
        if goal.number in seen:
            continue
        seen.add(goal.number)
        for column, option in {column: option for option, column in columns[goal.number]}.items():
            for sub in option.subs:
                row = raised.setdefault(sub.goal.number, {})
                row[column] = row.get(column, 0.0) - 1.0
                stack.append(sub.goal)
    for number, parents in raised.items():
        row = dict(parents)
        for column in {column for _, column in columns[number]}:
            row[column] = row.get(column, 0.0) + 1.0
        linear.row(row, low=0.0)


def _premiums(problem: Problem, linear: Linear, dropped: Set[str]) -> None:
    """A write that touches several self-kept entries is a transaction and pays for each of them once more; so it does,
    whatever it touches, for the calls that the model makes together with others.

    Entries that only some calls touch make a transaction of those. They pay for all they do themselves; what each call
    touches pays for the largest of these shares. Writes that touch the same views alike are transactions alike.
    """
    for writes, touched in _touched_alike(problem, dropped):
        write = writes[0]
        certain = [name for name, touch in touched.items() if touch.share >= 1.0]
        always = problem.calls[write].several_rows or _always_several(problem, dropped | set(certain))
        together = 1.0 if always else problem.calls[write].together
        for name, touch in touched.items():
            linear.costs[linear.columns[name]] += touch.cost * together
            linear.premiums += [(one, name, linear.columns[name], together) for one in writes]
        if together >= 1.0:
            continue
        some = _always_one_of(problem, certain, dropped)
        shares = {touch.share for touch in touched.values()} | {touch.several for touch in touched.values()}
        premium = linear.variable(f"p.{write}", 0.0, integer=shares <= {0.0, 1.0})
        pays = {}
        singles = []
        makes = set()
        for name, touch in touched.items():
            column = linear.columns[name]
            cost = touch.cost * (1.0 - together)
            # By itself, or with the one that is always there, it touches two entries: it makes a transaction.
            second = touch.share if some and name not in some else touch.several
            if second > 0.0:
                linear.row({premium: 1.0, column: -second}, low=0.0)
            if second >= 1.0:
                makes.add(column)
            if second >= touch.share:
                linear.costs[column] += cost
                linear.premiums += [(one, name, column, 1.0 - together) for one in writes]
                pays[name] = column
                continue
            singles.append(column)
            if cost > 0:
                pays[name] = linear.variable(f"q.{write}.{name}", cost)
                linear.row({pays[name]: 1.0, premium: -1.0, column: -1.0}, low=-1.0)
                linear.premiums += [(one, name, pays[name], 1.0 - together) for one in writes]
        if some:
            # Of those, one is always there, and where the write is a transaction it pays.
            linear.row({premium: -1.0, **{pays.get(name, linear.columns[name]): 1.0 for name in some}}, low=0.0)
        _at_most_one(linear, f"p.{write}", singles)
        linear.implied.add({premium}, makes)


def _touched_alike(problem: Problem, dropped: Set[str]) -> Iterator[tuple[list[str], dict[str, Touched]]]:
    """The self-kept views that writes touch, with what that costs all writes that do so in the same way; each time with
    these."""
    alike: dict[tuple[object, ...], tuple[list[str], dict[str, Touched]]] = {}
    for write in problem.rates:
        touched = {
            name: touch for name, touch in problem.touches(write).items() if touch.is_own and name not in dropped
        }
        calls = problem.calls[write]
        shares = tuple((name, touch.share, touch.several) for name, touch in touched.items())
        writes, sums = alike.setdefault((shares, calls.several_rows, calls.together), ([], {}))
        writes.append(write)
        for name, touch in touched.items():
            before = sums[name].cost if name in sums else 0.0
            sums[name] = replace(touch, cost=before + touch.cost)
    yield from (one for one in alike.values() if one[1])


def _at_most_one(linear: Linear, more: str, columns: Sequence[int]) -> None:
    """No two of the columns, unless the variable `more` is one: by a variable per column that says whether it or one
    before it is chosen, since there would be far more pairs."""
    before, *rest = columns or [0]
    for number, column in enumerate(rest):
        linear.row({linear.columns[more]: 1.0, before: -1.0, column: -1.0}, low=-1.0)
        if number < len(rest) - 1:
            either = linear.variable(f"{more}.{number}", 0.0)
            linear.row({either: 1.0, before: -1.0}, low=0.0)
            linear.row({either: 1.0, column: -1.0}, low=0.0)
            before = either


def _always_several(problem: Problem, touched: Set[str]) -> bool:
    """Whether every design makes the write a transaction: it touches whatever stands on two lists of which a design has
    one view each, and no view is on both."""
    lists = [set(names) for _, names in problem.required if touched >= set(names)]
    return any(one.isdisjoint(other) for one, other in combinations(lists, 2))


def _always_one_of(problem: Problem, touched: Sequence[str], dropped: Set[str]) -> set[str]:
    """The smallest list of views of which a design has one at least, and all of which each call touches.

    It makes the program's relaxation tight: any other view that the write touches is then the second one.
    """
    lists = [set(names) - dropped for _, names in problem.required]
    lists = [names for names in lists if names <= set(touched)]
    return min(lists, key=lambda names: (len(names), sorted(names)), default=set())
