"""What a store has seen of the record is believed for a while and not longer: whatever stands still meanwhile, and
however many threads or tasks ask."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import keyplan
from keyplan.engines import get_engine, lease
from keyplan.engines.base import Engine
from keyplan.errors import DesignMismatchError, UnavailableError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.store import lease as stores
from keyplan.store import open as opening
from tests.conformance.test_changed_designs import MODEL, MORE, WRITES, cut_off
from tests.engines.harness import Harness
from tests.faults.behind import Behind, BehindAsync

NOON = datetime(2052, 5, 15, 12, tzinfo=UTC)
AT_ONCE = 16


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """As for other tests of designs that change."""
    return quick_harness


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by the clocks of the tests."""
    monkeypatch.setattr(lease, "TERM", 20.0)
    monkeypatch.setattr(lease, "GRACE", -20.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [stores.elapsed()]
    for module in (stores, opening):
        monkeypatch.setattr(module, "elapsed", lambda: now[0])
    return now


@pytest.fixture
def engine(harness: Harness) -> Engine:
    return get_engine(harness.name)


@pytest.fixture
def before(harness: Harness) -> Model:
    return replace(parse_model(MODEL + WRITES), targets=harness.targets)


@pytest.fixture
def after(harness: Harness) -> Model:
    return replace(parse_model(MODEL + MORE + WRITES), targets=harness.targets)


@pytest.fixture
def url(harness: Harness, before: Model) -> str:
    made = harness.url()
    keyplan.apply(before, made)
    return made


def row(sid: int) -> dict[str, Any]:
    return {"sid": sid, "game": 0, "at": NOON, "points": sid}


def is_done(call: Callable[[], Any]) -> bool:
    try:
        call()
    except DesignMismatchError:
        return False
    return True


def check(after: Model, url: str, rows: int) -> None:
    with keyplan.open(after, url) as store:
        assert store.top(game=0)["n"] == rows
        assert store.verify().ok


def test_a_look_at_the_record_that_took_long_is_taken_again(
    before: Model, after: Model, url: str, clock: list[float]
) -> None:
    """It was read in time, and when the reply is there another design has been applied: the process may have been
    stopped behind it, or the server."""

    def stand_still() -> None:
        keyplan.apply(after, url)
        clock[0] += 600

    with keyplan.open(before, url) as old:
        clock[0] += 30
        Behind(old).then = stand_still
        done = is_done(lambda: old.make(**row(1)))
    check(after, url, int(done))


def test_the_same_for_an_async_store(before: Model, after: Model, url: str, clock: list[float]) -> None:
    def stand_still() -> None:
        keyplan.apply(after, url)
        clock[0] += 600

    async def write() -> bool:
        async with keyplan.open_async(before, url) as old:
            if hasattr(old._port, "call"):  # whole calls run on a worker of its own
                stand_still()
            else:
                clock[0] += 30
                BehindAsync(old).then = stand_still
            try:
                await old.make(**row(1))
            except DesignMismatchError:
                return False
            return True

    done = asyncio.run(write())
    check(after, url, int(done))


def test_a_record_that_cannot_be_read_in_time_is_no_permission(
    before: Model, url: str, clock: list[float], engine: Engine
) -> None:
    with keyplan.open(before, url) as store:
        clock[0] += 30
        behind = Behind(store)

        def slowly() -> None:
            clock[0] += 30
            behind.then = slowly

        slowly()
        if engine.leases:
            with pytest.raises(UnavailableError, match="takes too long to be read"):
                store.make(**row(1))
            assert behind.rounds == stores._LOOKS
        behind.then = None
        clock[0] += 30
        store.make(**row(2))
        assert store.score(sid=1) is None or not engine.leases
        assert store.score(sid=2) is not None


def test_what_was_seen_earlier_does_not_replace_what_was_seen_later(
    before: Model, after: Model, url: str, clock: list[float], engine: Engine, harness: Harness
) -> None:
    """Two look at the same time, an `apply` begins between their replies, and the first is told last."""
    if not engine.leases:  # SQLite looks in the transaction of the request itself
        with keyplan.open(before, url) as old:
            keyplan.apply(after, url)
            assert not is_done(lambda: old.make(**row(1)))
        return
    with keyplan.open(before, url) as old:
        old.make(**row(1))
        held: Any = old._port
        first, second = held._lease.look(), held._lease.look()
        told_first = held._port.send(next(first))
        keyplan.apply(after, url)
        clock[0] += 0.1
        told_second = held._port.send(next(second))
        for proc, replies in ((second, told_second), (first, told_first)):
            with pytest.raises(StopIteration):
                proc.send(replies)
        assert not is_done(lambda: old.make(**row(2)))
    check(after, url, 1)


@contextmanager
def asleep(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """As after the machine has slept: what counts the time that it is awake has stood still, the day is another."""
    real, day = time.clock_gettime, time.time
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    with monkeypatch.context() as slept:
        slept.setattr(time, "clock_gettime", lambda which: real(which) + (seconds if which == boot else 0))
        slept.setattr(time, "time", lambda: day() + seconds)
        yield


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no clock here that a test could have gone on")
def test_a_store_looks_again_after_the_machine_has_slept(
    before: Model, after: Model, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with keyplan.open(before, url) as old:
        old.make(**row(1))
        keyplan.apply(after, url)
        with asleep(monkeypatch, 3600):
            assert not is_done(lambda: old.make(**row(2)))
            assert not is_done(lambda: old.score(sid=1))
    check(after, url, 1)


@pytest.mark.parametrize("step", [-86_400 * 400, -30, 30, 86_400 * 400])
def test_the_time_of_day_is_set_meanwhile(
    before: Model, after: Model, url: str, step: float, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """Neither forwards nor backwards has anything to do with how long the record is believed."""
    day = time.time
    with keyplan.open(before, url) as old:
        behind = Behind(old)
        old.make(**row(1))
        monkeypatch.setattr(time, "time", lambda: day() + step)
        rounds = behind.rounds
        old.score(sid=1)
        assert behind.rounds == rounds + 1, "nobody looks"
        keyplan.apply(after, url)
        clock[0] += 21
        assert not is_done(lambda: old.make(**row(2)))
    check(after, url, 1)


def test_one_looks_for_all_threads(before: Model, url: str, clock: list[float], engine: Engine) -> None:
    with keyplan.open(before, url) as store:
        store.make(**row(1))
        behind = Behind(store)
        clock[0] += 30
        start = threading.Barrier(AT_ONCE)
        found: list[Any] = []

        def read() -> None:
            start.wait()
            found.append(store.score(sid=1)["points"])

        threads = [threading.Thread(target=read) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [1] * AT_ONCE
        assert behind.rounds == AT_ONCE + engine.leases


def test_one_looks_for_all_tasks_and_the_next_if_that_one_is_cancelled(
    before: Model, url: str, clock: list[float], engine: Engine
) -> None:
    async def read() -> None:
        async with keyplan.open_async(before, url) as store:
            await store.make(**row(1))
            if hasattr(store._port, "call"):  # whole calls run on a worker of its own
                return
            behind = BehindAsync(store)
            clock[0] += 30
            tasks = [asyncio.create_task(store.score(sid=1)) for _ in range(AT_ONCE)]
            await asyncio.sleep(0)  # all have begun, and the first of them is looking
            tasks[0].cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(found[0], asyncio.CancelledError)
            assert [one["points"] for one in found[1:]] == [1] * (AT_ONCE - 1)
            assert behind.rounds == AT_ONCE - 1 + engine.leases

    asyncio.run(read())


def test_all_are_told_at_once_that_the_record_cannot_be_read(
    before: Model, url: str, clock: list[float], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one after the other, each after a time-out of its own."""
    with keyplan.open(before, url) as store:
        store.make(**row(1))
        if not engine.leases:
            return
        clock[0] += 30
        looks: list[int] = []
        waiting = threading.Barrier(AT_ONCE + 1)

        def unreadable(upkeep: str) -> Any:
            looks.append(1)
            waiting.wait(10)
            time.sleep(0.3)  # the others come to wait for this one
            raise UnavailableError("the test: nobody there")
            yield

        monkeypatch.setattr(store._port._lease, "engine", Stand(engine, unreadable))  # type: ignore[attr-defined]
        told: list[str] = []

        def read() -> None:
            waiting.wait(10)
            try:
                store.score(sid=1)
            except UnavailableError as error:
                told.append(str(error))

        first = threading.Thread(target=lambda: told.append(_error(store)))
        threads = [threading.Thread(target=read) for _ in range(AT_ONCE)]
        for thread in (first, *threads):
            thread.start()
        for thread in (first, *threads):
            thread.join()
        assert told == ["the test: nobody there"] * (AT_ONCE + 1)
        assert len(looks) == 1
        monkeypatch.undo()
        assert store.score(sid=1)["points"] == 1


class Stand:
    """An engine whose record is read otherwise."""

    def __init__(self, engine: Engine, look: Callable[[str], Any]) -> None:
        self.look = look
        self.is_read = engine.is_read


def _error(store: Any) -> str:
    try:
        store.score(sid=1)
    except UnavailableError as error:
        return str(error)
    return ""


STOPS = """
import json, os, signal, sys
from dataclasses import replace
import keyplan
from keyplan.engines import lease
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from tests.faults.behind import Behind

text, targets, url, where = sys.argv[1:]
lease.TERM = 0.5
row = {"game": 0, "at": "2052-05-15T12:00:00Z", "points": 1}

def stop():
    print("stopped", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

with keyplan.open(replace(parse_model(text), targets=json.loads(targets)), url) as store:
    behind = Behind(store)
    store.make(sid=1, **row)
    if where == "before a call":
        stop()
    else:
        if hasattr(store._port, "_lease"):
            store._port._lease.seen = store._port._lease.seen._replace(until=0.0)
        behind.then = stop
    try:
        store.make(sid=2, **row)
        print("written")
    except DesignMismatchError as error:
        print("refused")
"""


@pytest.mark.parametrize("where", ["before a call", "behind the first reply of one"])
def test_a_process_is_stopped_for_longer_than_that(
    harness: Harness, before: Model, after: Model, url: str, where: str
) -> None:
    """By a signal: the first reply of a call is that of the look at the record, where there is one."""
    targets = json.dumps({name: dict(said) for name, said in harness.targets.items()})
    command = [sys.executable, "-c", STOPS, MODEL + WRITES, targets, url, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stopped\n"
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        keyplan.apply(after, url)
        time.sleep(0.6 if where == "before a call" else 1.1)
        os.kill(process.pid, signal.SIGCONT)
        said = process.stdout.read().strip()
    assert said in ("written", "refused")
    check(after, url, 1 + (said == "written"))
    if where == "before a call":
        assert said == "refused"


def test_an_apply_that_is_cut_off_stops_threads_and_tasks_until_the_next(
    before: Model, after: Model, url: str, clock: list[float], harness: Harness
) -> None:
    """Many threads at once see it, and go on together when the design before is recorded again."""
    design = keyplan.design(after, harness.name)
    with keyplan.open(before, url) as old:
        old.make(**row(0))
        for rounds in range(1, 40):
            cut_off(after, design, url, rounds)
            clock[0] += 30
            if not is_done(lambda rounds=rounds: old.make(**row(1000 + rounds))):  # type: ignore[misc]
                break
        wrote = in_threads(lambda number: is_done(lambda: old.make(**row(number))))
        assert wrote == [False] * AT_ONCE
        keyplan.apply(before, url)
        clock[0] += 2
        wrote = in_threads(lambda number: is_done(lambda: old.make(**row(number))))
        assert wrote == [True] * AT_ONCE
        assert old.verify().ok


def in_threads(call: Callable[[int], Any]) -> list[Any]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: found.append(call(n))) for n in range(1, AT_ONCE + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
