"""The designer for tests that draw models, and ask the same of it again and again: what was asked a moment ago is not
worked out anew.

Of the models that Hypothesis draws, many are earlier ones in which something else was varied. And a design that keeps
another one, its price, and the difference between the two begin with the very same problem.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from keyplan.design.problem.build import Built, build_problem
from keyplan.design.program.cheapest import cheapest
from keyplan.design.report.difference import difference
from keyplan.engines.base import Engine
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.view import View
from tests.strategies.designs import FEW, Designs

_DESIGNS = Designs()
ALL_VIEWS = cheapest.__kwdefaults__["without"]
"""What is said where no view is to be done without."""


def design(model: Model, engine: Engine, *, keep: Design | None = None, advise: bool = True) -> Design:
    """The designer's, called alike."""
    return _DESIGNS.of(model, engine.name, keep=keep, advise=advise)


class _Problems:
    """The last problems of whole models, with what is given."""

    def __init__(self) -> None:
        self._last: deque[tuple[Model, str, Mapping[str, Sequence[View]], Built]] = deque(maxlen=FEW)

    def build(self, model: Model, engine: Engine, **how: Any) -> Built:
        given: Mapping[str, Sequence[View]] = how.get("given", {})
        if how.get("like") is not None or how.get("crowded") or how.get("without", ALL_VIEWS) is not ALL_VIEWS:
            return build_problem(model, engine, **how)
        for known, name, kept, built in self._last:
            if name == engine.name and kept == given and known == model:
                return _anew(built)
        found = build_problem(model, engine, **how)
        self._last.appendleft((model, engine.name, given, found))
        return _anew(found)


def _anew(built: Built) -> Built:
    """The problem as it was before anybody required more of it."""
    problem = replace(built.problem, required=list(built.problem.required))
    return replace(built, problem=problem, ground=replace(built.ground, unserved=dict(built.ground.unserved)))


@contextmanager
def built_once() -> Iterator[None]:
    """Whoever prices, keeps and compares designs in here builds their problem once."""
    with pytest.MonkeyPatch.context() as patch:
        problems = _Problems()
        for function in (cheapest, difference):
            patch.setattr(sys.modules[function.__module__], "build_problem", problems.build)
        yield
