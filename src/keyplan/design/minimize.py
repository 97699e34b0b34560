"""The least value of a binary program, by HiGHS: without integers first, then among the views that this used, then all.

The first run is a bound that no choice is below, the second a good choice. A variable that by the first run's reduced
cost adds more than the two differ by is in no cheaper choice, so that the third run, which proves the answer, does
without most of them. Limits are nodes, never seconds, so that the same model gives the same design on every machine.
"""

from __future__ import annotations

from typing import Any

from keyplan.design.program import Linear
from keyplan.errors import KeyplanError

GAP = 1e-9
ROUNDS = 10
"""How often rows are added to the program without integers: after three or four, hardly any are found."""
UNUSED = 1e-7
"""Values up to this are none."""
TOLERANCE = 1e-3
"""How much more than the difference a reduced cost has to be, of an objective of some 100,000."""


def minimize(linear: Linear, views: int, scale: float, node_limit: int) -> tuple[list[float], float] | None:
    """The values of all variables and the proven bound, times the scale; None if no choice meets all rows.

    The first variables are the views, that many.
    """
    import highspy
    import numpy

    lower, upper = numpy.zeros(len(linear.costs)), numpy.array(linear.upper)
    every = numpy.arange(len(linear.costs), dtype=numpy.int32)
    is_view = every < views
    kinds = numpy.array([highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger])
    highs = _loaded(linear, scale, node_limit)
    if not _relaxed(highs, linear):
        return None
    highs.setOptionValue("presolve", "choose")
    least, relaxed = highs.getInfo().objective_function_value, highs.getSolution()
    used = numpy.array(relaxed.col_value) > UNUSED
    highs.changeColsIntegrality(len(every), every, kinds[numpy.array(linear.integer, dtype=int)])
    highs.changeColsBounds(len(every), every, lower, numpy.where(is_view & ~used, 0.0, upper))
    if _solved(highs):
        found, difference = highs.getSolution(), highs.getInfo().objective_function_value - least
        too_dear = ~used & (numpy.array(relaxed.col_dual) > difference + TOLERANCE)
        highs.changeColsBounds(len(every), every, lower, numpy.where(too_dear, 0.0, upper))
        highs.setSolution(found)
    else:
        highs.changeColsBounds(len(every), every, lower, upper)
    if not _solved(highs):
        return None
    return list(highs.getSolution().col_value), highs.getInfo().mip_dual_bound


def least_value(linear: Linear, scale: float) -> float | None:
    """What no choice is below, times the scale: the least value if views could be had in part; None if even then not
    all rows can be met."""
    highs = _loaded(linear, scale, 0)
    return float(highs.getInfo().objective_function_value) if _relaxed(highs, linear) else None


def _relaxed(highs: Any, linear: Linear) -> bool:
    """Runs the solver without integers, again with the further rows that its answer did not meet, until there are none;
    whether there is an answer."""
    import numpy

    highs.setOptionValue("presolve", "off")  # each run begins where the last one ended, and is over sooner without
    for _ in range(ROUNDS):
        if not _solved(highs):
            return False
        rows = list(linear.implied.violated(highs.getSolution().col_value))
        if not rows:
            return True
        starts = numpy.cumsum([0, *(len(row) for row, _ in rows[:-1])], dtype=numpy.int32)
        index = numpy.array([column for row, _ in rows for column in row], dtype=numpy.int32)
        value = numpy.array([weight for row, _ in rows for weight in row.values()], dtype=numpy.float64)
        low = numpy.array([bound for _, bound in rows], dtype=numpy.float64)
        highs.addRows(len(rows), low, numpy.full(len(rows), numpy.inf), len(index), starts, index, value)
    return _solved(highs)  # what was known of an answer is gone with the rows that were added last


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
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return False
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit):
        raise KeyplanError(f"design: the solver stopped with '{highs.modelStatusToString(status)}'")
    return True
