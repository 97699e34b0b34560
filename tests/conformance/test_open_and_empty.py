"""A store that is open on a database without rows while another design is applied: it may write the first of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

import keyplan
from keyplan.engines import engine_for_url, lease
from keyplan.engines.rounds import Pause
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.bulk import apply as applying
from tests.conformance.test_changed_designs import MODEL, MORE, WRITES
from tests.engines.harness import Harness
from tests.faults.own_time import OwnTime


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """As for other tests of designs that change."""
    return quick_harness


@pytest.fixture(autouse=True)
def own_time(monkeypatch: pytest.MonkeyPatch) -> OwnTime:
    return OwnTime(monkeypatch, 0.4, 0.4)


GAME = "  Game:\n    fields: { gid: 'int, key' }\npatterns:\n  game: { find: Game, where: 'gid = :gid', rate: 1/s }\n"
FOUND = "  found: { create: Game, rate: 0.1/s }\n"
WITH_GAMES = MODEL.replace("patterns:\n", GAME) + WRITES + FOUND
CHANGES = {
    "another view": (MODEL + WRITES, MODEL + MORE + WRITES),
    "another field": (MODEL + WRITES, MODEL.replace("points: int", "points: int, level: int") + WRITES),
    "another optional field": (
        MODEL + WRITES,
        MODEL.replace("points: int", "points: int, level: 'int, optional 5%'") + WRITES,
    ),
    "another type": (MODEL + WRITES, MODEL.replace("points: int", "points: float") + WRITES),
    "one that all rows have": (MODEL.replace("points: int", "points: 'int, optional 50%'") + WRITES, MODEL + WRITES),
    "one entity less": (WITH_GAMES, MODEL + WRITES),
}
NOON = datetime(2052, 5, 15, 12, tzinfo=UTC)


@cache
def models(harness: Harness, change: str) -> tuple[Model, Model]:
    before, after = (replace(parse_model(text), targets=harness.targets) for text in CHANGES[change])
    return before, after


_designs: dict[tuple[int, str], Design] = {}


def design_of(model: Model, url: str) -> Design:
    """As `apply` makes it; once for all moments."""
    engine = engine_for_url(url).name
    key = id(model), engine  # models are kept by `models`
    if key not in _designs:
        _designs[key] = keyplan.design(model, engine, advise=False)
    return _designs[key]


def apply(model: Model, url: str) -> list[str]:
    return keyplan.apply(model, url, design=design_of(model, url))


def write(store: Any) -> None:
    """The first row: of the entity that goes, or one without what may be missing."""
    if "found" in store.model.writes:
        store.found(gid=1)
    else:
        optional = store.model.entities["Score"].fields["points"].optional is not None
        store.make(sid=1, game=0, at=NOON, **({} if optional else {"points": 1}))


def is_there(store: Any) -> bool:
    if "found" in store.model.writes:
        return store.game(gid=1) is not None
    return "score" in store.model.patterns and store.score(sid=1) is not None


def why_not_opened(model: Model, url: str) -> str:
    try:
        keyplan.open(model, url).close()
    except DesignMismatchError as error:
        return str(error)
    return ""


class CutOffError(Exception):
    """Ends an `apply` in the midst of it."""


def applied(
    model: Model, url: str, own_time: OwnTime, meanwhile: Callable[[int], None], *, destroy: bool = False
) -> None:
    """Applies a design; before each of its rounds, something else is done."""
    engine = engine_for_url(url)
    design = design_of(model, url)
    port = engine.connect(url, model, design)
    attempt = applying.apply(model, engine, design, destroy=destroy)
    replies: Any = None
    number = 0
    try:
        while True:
            round = attempt.send(replies)
            if isinstance(round, Pause):
                own_time.sleep(round.seconds)
                replies = ()
                continue
            meanwhile(number)
            number += 1
            replies = port.send(round)
    except StopIteration:
        pass
    finally:
        port.close()


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_that_nobody_has_written_to_stops(harness: Harness, change: str) -> None:
    before, after = models(harness, change)
    url = harness.url()
    apply(before, url)
    with keyplan.open(before, url) as old:
        try:
            apply(after, url)
        except DesignMismatchError:  # it takes over no place of another design, not even an empty one
            write(old)
            assert is_there(old)
            return
        with pytest.raises(DesignMismatchError, match="open it again"):
            write(old)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.timeout(120)
def test_the_first_row_is_written_while_a_design_is_applied(harness: Harness, change: str, own_time: OwnTime) -> None:
    """It shows in the new design, or is refused, or the new design is."""
    before, after = models(harness, change)
    for moment in range(30):
        url = harness.url()
        apply(before, url)
        written: list[int] = []
        rounds: list[int] = []
        with keyplan.open(before, url) as old:

            def meanwhile(
                number: int,
                moment: int = moment,
                written: list[int] = written,
                rounds: list[int] = rounds,
                old: Any = old,
            ) -> None:
                rounds.append(number)
                if number == moment:
                    with suppress(DesignMismatchError):
                        write(old)
                        written.append(1)

            try:
                applied(after, url, own_time, meanwhile)
            except DesignMismatchError:
                model = before  # all is as it was
            else:
                model = after
        with keyplan.open(model, url) as store:
            assert is_there(store) == bool(written), moment
            assert store.verify().ok, moment
        if len(rounds) <= moment:
            return


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_reads_nothing_that_another_design_has_written(
    harness: Harness, change: str, own_time: OwnTime
) -> None:
    """It has looked at the record before every round, at last just before the design was recorded, and believes what it
    has seen for a while: it has been stopped by then, or what it reads is as it knows it."""
    before, after = models(harness, change)
    url = harness.url()
    apply(before, url)
    with keyplan.open(before, url) as old:

        def meanwhile(number: int) -> None:
            own_time.passes(1)
            with suppress(DesignMismatchError):
                assert not is_there(old), number

        try:
            applied(after, url, own_time, meanwhile)
        except DesignMismatchError:
            return
        more = {"level": 3} if "level" in after.entities["Score"].fields else {}
        points = 1.5 if change == "another type" else 1
        with keyplan.open(after, url) as new:
            new.make(sid=1, game=0, at=NOON, points=points, **more)
        with suppress(DesignMismatchError):
            assert old.score(sid=1) == {"sid": 1, "game": 0, "at": NOON, "points": points}
        own_time.passes(1)
        with pytest.raises(DesignMismatchError, match="open it again"):
            old.score(sid=1)


def test_a_first_row_goes_with_its_entity_if_that_was_said(harness: Harness, own_time: OwnTime) -> None:
    before, after = models(harness, "one entity less")
    for moment in range(30):
        url = harness.url()
        apply(before, url)
        rounds: list[int] = []
        with keyplan.open(before, url) as old:

            def meanwhile(number: int, moment: int = moment, rounds: list[int] = rounds, old: Any = old) -> None:
                rounds.append(number)
                if number == moment:
                    with suppress(DesignMismatchError):
                        write(old)

            applied(after, url, own_time, meanwhile, destroy=True)
        with keyplan.open(after, url) as store:
            assert store.verify().ok, moment
        assert apply(after, url) == [], moment
        if len(rounds) <= moment:
            return


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.timeout(120)
def test_what_is_cut_off_where_there_are_no_rows_is_finished_or_taken_back(
    harness: Harness, change: str, own_time: OwnTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "GRACE", -0.4)  # nobody is waited for
    before, after = models(harness, change)
    for moment in range(60):
        url = harness.url()
        apply(before, url)
        rounds: list[int] = []

        def meanwhile(number: int, moment: int = moment, rounds: list[int] = rounds) -> None:
            rounds.append(number)
            if number == moment // 2:
                raise CutOffError

        with suppress(CutOffError, DesignMismatchError):
            applied(after, url, own_time, meanwhile)
        refusals = [why_not_opened(one, url) for one in (before, after)]
        assert not [why for why in refusals if "is missing" in why], moment  # what the design on record has is there
        model = after if moment % 2 else before
        try:
            apply(model, url)
        except DesignMismatchError:  # it takes over no place of another design, not even an empty one
            assert model is after
            model = before
        with keyplan.open(model, url) as store:
            more = {"level": 3} if "level" in model.entities["Score"].fields else {}
            store.make(sid=1, game=0, at=NOON, points=1, **more)
            assert is_there(store) or change == "one entity less", moment
            assert store.verify().ok, moment
        assert apply(model, url) == [], moment
        if len(rounds) <= moment // 2 and moment % 2:
            return
