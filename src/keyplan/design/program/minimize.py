"""The least value of a binary program, by HiGHS: without integers first, then among the views that this used, then all.

The first run is a bound that no choice is below, and often a choice; the second a good choice. A variable that by the
first run's reduced cost adds more than the two differ by is in no cheaper choice, so that the proof does without most
of them: by a few branches, or where these are not enough, by a third run. Limits are nodes, never seconds, so that the
same model gives the same design on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from keyplan.design.program.branch import (
    ROUNDS,
    TOLERANCE,
    Branching,
    add_rows,
    add_violated,
    is_whole,
    larger_rows,
    untold,
)
from keyplan.design.program.rows import INF, Linear
from keyplan.errors import KeyplanError

GAP = 1e-9
DUAL, PRIMAL = 1, 4
"""The solver's own numbers of its simplex methods."""
AGAIN = 20
"""How often the solver runs for rows about larger entries: mostly once or twice."""
FEW = 3
"""The same among the views of the relaxation, where the program is large."""
EXACT = 1_200
LITTLE = 2e-4
"""In programs of more variables, the share of the whole that such rows may still be about: each run takes as long as
all the rest. It is part of the gap that is told."""
PACE = 2
"""Over so many runs, in such programs, the bound has to rise fast enough to close the gap within all the runs that are
allowed: where there are many equal choices, each new row only leads to the next of them."""
HEURISTICS = ("mip_heuristic_run_rins", "mip_heuristic_run_rens", "mip_heuristic_run_root_reduced_cost")
"""The solver's searches for choices by smaller programs: one among the views of the relaxation is known by then."""
FAR = 0.25
"""The share of a choice among the views of the relaxation that it may be dearer than that, before others are tried."""
NEAR = 0.2
"""Those are tried whose reduced cost is up to this share of the difference."""
LARGE = 20_000
"""Where more variables than this may be in a cheaper choice, to prove one takes the general solver hours: others are
looked for among some of the views at a time, and what is left is told as the gap."""
SOME = 60
"""So many of them, beside those that are used."""
ROUGH = 2e-3
"""How far from the best among them a choice may be."""
UNUSED = 1e-7
"""Values up to this are none."""


def minimize(
    linear: Linear, views: int, scale: float, node_limit: int, below: float = INF, *, proven: bool = True
) -> tuple[list[float], float] | None:
    """The values of all variables and the proven bound, times the scale; None if no choice meets all rows, or none can
    cost less than `below`, times the scale.

    The first variables are the views, that many. Where nothing has to be `proven`, a good choice will do.
    """
    import highspy
    import numpy

    lower, upper = numpy.zeros(len(linear.costs)), numpy.array(linear.upper)
    every = numpy.arange(len(linear.costs), dtype=numpy.int32)
    is_view = every < views
    kinds = numpy.array([highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger])
    integer = kinds[numpy.array(linear.integer, dtype=int)]
    highs = _loaded(linear, scale, node_limit)
    if not _relaxed(highs, linear):
        return None
    least, relaxed, basis = highs.getInfo().objective_function_value, highs.getSolution(), highs.getBasis()
    if least >= below:
        return None
    if is_whole(linear, relaxed.col_value):
        return list(relaxed.col_value), least
    used = numpy.array(relaxed.col_value) > UNUSED
    highs.setOptionValue("presolve", "choose")
    highs.changeColsIntegrality(len(every), every, integer)
    highs.changeColsBounds(len(every), every, lower, numpy.where(is_view & ~used, 0.0, upper))
    found, value, again = None, INF, False
    # Of a large program, each run takes seconds, and better views are looked for anyway.
    is_large = len(linear.costs) > LARGE
    runs = FEW if is_large else AGAIN + 1
    some = _solved_whole(highs, linear, scale, runs)
    if some is None and is_large:
        some = _any(highs, linear, scale, relaxed, views)
    if some is not None:
        more = numpy.array(relaxed.col_dual)
        if proven and some.value - least > FAR * some.value:
            # Among few views there was nothing good: those are tried, too, that cost little more than these.
            near = used | (more <= NEAR * (some.value - least))
            highs.changeColsBounds(len(every), every, lower, numpy.where(is_view & ~near, 0.0, upper))
            highs.setSolution(some.answer)
            nearer = _solved_whole(highs, linear, scale, runs)
            some = nearer if nearer is not None and nearer.value < some.value else some
        if proven and numpy.count_nonzero(_affordable(linear, relaxed, some.value - least) & (upper > 0)) > LARGE:
            some = _widened(highs, linear, scale, relaxed, some, least, views)
        found, value, again = some.answer, some.value, some.runs > 1
        if not proven:
            return list(found.col_value), least
        upper = numpy.where(_affordable(linear, relaxed, value - least), upper, 0.0)
        if numpy.count_nonzero(upper) > LARGE:
            return list(found.col_value), least
    highs.setOptionValue("presolve", "off")
    highs.changeColsIntegrality(len(every), every, numpy.full(len(every), kinds[0]))
    highs.setBasis(basis)
    branching = Branching(highs, linear, found.col_value if found is not None else None, value)
    if branching.is_closed(upper, patient=again):
        return None if branching.values is None else (list(branching.values), branching.value)
    highs.setOptionValue("objective_bound", INF)
    highs.setOptionValue("presolve", "choose")
    highs.changeColsIntegrality(len(every), every, integer)
    highs.changeColsBounds(len(every), every, lower, upper)
    if found is not None:
        highs.setSolution(found)
        for name in HEURISTICS:
            highs.setOptionValue(name, False)
    whole = _solved_whole(highs, linear, scale)
    if whole is None:
        if branching.values is None:
            return None
        # A choice is known that meets all rows: the solver has simplified the program too far.
        highs.setOptionValue("presolve", "off")
        whole = _solved_whole(highs, linear, scale)
        if whole is None:
            return list(branching.values), least
    if branching.values is not None and branching.value < whole.value:
        return list(branching.values), min(branching.value, whole.bound)
    return list(whole.answer.col_value), whole.bound


def _relaxed(highs: Any, linear: Linear) -> bool:
    """Runs the solver without integers, again with the further rows that its answer did not meet, until there are none;
    whether there is an answer."""
    highs.setOptionValue("presolve", "off")  # each run begins where the last one ended, and is over sooner without
    for _ in range(ROUNDS):
        if not _solved(highs):
            return False
        if not add_violated(highs, linear, highs.getSolution().col_value):
            return True
    return _solved(highs)  # what was known of an answer is gone with the rows that were added last


def _affordable(linear: Linear, relaxed: Any, left: float) -> Any:
    """Whether each variable may be in a choice that costs less than what the relaxation does and what is `left`."""
    import numpy

    # What is a whole number or nothing costs so much more; a share of the calls that are transactions may not.
    is_used = numpy.array(relaxed.col_value) > UNUSED
    return is_used | ~numpy.array(linear.whole) | (numpy.array(relaxed.col_dual) <= left + TOLERANCE)


@dataclass(frozen=True)
class _Whole:
    """What the solver found with integers: the cheapest answer of its runs, what that costs with what it does not tell
    of larger entries, and what none costs less than; times the scale."""

    answer: Any
    value: float
    bound: float
    runs: int = 1


def _widened(highs: Any, linear: Linear, scale: float, relaxed: Any, best: _Whole, least: float, views: int) -> _Whole:
    """The cheapest of the choices among the views that the relaxation and cheaper choices use and some others at a
    time, those first that cost least more."""
    import numpy

    lower, upper = numpy.zeros(len(linear.costs)), numpy.array(linear.upper)
    every = numpy.arange(len(linear.costs), dtype=numpy.int32)
    is_view = every < views
    more = numpy.array(relaxed.col_dual)
    core, rest = _ranked(linear, relaxed, views)
    highs.setOptionValue("mip_rel_gap", ROUGH)
    for name in HEURISTICS:
        highs.setOptionValue(name, False)
    for start in range(0, len(rest), SOME):
        some = rest[start : start + SOME]
        if more[some[0]] > best.value - least:
            break
        core |= is_view & (numpy.array(best.answer.col_value) > UNUSED)
        tried = core.copy()
        tried[some] = True
        highs.changeColsBounds(len(every), every, lower, numpy.where(is_view & ~tried, 0.0, upper))
        highs.setSolution(best.answer)
        found = _solved_whole(highs, linear, scale, 1)
        if found is not None and found.value < best.value:
            best = found
    highs.setOptionValue("mip_rel_gap", GAP)
    return best


def _any(highs: Any, linear: Linear, scale: float, relaxed: Any, views: int) -> _Whole | None:
    """A choice among the views that the relaxation uses, which alone allow none, and some others: first those that cost
    least more, then twice as many each time."""
    import numpy

    lower, upper = numpy.zeros(len(linear.costs)), numpy.array(linear.upper)
    every = numpy.arange(len(linear.costs), dtype=numpy.int32)
    core, rest = _ranked(linear, relaxed, views)
    found, many = None, SOME
    highs.setOptionValue("mip_rel_gap", ROUGH)
    while found is None and many < 2 * max(len(rest), SOME):
        tried = core.copy()
        tried[rest[:many]] = True
        highs.changeColsBounds(len(every), every, lower, numpy.where((every < views) & ~tried, 0.0, upper))
        found = _solved_whole(highs, linear, scale, 1)
        many *= 2
    highs.setOptionValue("mip_rel_gap", GAP)
    return found


def _ranked(linear: Linear, relaxed: Any, views: int) -> tuple[Any, list[int]]:
    """Whether each variable is a view that the relaxation uses; and the other views, the one first that adds least."""
    import numpy

    core = (numpy.arange(len(linear.costs)) < views) & (numpy.array(relaxed.col_value) > UNUSED)
    order = numpy.argsort(numpy.array(relaxed.col_dual)[:views], kind="stable")
    return core, [int(view) for view in order if linear.upper[view] > 0 and not core[view]]


def _solved_whole(highs: Any, linear: Linear, scale: float, runs: int = AGAIN + 1) -> _Whole | None:
    """Runs the solver with integers, again with what its answer does not tell of entries that are larger, so often at
    most; None if there is no answer."""
    is_large = len(linear.costs) > EXACT
    best: _Whole | None = None
    bounds: list[float] = []
    for _ in range(runs):
        if not _solved(highs):
            return None
        answer, about = highs.getSolution(), highs.getInfo()
        rows = larger_rows(linear, answer.col_value)
        more = untold(linear, rows, answer.col_value) * scale
        bounds.append(about.mip_dual_bound)  # more rows never make it less
        value = about.objective_function_value + more
        if best is None or value < best.value:
            best = _Whole(answer, value, bounds[-1], len(bounds))
        else:
            best = replace(best, bound=bounds[-1], runs=len(bounds))
        if not more:
            break
        if is_large:
            left = min(more, best.value - best.bound)
            if left <= LITTLE * best.value:
                break
            if len(bounds) > PACE and (bounds[-1] - bounds[-1 - PACE]) * AGAIN < left * PACE:
                break
        add_rows(highs, rows)
    return best


def _loaded(linear: Linear, scale: float, node_limit: int) -> Any:
    """A solver that knows the program, but not yet which of its variables are integers."""
    import highspy
    import numpy

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 1)
    highs.setOptionValue("mip_rel_gap", GAP)
    highs.setOptionValue("mip_abs_gap", 1e-6)
    highs.setOptionValue("mip_max_nodes", node_limit)
    # It looks for any choice to begin with, and the relaxation leads to a better one.
    highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    # To simplify the program anew in the middle of a proof takes longer than to go on with it.
    highs.setOptionValue("mip_allow_restart", False)
    model = highspy.HighsLp()
    model.num_col_ = len(linear.costs)
    model.num_row_ = len(linear.rows)
    model.col_cost_ = numpy.array(linear.costs) * scale
    model.col_lower_ = numpy.zeros(len(linear.costs))
    model.col_upper_ = numpy.array(linear.upper)
    model.row_lower_ = numpy.array(linear.low)
    model.row_upper_ = numpy.array(linear.high)
    starts, index, value = [0], [], []
    for row in linear.rows:
        for column in sorted(row):
            index.append(column)
            value.append(row[column])
        starts.append(len(index))
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = numpy.array(starts)
    model.a_matrix_.index_ = numpy.array(index)
    model.a_matrix_.value_ = numpy.array(value)
    highs.passModel(model)
    return highs


def _solved(highs: Any) -> bool:
    """Runs the solver; whether there is an answer."""
    import highspy

    highs.run()
    status = highs.getModelStatus()
    none = highspy.HighsModelStatus
    if _is_given_up(status):
        status = _anew(highs)
    if status in (none.kInfeasible, none.kUnboundedOrInfeasible, none.kModelEmpty):  # without any view nothing is kept
        return False
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit):
        raise KeyplanError(f"design: the solver stopped with '{highs.modelStatusToString(status)}'")
    return True


def _is_given_up(status: Any) -> bool:
    """Whether the solver knows no more of a program than before: some give it up, and some end in an error where costs
    are very large beside others."""
    import highspy

    none = highspy.HighsModelStatus
    return status in (none.kUnknown, none.kNotset, none.kSolveError)


def _anew(highs: Any) -> Any:
    """What becomes of a program that the solver has given up, without what it knew of it and by its other methods."""
    import highspy

    status = highspy.HighsModelStatus.kUnknown
    known = {name: highs.getOptionValue(name)[1] for name in ("presolve", "simplex_strategy")}
    for presolve, strategy in (("on", DUAL), ("off", DUAL), ("on", PRIMAL), ("off", PRIMAL)):
        highs.clearSolver()
        highs.setOptionValue("presolve", presolve)
        highs.setOptionValue("simplex_strategy", strategy)
        highs.run()
        status = highs.getModelStatus()
        if not _is_given_up(status):
            break
    for name, value in known.items():
        highs.setOptionValue(name, value)
    return status
