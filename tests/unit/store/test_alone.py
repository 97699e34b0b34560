"""New rows that stand alone: the short way gives the very batch that the general way gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from keyplan.engines.rounds import Proc
from keyplan.store.writing.changes import Batch
from keyplan.store.writing.mutate import Mutator
from tests.conformance.test_generated import PHASES
from tests.naive import EVERYTHING, Extras
from tests.strategies.programs import Program, programs
from tests.unit.store.support import on_store


@contextmanager
def both_ways(monkeypatch: pytest.MonkeyPatch, seen: Callable[[Batch], None]) -> Iterator[None]:
    """Every batch that was made the short way is made once more without it, and has to be the same."""
    batch = Mutator.batch

    def checked(self: Mutator, changes: Any, now: Any, *rest: Any, **more: Any) -> Proc[Batch]:
        short = self.alone.edits(changes, now) is not None
        found = yield from batch(self, changes, now, *rest, **more)
        if short:
            with monkeypatch.context() as patched:
                patched.setattr(self.alone, "edits", lambda changes, now: None)
                general = yield from batch(self, changes, now, *rest, **more)
            assert found == general
            seen(found)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Mutator, "batch", checked)
        yield


@pytest.mark.thorough
@pytest.mark.parametrize("extras", list(EVERYTHING))
def test_the_short_way_is_the_general_one(extras: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[Batch] = []

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
    @given(program=programs())
    def check(program: Program) -> None:
        chosen: Extras = EVERYTHING[extras]
        with both_ways(monkeypatch, batches.append):
            on_store(program, chosen)

    check()
    assert batches, "no new row stood alone: nothing was compared"
