"""Several processes on the same rows: the views stay true, the sums exact, and nothing acknowledged is lost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import keyplan
from tests.engines.harness import Harness
from tests.faults import market

WORKERS, WRITES = 3, 60
KILLS, AFTER = 4, (0.02, 0.3)


@pytest.mark.timeout(120)
def test_writers_on_overlapping_rows(harness: Harness, tmp_path: Path) -> None:
    url = harness.replicated.url()
    market.prepare(url)
    write_at_once(url, tmp_path)


def write_at_once(url: str, tmp_path: Path) -> None:
    """Several workers on a market, to their end."""
    logs = [tmp_path / f"{number}.log" for number in range(WORKERS)]
    workers = [market.start(url, seed, WRITES, log) for seed, log in enumerate(logs)]
    for worker in workers:
        _, said = worker.communicate(timeout=100)
        assert worker.returncode == 0, said.decode()
    found = [market.lines(log) for log in logs]
    assert all(log[-1] == ["ended"] for log in found)
    assert sum(1 for log in found for line in log if line[0] == "done") > WORKERS * WRITES / 3
    market.check(url, found)


@pytest.mark.timeout(120)
def test_a_process_killed_at_random_points(harness: Harness, tmp_path: Path) -> None:
    """Again and again, each time somewhere else; another one goes on writing meanwhile."""
    url = harness.replicated.url()
    market.prepare(url)
    kill_again_and_again(url, tmp_path)


def kill_again_and_again(url: str, tmp_path: Path) -> None:
    """Workers on a market, none of which comes to its end."""
    other = tmp_path / "other.log"
    going = market.start(url, 99, 10**6, other)
    logs = []
    for number in range(KILLS):
        log = tmp_path / f"{number}.log"
        worker = market.start(url, number, 10**6, log)
        began = time.monotonic()
        while len(market.lines(log)) < 2 and time.monotonic() - began < 20:
            time.sleep(0.01)
        time.sleep(AFTER[0] + (AFTER[1] - AFTER[0]) * number / KILLS)
        market.kill(worker)
        logs.append(log)
    # What the killed have begun may keep the other one waiting, until the server gives it up.
    began = time.monotonic()
    while done([market.lines(log) for log in (*logs, other)]) <= KILLS and time.monotonic() - began < 60:
        time.sleep(0.05)
    market.kill(going)
    found = [market.lines(log) for log in (*logs, other)]
    assert all(len(log) > 1 for log in found)
    assert done(found) > KILLS
    market.check(url, found, repair=converges(url))


def done(logs: list[list[list[Any]]]) -> int:
    """The writes that were acknowledged."""
    return sum(1 for log in logs for line in log if line[0] == "done")


def converges(url: str) -> bool:
    """Whether some write is not atomic, so that a crash may leave something to be finished."""
    with keyplan.open(market.model(), url) as store:
        return any(plan.how == "converges" for plan in store.design.writes.values())


def test_the_market_has_views_of_every_sort(harness: Harness) -> None:
    """Otherwise the tests above would say little."""
    url = harness.replicated.url()
    market.prepare(url)
    with keyplan.open(market.model(), url) as store:
        assert not store.design.unserved
        places = [place for some in store._core.places.of.values() for place in some]
        assert any(place.measures for place in places)
        assert any(place.copies for place in places)
        assert any(part.cut == "each" for view in store.design.views.values() for part in view.parts)
        assert any(view.unique for view in store.design.views.values())
        parts = {part.path for view in store.design.views.values() for part in view.parts}
        assert {"spent", "largest"} <= parts
        assert any(place.measures and place.copies for place in places)
