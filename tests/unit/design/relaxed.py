"""The linear program with the views given and nothing else integral but how patterns that meet are answered, with the
further rows that follow from others."""

from __future__ import annotations

from typing import Any

import highspy
import numpy

from keyplan.design.problem.definition import Problem
from keyplan.design.program.rows import Linear


def value_at(problem: Problem, linear: Linear, chosen: set[str]) -> float | None:
    """The least value of the program at a choice of views; None if it has none."""
    lower = numpy.zeros(len(linear.costs))
    upper = numpy.array([min(value, highspy.kHighsInf) for value in linear.upper])
    for name in problem.views:
        lower[linear.columns[name]] = upper[linear.columns[name]] = float(name in chosen)
    costs = numpy.array(linear.costs)
    scale = 1e4 / (numpy.abs(costs).max(initial=0.0) or 1.0)
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    # Fractional plans would show as a difference: nothing is rounded here.
    highs.setOptionValue("primal_feasibility_tolerance", 1e-9)
    highs.setOptionValue("dual_feasibility_tolerance", 1e-9)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(linear.costs), len(linear.rows)
    model.col_cost_ = costs * scale
    model.col_lower_, model.col_upper_ = lower, upper
    model.row_lower_ = numpy.array([max(value, -highspy.kHighsInf) for value in linear.low])
    model.row_upper_ = numpy.array([min(value, highspy.kHighsInf) for value in linear.high])
    starts, index, weights = [0], [], []
    for row in linear.rows:
        index += list(row)
        weights += list(row.values())
        starts.append(len(index))
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = numpy.array(starts)
    model.a_matrix_.index_ = numpy.array(index)
    model.a_matrix_.value_ = numpy.array(weights)
    highs.passModel(model)
    for column, name in enumerate(linear.names):
        if linear.integer[column] and name not in problem.views and name not in problem.couplings.variables:
            highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    value = _solved(highs, linear)
    if value is None or value <= 0:
        return value
    # Small costs are lost beside very large ones. What costs more than the whole is not used, by whatever part: so much
    # less of it is as good as its price.
    costs = numpy.minimum(costs, value / scale * 10)
    scale = 1e4 / numpy.abs(costs).max()
    every = numpy.arange(len(costs), dtype=numpy.int32)
    highs.changeColsCost(len(every), every, costs * scale)
    again = _solved(highs, linear)
    return None if again is None else again / scale


def _solved(highs: Any, linear: Linear) -> float | None:
    """The value of the program, with all further rows that are not met without being told."""
    while True:
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        values = highs.getSolution().col_value
        further = list(linear.implied.violated(values))
        further += list(linear.larger.violated(values)) if linear.larger is not None else []
        if not further:
            return float(highs.getInfo().objective_function_value)
        for row, low in further:
            columns, weights = numpy.array(list(row), dtype=numpy.int32), numpy.array(list(row.values()))
            highs.addRow(low, highspy.kHighsInf, len(row), columns, weights)
