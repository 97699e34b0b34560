"""Views that are alike for a goal: whatever it does with one of them, it may do with another at the same price.

A row is read by its key at one price from each of the many views that have it. A variable per view and goal would say
which of them is read, which `evaluate` finds out in the end: the program need only know that one of them is there.
Their options have one variable, which is at most the sum of these views. It loses nothing, not even without integers:
what of the sum is used can be parted among them again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from keyplan.design.options.goals import Option


class Alike:
    """The options of a goal, by the variables and rows that they have in common.

    Each comes with what tells it from others, its price among that. Those of several views have nothing in common with
    others: each of their views is needed.
    """

    def __init__(self, options: Iterable[tuple[Option, Hashable]]) -> None:
        marked = list(options)
        marks: dict[str, set[Hashable]] = {}
        for number, (option, mark) in enumerate(marked):
            for name in sorted(option.takes):
                marks.setdefault(name, set()).add(mark if len(option.takes) == 1 else (number, name))
        # Two views with one option in common may differ by another: then neither of these is the same.
        self._kinds = {name: frozenset(some) for name, some in marks.items()}
        self._options: dict[Hashable, list[Option]] = {}
        for number, (option, mark) in enumerate(marked):
            self._options.setdefault(self._variable(number, option, mark), []).append(option)

    def _variable(self, number: int, option: Option, mark: Hashable) -> Hashable:
        if len(option.takes) != 1:
            return number
        (name,) = option.takes
        return mark, self._kinds[name]

    def options(self) -> Iterator[Sequence[Option]]:
        """Those that have one variable, each time."""
        yield from self._options.values()

    def views(self) -> Iterator[Sequence[str]]:
        """The views that have one row, each time."""
        pools: dict[frozenset[Hashable], list[str]] = {}
        for name, kind in self._kinds.items():
            pools.setdefault(kind, []).append(name)
        yield from pools.values()
