"""Proves a choice by branching on the program without integers: where that takes few branches, it is over long before a
general solver, which simplifies and probes the whole program first.

Each branch begins where the last one ended and takes a few steps of the simplex method. A branch ends where nothing
cheaper is left in it; a variable that by its reduced cost adds more than is left to gain is in none of its branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyplan.design.program.rows import Linear

WHOLE = 1e-6
"""How far from an integer a value may be that is one."""
SAME = 1e-6
"""Choices that differ by no more, of an objective of some 100,000, are equally cheap."""
TOLERANCE = 1e-3
"""How much more than what is left to gain a reduced cost has to be."""
ROUNDS = 10
"""How often rows are added to the program without integers: after three or four, hardly any are found."""
BRANCHES = 60
"""So many are tried: more take longer than the general solver."""
STEPS = 600_000
"""Where entries may be larger beside others, so many branches times variables are tried: each branch adds the rows
about that as it needs them, and the general solver begins anew for them, again and again."""
VARIABLES = 5_000
"""Larger programs are not closed by so few."""
UNDECIDED = 2_000
"""Nor are those in which so many variables may be used in a cheaper choice, unless the general solver takes as long."""
PATIENT = 150
"""So many branches are tried of those."""


class Branching:
    """A search for a choice that is cheaper than the cheapest known, or for the proof that there is none.

    The solver has an answer of the program without integers, and knows none of its variables as one.
    """

    def __init__(self, highs: Any, linear: Linear, values: Any, value: float) -> None:
        """`values` are the cheapest choice known, and `value` what it costs: infinitely much if none is known."""
        import numpy

        self.highs = highs
        self.linear = linear
        self.values = values
        self.value = value
        self.integer = numpy.array(linear.integer)
        self.whole = numpy.array(linear.whole)
        self.costs = numpy.array(highs.getLp().col_cost_)

    def is_closed(self, upper: Any, *, patient: bool = False) -> bool:
        """Looks for cheaper choices within bounds; whether there is none left but what is in `values` then.

        `patient`: the general solver would begin anew for rows about larger entries."""
        import highspy
        import numpy

        nothing_left = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kObjectiveBound)
        every = numpy.arange(len(upper), dtype=numpy.int32)
        branches = [(numpy.zeros(len(upper)), upper)]
        most = BRANCHES if self.linear.larger is None else max(BRANCHES, STEPS // len(upper))
        is_small = len(upper) <= VARIABLES
        if numpy.count_nonzero(upper) > UNDECIDED:
            is_small, most = is_small and patient, min(most, PATIENT)
        for _ in range(most if is_small else 0):
            low, high = branches.pop()
            self.highs.changeColsBounds(len(every), every, low, high)
            status, answer = self._tried()
            if status == highspy.HighsModelStatus.kOptimal:
                if is_whole(self.linear, answer.col_value) and larger_rows(self.linear, answer.col_value):
                    return False  # it would cost more than it says
                branches += self._parted(answer, low, high)
            elif status not in nothing_left:
                return False
            if not branches:
                return True
        return False

    def _tried(self) -> tuple[Any, Any]:
        """How the solver ends without integers, optimal only if that is cheaper than the cheapest choice; and its
        answer."""
        import highspy

        self.highs.setOptionValue("objective_bound", self.value - SAME)
        for left in reversed(range(ROUNDS)):
            self.highs.run()
            status = self.highs.getModelStatus()
            if status != highspy.HighsModelStatus.kOptimal:
                break
            if self.highs.getInfo().objective_function_value >= self.value - SAME:
                return highspy.HighsModelStatus.kObjectiveBound, None
            answer = self.highs.getSolution()
            if not left or not add_violated(self.highs, self.linear, answer.col_value):
                return status, answer
        return status, None

    def _parted(self, answer: Any, low: Any, high: Any) -> list[tuple[Any, Any]]:
        """The bounds of the two branches by the variable that is most undecided, the greater one last; none if all are
        whole, which is then the cheapest choice known."""
        import numpy

        values, reduced = numpy.array(answer.col_value), numpy.array(answer.col_dual)
        value = self.highs.getInfo().objective_function_value
        split = numpy.where(self.integer, numpy.abs(values - numpy.round(values)), 0.0)
        if split.max(initial=0.0) <= WHOLE:
            self.values, self.value = values, value
            return []
        left = self.value - value + TOLERANCE
        high = numpy.where(self.whole & (values <= low + WHOLE) & (reduced > left), low, high)
        low = numpy.where(self.integer & (values >= high - WHOLE) & (-reduced > left), high, low)
        dear = split * self.costs
        column = int(dear.argmax()) if dear.max() > WHOLE else int(split.argmax())
        less, more = high.copy(), low.copy()
        less[column], more[column] = numpy.floor(values[column]), numpy.ceil(values[column])
        return [(low, less), (more, high)]


def is_whole(linear: Linear, values: Any) -> bool:
    """Whether an answer without integers has integers wherever there are to be some."""
    import numpy

    some = numpy.array(values)[numpy.array(linear.integer, dtype=bool)]
    return bool(numpy.abs(some - numpy.round(some)).max(initial=0.0) <= WHOLE)


def add_violated(highs: Any, linear: Linear, values: Sequence[float]) -> bool:
    """Adds the further rows that an answer of the solver does not meet; whether there are any."""
    rows = [*linear.implied.violated(values), *larger_rows(linear, values)]
    add_rows(highs, rows)
    return bool(rows)


def larger_rows(linear: Linear, values: Sequence[float]) -> list[tuple[dict[int, float], float]]:
    """Rows that an answer does not meet, about what entries cost that others make larger."""
    return list(linear.larger.violated(values)) if linear.larger is not None else []


def untold(linear: Linear, rows: Sequence[tuple[dict[int, float], float]], values: Sequence[float]) -> float:
    """What an answer costs more than it says, by the rows about larger entries that it does not meet."""
    more: dict[int, float] = {}
    for row, low in rows:
        column = next(iter(row))
        short = low - sum(weight * values[one] for one, weight in row.items())
        more[column] = max(more.get(column, 0.0), short * linear.costs[column])
    return sum(more.values())


def add_rows(highs: Any, rows: Sequence[tuple[dict[int, float], float]]) -> None:
    """Adds rows, each with its lower bound."""
    import numpy

    if rows:
        starts = numpy.cumsum([0, *(len(row) for row, _ in rows[:-1])], dtype=numpy.int32)
        index = numpy.array([column for row, _ in rows for column in row], dtype=numpy.int32)
        value = numpy.array([weight for row, _ in rows for weight in row.values()], dtype=numpy.float64)
        low = numpy.array([bound for _, bound in rows], dtype=numpy.float64)
        highs.addRows(len(rows), low, numpy.full(len(rows), numpy.inf), len(index), starts, index, value)
