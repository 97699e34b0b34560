"""Several writers into the same documents of packed entries: everything acknowledged is there, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyplan.errors import ConflictError
from keyplan.store.store import Store
from tests.engines.harness import Harness
from tests.engines.mongodb.packing import DESIGNS, documents, in_hours, packed_design
from tests.faults import market
from tests.faults.test_concurrent import kill_again_and_again, write_at_once

NOON = datetime(2052, 5, 15, 12, tzinfo=UTC)
WRITERS, EACH = 4, 30


def moment(number: int) -> datetime:
    return NOON + timedelta(seconds=number)


def at_once(work: Callable[[int], None]) -> None:
    """The same work by several threads, each with a number of its own; the first error comes out."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def store(mongodb: Harness) -> Any:
    """All readings of an hour are one document, which is their only home."""
    with in_hours(mongodb.url()) as opened:
        yield opened


def test_two_writers_append_to_one_document(store: Store) -> None:
    def report(writer: int) -> None:
        for number in range(EACH):
            store.report(meter=1, at=moment(writer * EACH + number), value=writer)

    at_once(report)
    (document,) = documents(store)
    assert document["_id"] == {"meter": 1, "hour_at": NOON}
    assert sorted(row["at"] for row in document["rows"]) == [moment(n) for n in range(WRITERS * EACH)]
    assert set(document["rows"][0]) == {"at", "value"}
    assert store.verify().ok


def test_of_several_creates_of_one_row_one_succeeds(store: Store) -> None:
    won: list[tuple[int, int]] = []

    def report(writer: int) -> None:
        for number in range(EACH):
            try:
                store.report(meter=1, at=moment(number), value=writer)
            except ConflictError:
                continue
            won.append((number, writer))

    at_once(report)
    assert sorted(number for number, _ in won) == list(range(EACH))
    for number, writer in won:
        assert store.reading(meter=1, at=moment(number))["value"] == writer
    (document,) = documents(store)
    assert len(document["rows"]) == EACH


def test_replacing_adding_and_taking_in_one_document(store: Store) -> None:
    for number in range(3):
        store.report(meter=1, at=moment(number), value=EACH)
    taken: list[int] = []

    def change(writer: int) -> None:
        for number in range(EACH):
            store.replace(meter=1, at=moment(10 + number), value=writer)
            store.add(meter=1, at=moment(0), value=1)
            try:
                store.use(meter=1, at=moment(1), n=1)
            except ConflictError:
                continue
            taken.append(writer)

    at_once(change)
    assert store.reading(meter=1, at=moment(0))["value"] == EACH + WRITERS * EACH
    assert store.reading(meter=1, at=moment(1))["value"] == 0
    assert len(taken) == EACH
    assert store.reading(meter=1, at=moment(2))["value"] == EACH
    (document,) = documents(store)
    assert len(document["rows"]) == 3 + EACH


def test_documents_come_and_go_under_writers(store: Store) -> None:
    """Each writer's entry may be the first or the last of the document."""

    def come_and_go(writer: int) -> None:
        for _ in range(EACH):
            store.report(meter=1, at=moment(writer), value=writer)
            assert store.reading(meter=1, at=moment(writer))["value"] == writer
            store.forget(meter=1, at=moment(writer))
            assert store.reading(meter=1, at=moment(writer)) is None

    at_once(come_and_go)
    assert documents(store) == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("extras", ["homes", "both"])
def test_writers_on_overlapping_rows(mongodb: Harness, tmp_path: Path, extras: str) -> None:
    url = mongodb.url()
    market.prepare(url, packed_design(market.model(), DESIGNS[extras]))
    write_at_once(url, tmp_path)


@pytest.mark.timeout(180)
def test_a_process_killed_at_random_points(mongodb: Harness, tmp_path: Path) -> None:
    url = mongodb.url()
    market.prepare(url, packed_design(market.model(), DESIGNS["homes"]))
    kill_again_and_again(url, tmp_path)
