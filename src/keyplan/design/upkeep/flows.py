"""How often a write meets a row that has an entry, and leaves one that has.

What enters a state leaves it again: orders that are created `pending` and shipped at the same rate were pending when
they were shipped, however few are pending at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.sparse import follows, is_literal, meets
from keyplan.design.statistics.derived import Statistics
from keyplan.design.upkeep.effects import Effect
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Literal
from keyplan.model.write import Write
from keyplan.plan.view import View

AT_ONCE = 0.1
"""Of the rows that have a value, the share that had it at first at least, though updates may give it to all."""


class Flows:
    """Tells the states of rows before and after writes."""

    def __init__(self, model: Model, statistics: Statistics, facts: Facts) -> None:
        self.model = model
        self.statistics = statistics
        self.facts = facts
        self._numbers: dict[tuple[str, Condition], int] = {}
        self._by_view: dict[View, list[tuple[Condition, int]]] = {}
        """What rows have to be like, and a number for each: it is asked for with every write."""
        self._known: dict[tuple[str, str, int], tuple[float, float]] = {}

    def shares(self, write: Write, effect: Effect, view: View) -> tuple[float, float]:
        """The chance that the row has an entry before and after the write."""
        before = after = min(1.0, self.facts.share(view))
        if effect.kind not in ("create", "update") or (effect.kind == "update" and effect.entity != write.entity):
            return before, after
        for state, number in self._numbered(view):
            asked = (write.name, effect.kind, number)
            factors = self._known.get(asked)
            if factors is None:
                factors = self._known[asked] = self._factors(write, effect.kind, view.entity, state)
            before *= factors[0]
            after *= factors[1]
        return min(1.0, before), min(1.0, after)

    def _factors(self, write: Write, kind: str, entity: str, state: Condition) -> tuple[float, float]:
        """How many times as likely as for any row it is that the row is in a state before and after the write."""
        share = self.statistics.selectivity(entity, state)
        if not share:
            return 1.0, 1.0
        if kind == "create":
            return 1.0, self._created(entity, state) / share
        met = self._before(write, state)
        return met / share, self._after(write, state, met) / share

    def _numbered(self, view: View) -> list[tuple[Condition, int]]:
        found = self._by_view.get(view)
        if found is None:
            numbers = self._numbers
            found = [(state, numbers.setdefault((view.entity, state), len(numbers))) for state in self._states(view)]
            self._by_view[view] = found
        return found

    def _states(self, view: View) -> Iterator[Condition]:
        """What a row's own columns have to be like for it to have an entry."""
        asked = set()
        for condition in view.where:
            asked.add(str(condition.path))
            if not condition.path.roles and condition.op in ("=", "!=", "in", "present") and is_literal(condition):
                yield condition
        columns = self.model.entities[view.entity].columns
        for text in dict.fromkeys(part.path for part in view.parts if not part.or_missing):
            if text in columns and columns[text].computed is None and text not in asked:
                yield Condition(path_of(text, self.model, view.entity), "present")

    def _created(self, entity: str, state: Condition) -> float:
        """The chance that a new row is in a state.

        What updates give to rows, as a courier to an order, is what most of these lack at first; what updates clear, as
        the moment since when a game is open, rows had, however few have it at any moment.
        """
        here = self.model.entities[entity]
        field = here.fields[here.columns[state.path.column].field]
        if field.default is not None:
            return float(meets(field.default, state))
        share = self.statistics.selectivity(entity, state)
        if state.op != "present" or not here.columns[state.path.column].optional:
            return share
        if field.now:
            return 1.0
        if field.source is not None:
            return self.statistics.path_present(entity, path_of(field.source, self.model, entity))
        rate = self.statistics.create_rate(entity)
        if not rate:
            return share
        later = self._given_later(entity, state)
        cleared = min(1.0, (self._cleared(entity, state) - later) / rate)
        return max(share * AT_ONCE, share - later / rate, cleared)

    def _cleared(self, entity: str, state: Condition) -> float:
        """How many rows a second updates take a value from."""
        column = state.path.column
        return sum(
            write.traffic.rate * rows
            for write, rows in self.statistics.written(entity)
            if write.kind == "update" and _is_literal_null(write.sets.get(column)) and _told(write, state) is not False
        )

    def _given_later(self, entity: str, state: Condition) -> float:
        """How many rows a second updates give a value to."""
        column = state.path.column
        return sum(
            write.traffic.rate * rows * self._after(write, state, 0.0)
            for write, rows in self.statistics.written(entity)
            if write.kind == "update" and column in {*write.sets, *write.adds} and _told(write, state) is not True
        )

    def _after(self, write: Write, state: Condition, before: float) -> float:
        column = state.path.column
        if column in write.adds:
            return 1.0 if state.op == "present" else self._given(write.entity, state)
        if column not in write.sets:
            return before
        operand = write.sets[column]
        return float(meets(operand.value, state)) if isinstance(operand, Literal) else self._given(write.entity, state)

    def _given(self, entity: str, state: Condition) -> float:
        """The chance that a value that a call gives puts a row into a state."""
        present = self.statistics.present(entity, state.path.column)
        return min(1.0, self.statistics.selectivity(entity, state) / present) if present else 0.0

    def _before(self, write: Write, state: Condition) -> float:
        """The chance that the row is in a state when it is written."""
        told = _told(write, state)
        if told is not None:
            return float(told)
        share = self.statistics.selectivity(write.entity, state)
        if state.path.column not in {*write.sets, *write.adds}:
            return share
        entering, leaving, staying = self._rates(write.entity, state)
        after = self._after(write, state, 0.0)
        if state.op == "present" and after:
            # A row gains a value once, and again after it has lost it; at all other times it had one.
            created = self.statistics.create_rate(write.entity)
            at_first = self._created(write.entity, state)
            return max(at_first, 1.0 - (created + leaving) / staying) if staying else share
        # Nobody ends what has not begun: as many rows leave the state as enter it.
        return max(share, min(1.0, entering / leaving)) if after < 1.0 and leaving else share

    def _rates(self, entity: str, state: Condition) -> tuple[float, float, float]:
        """How many rows a second are put into a state, taken out of it, and put into it by updates alone."""
        entering = self.statistics.create_rate(entity) * self._created(entity, state)
        leaving = staying = 0.0
        for write, rows in self.statistics.written(entity):
            rate = write.traffic.rate * rows
            if write.kind == "delete":
                leaving += rate * self.statistics.selectivity(entity, state)
            elif write.kind in ("update", "change") and state.path.column in {*write.sets, *write.adds}:
                met = self._after(write, state, 0.0)
                staying += rate * met
                leaving += rate * (1.0 - met)
                # From one value of a state to another, nothing enters it.
                entering += 0.0 if _told(write, state) else rate * met
        return entering, leaving, staying


def _told(write: Write, state: Condition) -> bool | None:
    """Whether a row that a write is done to is in a state before it, if the write says so."""
    found = (follows(state, condition) for condition in (*write.condition, *write.where))
    return next((told for told in found if told is not None), None)


def _is_literal_null(operand: object) -> bool:
    return isinstance(operand, Literal) and operand.value is None
