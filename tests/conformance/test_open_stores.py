"""A store that is open while another design is applied: it never writes what the new one does not know of."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import keyplan
from keyplan.engines import engine_for_url, get_engine, lease
from keyplan.engines.rounds import Pause
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.bulk import apply as applying
from tests.conformance.test_changed_designs import MODEL, MORE, WRITES, cut_off
from tests.engines.harness import Harness
from tests.faults.test_cut_off_applies import NEWEST


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """What a design changes is made and taken away many times here: on the server that answers soonest."""
    return quick_harness


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "TERM", 0.2)
    monkeypatch.setattr(lease, "GRACE", 0.2)


NOON = datetime(2052, 5, 15, 12, tzinfo=UTC)


def models(harness: Harness) -> Iterator[Model]:
    for text in (MODEL + WRITES, MODEL + MORE + WRITES):
        yield replace(parse_model(text), targets=harness.targets)


def make(store: Any, sid: int) -> None:
    store.make(sid=sid, game=0, at=NOON, points=sid)


def test_a_store_of_the_design_before_neither_reads_nor_writes(harness: Harness) -> None:
    before, after = models(harness)
    url = harness.url()
    keyplan.apply(before, url)
    with keyplan.open(before, url) as old:
        make(old, 1)
        assert old.score(sid=1)["points"] == 1
        keyplan.apply(after, url)
        with pytest.raises(DesignMismatchError, match="open it again"):
            make(old, 2)
        with pytest.raises(DesignMismatchError, match="open it again"):
            old.score(sid=1)
        with pytest.raises(DesignMismatchError, match="open it again"):
            old.load([("Score", {"sid": 3, "game": 0, "at": NOON, "points": 3})])
    with keyplan.open(after, url) as store:
        make(store, 4)
        assert store.top(game=0) == {"low": 1, "high": 4, "n": 2}
        assert store.verify().ok


def test_the_same_for_an_async_store(harness: Harness) -> None:
    before, after = models(harness)
    url = harness.url()
    keyplan.apply(before, url)

    async def write() -> None:
        async with keyplan.open_async(before, url) as old:
            await old.make(sid=1, game=0, at=NOON, points=1)
            keyplan.apply(after, url)
            with pytest.raises(DesignMismatchError, match="open it again"):
                await old.make(sid=2, game=0, at=NOON, points=2)
            with pytest.raises(DesignMismatchError, match="open it again"):
                await old.score(sid=1)

    asyncio.run(write())
    with keyplan.open(after, url) as store:
        assert store.verify().ok


def test_a_store_of_the_design_before_reads_on_until_another_is_recorded(harness: Harness) -> None:
    """As far as nothing that it reads is taken away; and writes again when its own design is recorded."""
    before, after = models(harness)
    design = keyplan.design(after, harness.name)
    url = harness.url()
    keyplan.apply(before, url)
    with keyplan.open(before, url) as old:
        make(old, 1)
        refused: list[str] = []
        for rounds in range(1, 200):
            if cut_off(after, design, url, rounds):
                break
            time.sleep(0.25)
            try:
                assert old.score(sid=1)["points"] == 1
            except DesignMismatchError as error:
                if "open it again" not in str(error):
                    raise
                break  # it was cut off behind its last request
            try:
                make(old, 1000 + rounds)
            except DesignMismatchError as error:
                refused.append(str(error))
                break
        assert all("an 'apply' has not come to its end" in one for one in refused)
        keyplan.apply(before, url)
        time.sleep(1.1)
        make(old, 2)
    keyplan.apply(after, url, design=design)
    with keyplan.open(after, url) as store:
        assert store.top(game=0)["high"] >= 2
        assert store.verify().ok


def test_a_store_of_the_same_design_goes_on(harness: Harness) -> None:
    before, _ = models(harness)
    url = harness.url()
    keyplan.apply(before, url)
    with keyplan.open(before, url) as old:
        make(old, 1)
        keyplan.apply(before, url)
        make(old, 2)
        with keyplan.open(before, url) as other:
            assert other.verify(repair=True).ok
        assert old.score(sid=2)["points"] == 2


def test_a_store_goes_on_where_only_what_the_server_keeps_has_changed(harness: Harness) -> None:
    engine = get_engine(harness.name)
    before, after = (replace(parse_model(MODEL + more + WRITES), targets=harness.targets) for more in ("", NEWEST))
    designs = [keyplan.design(model, harness.name, advise=False) for model in (before, after)]
    url = harness.url()
    keyplan.apply(before, url, design=designs[0])
    with keyplan.open(before, url) as old:
        make(old, 1)
        keyplan.apply(after, url, design=designs[1])
        time.sleep(0.25)
        if engine.upkeep(before, designs[0]) == engine.upkeep(after, designs[1]):
            make(old, 2)
            expected = [2, 1]
        else:
            with pytest.raises(DesignMismatchError, match="open it again"):
                make(old, 2)
            expected = [1]
    with keyplan.open(after, url) as store:
        assert [row["sid"] for row in store.newest(game=0)] == expected
        assert store.verify().ok


def test_what_is_written_while_a_design_is_applied_shows_in_it_or_is_refused(harness: Harness) -> None:
    before, after = models(harness)
    url = harness.url()
    keyplan.apply(before, url)
    with keyplan.open(before, url) as old:
        old.load(("Score", {"sid": sid, "game": 0, "at": NOON, "points": sid}) for sid in range(1000, 2000))
        written: list[int] = []
        refused: list[str] = []

        def write() -> None:
            for sid in range(-1, -100_000, -1):
                try:
                    make(old, sid)
                except DesignMismatchError as error:
                    refused.append(str(error))
                    return
                written.append(sid)

        writer = threading.Thread(target=write)
        writer.start()
        while len(written) < 5:
            writer.join(0.001)
        keyplan.apply(after, url)
        writer.join()
    with keyplan.open(after, url) as store:
        assert store.top(game=0)["n"] == 1000 + len(written)
        assert store.verify().ok
    assert "an 'apply' has not come to its end" in refused[0] or "open it again" in refused[0]


class Attempt:
    """An `apply` under way."""

    def __init__(self, model: Model, design: Design, url: str) -> None:
        engine = engine_for_url(url)
        self._port = engine.connect(url, model, design)
        self._proc = applying.apply(model, engine, design, progress=self._hear)
        self._replies: Any = None
        self.is_noticed = self.is_over = False

    def _hear(self, told: str) -> None:
        self.is_noticed = self.is_noticed or told.startswith("waiting")

    def go_on(self, rounds: int | None = None) -> None:
        """Sends so many rounds, as long as stores have not noticed; or all that there are."""
        while not self.is_over and (rounds is None or (rounds > 0 and not self.is_noticed)):
            rounds = None if rounds is None else rounds - 1
            try:
                round = self._proc.send(self._replies)
            except StopIteration:
                self.is_over = True
                self._port.close()
            else:
                self._replies = () if isinstance(round, Pause) else self._port.send(round)


def is_written(store: Any, sid: int) -> bool:
    try:
        make(store, sid)
    except DesignMismatchError:
        return False
    return True


def test_a_first_row_that_is_written_at_any_moment_of_an_apply(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of its rounds, until every store has had the time to notice."""
    monkeypatch.setattr(lease, "TERM", 3600.0)
    monkeypatch.setattr(lease, "GRACE", -3599.9)
    before, after = models(harness)
    designs = [keyplan.design(model, harness.name, advise=False) for model in (before, after)]
    for rounds in range(100):
        url = harness.url()
        keyplan.apply(before, url, design=designs[0])
        with keyplan.open(before, url, design=designs[0]) as old:
            attempt = Attempt(after, designs[1], url)
            attempt.go_on(rounds)
            is_late = attempt.is_noticed or attempt.is_over
            written = not attempt.is_noticed and is_written(old, 1)
            attempt.go_on()
        with keyplan.open(after, url, design=designs[1]) as store:
            assert store.top(game=0)["n"] == written, rounds
            assert store.verify().ok, rounds
        if is_late:
            return
    pytest.fail("an apply of more rounds than are tried")


def test_nobody_is_waited_for_where_no_store_is_open(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "GRACE", 60.0)
    before, after = models(harness)
    url = harness.url()
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        make(store, 1)
    said: list[str] = []
    keyplan.apply(after, url, wait=False, progress=said.append)
    keyplan.apply(before, url, wait=False, destroy=True, progress=said.append)
    assert said
    assert not [text for text in said if text.startswith("waiting")]
    with keyplan.open(before, url) as store:
        assert store.score(sid=1)["points"] == 1
