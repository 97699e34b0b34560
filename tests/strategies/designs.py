"""Designs of drawn models, and whatever else is worked out for them, each made once.

Of the programs that Hypothesis draws, almost half are earlier ones with other rows and calls: 300 of them had 164
models with figures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import keyplan
from keyplan.model.model import Model
from keyplan.plan.design import Design

LAST = 12
"""Programs are varied just after they were drawn, five times at most."""
FEW = 6
"""The same of what is large: that which was drawn first, and what it was varied to."""

Answer = TypeVar("Answer")


class Lately(Generic[Answer]):
    """What has been worked out for the last few models, for tests that only look at it."""

    def __init__(self, work: Callable[[Model, str], Answer]) -> None:
        self._work = work
        self._last: deque[tuple[Model, str, Answer]] = deque(maxlen=FEW)

    def of(self, model: Model, engine: str) -> Answer:
        for known, place, answer in self._last:
            if place == engine and known == model:
                return answer
        found = self._work(model, engine)
        self._last.appendleft((model, engine, found))
        return found


class Designs:
    """The last designs of one test: another may have other prices."""

    def __init__(self) -> None:
        self._last: deque[tuple[Model, str, Design | None, bool, Design]] = deque(maxlen=LAST)

    def of(self, model: Model, engine: str, *, keep: Design | None = None, advise: bool = False) -> Design:
        """The design of a model; advice, where it is not asked for, changes nothing in it that is run."""
        for known, place, kept, advised, design in self._last:
            if place == engine and kept is keep and advised >= advise and known == model:
                return design
        found = keyplan.design(model, engine, keep=keep, advise=advise)
        self._last.appendleft((model, engine, keep, advise, found))
        return found
