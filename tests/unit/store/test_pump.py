"""The loops and the generators between a proc and a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from keyplan.engines.rounds import Pause, Proc
from keyplan.errors import ThrottledError
from keyplan.store import pump
from keyplan.store.pump import Tally, check, counted, gather, patient, persistent, run, run_async


class Port:
    """Answers each request with its double, after refusing the first few."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.rounds: list[list[Any]] = []

    def send(self, round: Sequence[Any]) -> list[Any]:
        self.rounds.append(list(round))
        replies: list[Any] = []
        for request in round:
            if self.refusals:
                self.refusals -= 1
                replies.append(ThrottledError("busy"))
            else:
                replies.append(request * 2)
        return replies

    def close(self) -> None:
        pass


class AsyncPort:
    def __init__(self, port: Port) -> None:
        self.port = port

    async def send(self, round: Sequence[Any]) -> list[Any]:
        return self.port.send(round)

    async def close(self) -> None:
        pass


def steps(*requests: int) -> Proc[list[int]]:
    found: list[int] = []
    for request in requests:
        found += check((yield [request]))
    return found


def test_both_loops_give_the_same() -> None:
    assert run(steps(1, 2), Port()) == [2, 4]
    assert asyncio.run(run_async(steps(1, 2), AsyncPort(Port()))) == [2, 4]


def test_gather_makes_one_round_of_what_is_asked_at_the_same_time() -> None:
    port = Port()
    assert run(gather([steps(1, 2, 3), steps(10), steps()]), port) == [[2, 4, 6], [20], []]
    assert port.rounds == [[1, 10], [2], [3]]


def test_gather_waits_for_pauses() -> None:
    def pausing() -> Proc[int]:
        yield Pause(0.0)
        (reply,) = yield [5]
        return int(reply)

    assert run(gather([pausing(), steps(1)]), Port()) == [10, [2]]


def test_only_refused_requests_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump.time, "sleep", lambda seconds: None)

    def both() -> Proc[Any]:
        return (yield [1, 2, 3])

    port = Port(refusals=2)
    assert run(patient(both()), port) == [2, 4, 6]
    assert port.rounds == [[1, 2, 3], [1, 2]]


def test_a_budget_that_is_used_up_hands_on_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(pump.time, "sleep", waited.append)
    with pytest.raises(ThrottledError):
        run(patient(steps(1), budget=1.0), Port(refusals=1000))
    assert sum(waited) == pytest.approx(1.0)
    assert len(set(waited)) > 1, "pauses have jitter"


def test_what_takes_long_may_wait_again_as_long_as_it_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(pump.time, "sleep", waited.append)

    class Busy(Port):
        """Refuses each request six times."""

        def send(self, round: Sequence[Any]) -> list[Any]:
            self.refusals = 0 if len(self.rounds) % 7 == 6 else len(round)
            return super().send(round)

    assert run(persistent(steps(*range(50))), Busy()) == [2 * number for number in range(50)]
    assert sum(waited) > 2 * pump.LONG_SECONDS
    with pytest.raises(ThrottledError):
        run(persistent(steps(1)), Port(refusals=1000))
    with pytest.raises(ThrottledError):
        run(patient(steps(*range(50))), Busy())


def test_counting() -> None:
    tally = Tally()
    run(counted(gather([steps(1, 2), steps(3)]), tally), Port())
    assert (tally.rounds, tally.requests) == (2, 3)
