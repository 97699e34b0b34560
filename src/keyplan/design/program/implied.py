"""Rows that every design meets and that a program without integers does not: what several half views imply together.

Whatever makes one of several views need something (a lookup, a base, a transaction) says so for each of them alone, and
half of one and half of another then need only half of it. But a goal takes one option, and of some lists a design has
one view at least: as far as nothing else is left to these, the whole of it is needed. There would be thousands of such
rows; only those that a relaxed answer violates are worth having. So it is with a request that has room for two large
entries and a half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import floor

VIOLATED = 1e-5
"""Far above what the solver takes for met, so that no row is found again."""
Row = dict[int, float]
"""Coefficients by variable; the lower bound stands apart."""
Choice = tuple[tuple[frozenset[int], ...], int]
"""What a goal may take: the views of each of several options, and the one variable of them all. If there are several,
each is of one view."""


@dataclass(frozen=True)
class Implication:
    """Where one of the views is chosen, the variables `by` are one together, or more."""

    by: frozenset[int]
    views: frozenset[int]


@dataclass
class Implied:
    """What such rows are made of; variables are known by their numbers."""

    goals: list[list[Choice]] = field(default_factory=list)
    """The options of each goal that a plan comes to once at most."""
    required: list[frozenset[int]] = field(default_factory=list)
    """Lists of views of which there is one at least."""
    implications: list[Implication] = field(default_factory=list)
    limits: list[tuple[frozenset[int], int]] = field(default_factory=list)
    """Views of which there are so many at most."""

    def add(self, by: Set[int], views: Set[int]) -> None:
        """States an implication. The variables may be views themselves, each of which then implies it, too."""
        if len(views) > 1:
            self.implications.append(Implication(frozenset(by), frozenset(views)))

    def limit(self, weights: Mapping[int, float], most: float) -> None:
        """States what follows from a limit on the weight of views: of those that weigh so much or more, only as many
        as fit if none weighs more."""
        heaviest = sorted((number for number, weight in weights.items() if weight > 0), key=lambda one: -weights[one])
        for count, number in enumerate(heaviest, 1):
            fit = floor(most / weights[number] + 1e-9)
            lighter = count == len(heaviest) or weights[heaviest[count]] < weights[number]
            if lighter and 0 < fit < count:
                self.limits.append((frozenset(heaviest[:count]), fit))

    def violated(self, values: Sequence[float]) -> Iterator[tuple[Row, float]]:
        """The rows that an answer without integers does not meet, each with its lower bound."""
        # One view alone is no reason: what it implies stands in the program. So is a goal that is reached in one way.
        used = ((goal, [choice for choice in goal if values[choice[1]] > VIOLATED]) for goal in self.goals)
        split = [(goal, choices) for goal, choices in used if len(choices) > 1 or any(len(o) > 1 for o, _ in choices)]
        for views, most in self.limits:
            if sum(values[view] for view in views) > most + VIOLATED:
                yield dict.fromkeys(sorted(views), -1.0), -float(most)
        for one in self.implications:
            there = sum(values[column] for column in one.by)
            if there >= 1.0 - VIOLATED:
                continue
            for views in self.required:
                others = views - one.views
                if len(others) < len(views) and there + sum(values[view] for view in others) < 1.0 - VIOLATED:
                    yield dict.fromkeys(sorted(one.by | others), 1.0), 1.0
            for goal, choices in split:
                least = _taken(choices, one.views, values)
                if -sum(weight * values[column] for column, weight in least.items()) > there + VIOLATED:
                    row = _taken(goal, one.views, values)
                    for column in one.by:
                        row[column] = row.get(column, 0.0) + 1.0
                    yield row, 0.0


def _taken(choices: Sequence[Choice], views: Set[int], values: Sequence[float]) -> Row:
    """How much of a goal is taken of some views at least, times minus one: all that other views have not given."""
    row: Row = {}
    for options, column in choices:
        others = [some for some in options if views.isdisjoint(some)]
        if len(others) == len(options):
            continue
        if not others or values[column] > sum(values[view] for some in others for view in some):
            row[column] = -1.0
            for some in others:  # variables of the same views have one row, so that these are given once
                row.update(dict.fromkeys(some, 1.0))
    return row
