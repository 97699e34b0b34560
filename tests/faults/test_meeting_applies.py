"""Several that apply designs at once, in any order of their requests: whoever is overtaken does nothing more, and what
is on record in the end is there, all of it and nothing else."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

import keyplan
from keyplan.engines import engine_for_url, lease
from keyplan.engines.rounds import Pause
from keyplan.errors import ConflictError, DesignMismatchError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import lock_text
from keyplan.store.bulk import apply as applying
from tests.conformance.test_changed_designs import MORE, WRITES
from tests.engines.harness import Harness
from tests.faults.test_cut_off_applies import NEWEST, OPEN, SHUT, STATES, of

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "5")) * 3
MARK = '  mark: { update: Score, set: [points, tags, state], where: "sid = :sid", rate: 0.1/s }\n'
TEAM = """
  team: { find: Team, where: "tid = :tid", rate: 1/s }
"""
OTHER_TEAM = TEAM.replace("team:", "named:").replace("tid = :tid", "name = :name").replace(" rate", " limit: 5, rate")
ENTITIES = 'entities:\n  Team: { count: 1M, fields: { tid: "int, key", name: "string(8), unique" } }'
FOUND = 'entities:\n  Team: { count: 1M, fields: { tid: "int, key", name: "string(8), distinct 1000" } }'
SUMS = MORE.replace("low: min(points), high: max(points)", "all: sum(points)")
SELDOM = NEWEST.replace("300/s", "3/s")
ANOTHER_INDEX = (SELDOM, SELDOM.replace("game = :game", "points = :points").replace("order: at desc", "select: [sid]"))
ROWS = 6
ALL = 10_000
"""More requests than an `apply` sends here."""
WAYS = [
    (OPEN + NEWEST, SHUT),
    (OPEN + MORE, MORE),
    (TEAM, OTHER_TEAM + NEWEST),
    (OPEN + TEAM + MORE, SHUT + OTHER_TEAM),
]
SAME = (OPEN + MORE + TEAM, OPEN + MORE + TEAM)


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """What a design changes is made and taken away many times here: on the server that answers soonest."""
    return quick_harness


class Applying:
    """An `apply` under way, and where it is now."""

    def __init__(self, model: Model, design: Design, url: str) -> None:
        self.model, self.design = model, design
        engine = engine_for_url(url)
        self._port = engine.connect(url, model, design)
        self._proc = applying.apply(model, engine, design, destroy=True)
        self._left: list[Any] = []
        self._replies: list[Any] = []
        self.ended = self.done = self.killed = False
        self.sent = 0
        self._go_on(None)

    def steps(self, many: int) -> None:
        """Sends some more of its requests, or those that it has."""
        for _ in range(many):
            if not self.ended:
                self.step()

    def step(self) -> None:
        """Sends one more of its requests."""
        self.sent += 1
        if self._left:
            self._replies += self._port.send([self._left.pop(0)])
        if not self._left:
            self._go_on(self._replies)

    def kill(self) -> None:
        """Leaves it where it is."""
        self._proc.close()
        self._port.close()
        self.ended = self.killed = True

    def _go_on(self, replies: Sequence[Any] | None) -> None:
        try:
            round = self._proc.send(replies)
        except StopIteration:
            self.ended = self.done = True
        except (ConflictError, DesignMismatchError):
            self.ended = True
        else:
            self._left, self._replies = [] if isinstance(round, Pause) else list(round), []
        if self.ended:
            self._port.close()


def text_of(more: str) -> str:
    text = STATES + more + WRITES + MARK
    if "Team" in more:
        text = text.replace("entities:", FOUND if "named:" in more else ENTITIES)
        text += "  found: { create: Team, rate: 0.1/s }\n"
    return text


@cache
def made(harness: Harness, more: str) -> tuple[Model, Design]:
    model = of(harness, text_of(more))
    return model, keyplan.design(model, harness.name, advise=False)


def made_for(harness: Harness, *texts: str) -> list[tuple[Model, Design]]:
    return [made(harness, more) for more in texts]


def filled(harness: Harness, base: tuple[Model, Design], source: random.Random) -> str:
    """A database with rows."""
    url = harness.url()
    keyplan.apply(base[0], url, design=base[1])
    with keyplan.open(base[0], url, design=base[1]) as store:
        change(store, source, make=True)
    return url


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ways", [*WAYS, SAME])
def test_views_are_those_of_the_design_that_is_recorded(harness: Harness, ways: tuple[str, str]) -> None:
    base, *others = made_for(harness, "", *ways)
    refused = 0
    for seed in range(ORDERS):
        source = random.Random(seed)
        url = filled(harness, base, source)
        appliers = [Applying(*others[0], url)]
        for _ in range(source.randrange(25)):
            if not appliers[0].ended:
                appliers[0].step()
        appliers.append(Applying(*others[1], url))
        slow = source.random() ** 2  # now and then, the first is far behind the other
        while going := [one for one in appliers if not one.ended]:
            one = going[0 if source.random() < slow else -1]
            one.step()
            if one.done:
                with keyplan.open(one.model, url, design=one.design) as store:
                    change(store, source)
        done = [one for one in appliers if one.done]
        assert done, seed
        refused += len(done) == 1
        check(url, [(one.model, one.design) for one in done], seed)
    assert (refused > 0) == (ways[0] != ways[1])  # the same design is no reason to refuse one


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("before", "after", "begun"),
    [*((*ways, False) for ways in (*WAYS, ANOTHER_INDEX)), (*WAYS[0], True), (MORE, SUMS, True)],
)
def test_one_that_falls_behind_takes_nothing_from_another_of_the_same_design(
    harness: Harness, before: str, after: str, begun: bool
) -> None:
    """It stands still somewhere until the other is about to record the design, does a little more, and is too late.
    `begun`: the design before is not on record, but somebody was about to do that."""
    base, others, wanted = made_for(harness, "", before, after)

    def made_ready(source: random.Random) -> str:
        if not begun:
            return filled(harness, others, source)
        url = filled(harness, base, source)
        cut_off = Applying(*others, url)
        cut_off.steps(least)
        cut_off.kill()
        return url

    least = count(others, filled(harness, base, random.Random(0))) - 1
    most = count(wanted, made_ready(random.Random(0)))
    for still in range(1, most):
        for more in (1, 2):
            url = made_ready(random.Random(still))
            late, soon = Applying(*wanted, url), Applying(*wanted, url)
            soon.steps(most // 3)  # it has said that it is at work, and changed nothing
            late.steps(still)
            soon.steps(most - soon.sent - 1)
            late.steps(more)
            soon.steps(ALL)
            late.steps(ALL)
            assert (soon.done, late.done) == (True, True), (still, more)
            check(url, [wanted], still)


def test_what_was_begun_for_another_design_goes_as_it_is_told(harness: Harness) -> None:
    base, begun, wanted = made_for(harness, "", MORE, SUMS)
    most = count(begun, filled(harness, base, random.Random(0)))
    for rounds in range(1, most):
        url = filled(harness, base, random.Random(0))
        cut_off = Applying(*begun, url)
        cut_off.steps(rounds)
        cut_off.kill()
        done: list[str] = []
        steps = keyplan.apply(wanted[0], url, design=wanted[1], progress=done.append)
        assert [one for one in done if one in steps] == steps, rounds
        check(url, [wanted], rounds)


def count(wanted: tuple[Model, Design], url: str) -> int:
    """The requests of one that applies a design alone, until that is on record."""
    alone = Applying(*wanted, url)
    while not is_recorded(*wanted, url):
        alone.step()
    many = alone.sent
    alone.steps(ALL)
    assert alone.done
    return many


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ways", WAYS)
def test_stores_write_and_some_are_killed_meanwhile(
    harness: Harness, ways: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of the design before writes between any two requests, as long as it is let; then somebody who is left
    alone applies a design, whichever, and all is as that one wants it."""
    monkeypatch.setattr(lease, "TERM", 0.0)
    monkeypatch.setattr(lease, "GRACE", 0.0)
    base, *others = made_for(harness, "", *ways)
    written = stopped = 0
    for seed in range(ORDERS):
        source = random.Random(1000 + seed)
        url = filled(harness, base, source)
        chosen = [source.choice([*others, base]) for _ in range(source.randrange(2, 5))]
        hurry = source.random() ** 2  # now and then, all of them begin at the same time
        stays = source.choice([0.0, 0.5, 0.9])  # and those that stand still do so for long
        with keyplan.open(base[0], url, design=base[1]) as old:
            appliers: list[Applying] = []
            ended: list[Applying] = []
            while chosen or appliers:
                if chosen and (not appliers or source.random() < hurry):
                    appliers.append(one := Applying(*chosen.pop(), url))
                if source.random() < 0.3:
                    try:
                        old.mark(sid=source.randrange(ROWS), **values(source))
                        written += 1
                    except (DesignMismatchError, ConflictError):
                        stopped += 1
                if one.ended or source.random() >= stays:
                    one = source.choice(appliers)
                one.kill() if source.random() < 0.01 else one.step()
                ended += [one for one in appliers if one.ended]
                appliers = [one for one in appliers if not one.ended]
        if any(one.killed for one in ended):
            last = source.choice([*others, base])
            keyplan.apply(last[0], url, design=last[1], destroy=True)
            check(url, [last], seed)
        else:
            check(url, [(one.model, one.design) for one in ended if one.done], seed)
    assert written
    assert stopped or ORDERS < 15  # in a few orders, nobody need be in the way


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ways", [(NEWEST, OPEN + MORE), (OPEN + TEAM, SHUT + OTHER_TEAM), SAME])
def test_of_several_that_make_the_same_database_one_has_what_its_design_wants(
    harness: Harness, ways: tuple[str, str]
) -> None:
    both = made_for(harness, *ways)
    for seed in range(ORDERS):
        source = random.Random(seed)
        url = harness.url()
        appliers = [Applying(*one, url) for one in both]
        if seed % 2:
            appliers.append(Applying(*source.choice(both), url))
        while going := [one for one in appliers if not one.ended]:
            source.choice(going).step()
        done = [one for one in appliers if one.done]
        if ways[0] == ways[1]:
            assert len(done) == len(appliers), seed
        model, design = check(url, [(one.model, one.design) for one in done], seed, there=False)
        with keyplan.open(model, url, design=design) as store:
            change(store, source, make=True)
            assert store.verify().ok


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ways", [(OPEN + NEWEST, SHUT), (OPEN + MORE, SHUT + TEAM)])
@pytest.mark.parametrize("new", [True, False])
def test_the_same_in_threads_that_run_at_once(harness: Harness, ways: tuple[str, str], new: bool) -> None:
    base, *others = made_for(harness, "", *ways)
    for seed in range(max(2, ORDERS // 5)):
        source = random.Random(seed)
        url = harness.url() if new else filled(harness, base, source)
        chosen = [others[0], others[seed % 2], others[1], others[0]]
        start = threading.Barrier(len(chosen))
        ended: list[tuple[tuple[Model, Design], bool]] = []

        threads = [threading.Thread(target=in_thread, args=(one, url, start, ended)) for one in chosen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == len(chosen), seed
        check(url, [one for one, done in ended if done], seed, there=not new)


def in_thread(one: tuple[Model, Design], url: str, start: threading.Barrier, ended: list[Any]) -> None:
    start.wait()
    try:
        keyplan.apply(one[0], url, design=one[1], destroy=True)
    except (ConflictError, DesignMismatchError):
        ended.append((one, False))
    else:
        ended.append((one, True))


@pytest.mark.timeout(300)
def test_the_same_in_processes(harness: Harness) -> None:
    """Those that apply the same design all succeed, on a new database and over rows."""
    texts = ("", OPEN + NEWEST, OPEN + MORE)
    base, one, other = made_for(harness, *texts)
    url, source = harness.url(), random.Random(1)
    with processes(3) as three:
        assert at_once(three, url, [(texts[0], base)] * 3) == ["done"] * 3
        with keyplan.open(base[0], url, design=base[1]) as store:
            change(store, source, make=True)
        assert at_once(three, url, [(texts[2], other)] * 3) == ["done"] * 3
        check(url, [other], 0)
        chosen = [(texts[1], one), (texts[2], other), (texts[1], one)]
        said = at_once(three, url, chosen)
        assert "done" in said
    check(url, [one for (_, one), what in zip(chosen, said, strict=True) if what == "done"], 1)


APPLY = """
import json, sys
import keyplan
from keyplan.engines import lease
from keyplan.errors import ConflictError, DesignMismatchError
from keyplan.model.load import parse_model
from keyplan.plan.lockfile import read_lock
from dataclasses import replace

lease.TERM, lease.GRACE = 3600.0, -3600.0
for line in sys.stdin:
    text, targets, lock, url = json.loads(line)
    model = replace(parse_model(text), targets=targets)
    design = read_lock(lock, model, "the test's")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        keyplan.apply(model, url, design=design, destroy=True)
        print("done", flush=True)
    except (ConflictError, DesignMismatchError) as error:
        print(error, flush=True)
"""
Process = subprocess.Popen[str]


@contextmanager
def processes(many: int) -> Iterator[list[Process]]:
    """Some that apply what they are told to."""
    command = [sys.executable, "-c", APPLY]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(many)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def at_once(those: Sequence[Process], url: str, chosen: Sequence[tuple[str, tuple[Model, Design]]]) -> list[str]:
    """Has processes apply designs, all at the same moment; what each of them says."""
    for process, (more, (model, design)) in zip(those, chosen, strict=True):
        targets = {name: dict(said) for name, said in model.targets.items()}
        tell(process, json.dumps([text_of(more), targets, lock_text(model, design), url]))
    assert [hear(process) for process in those] == ["ready"] * len(those)
    for process in those:
        tell(process, "go")
    return [hear(process) for process in those]


def tell(process: Process, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def hear(process: Process) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.strip()


def check(url: str, done: Sequence[tuple[Model, Design]], seed: int, *, there: bool = True) -> tuple[Model, Design]:
    """One of these designs is on record, and the database holds it and nothing else."""
    holds = [one for one in done if is_recorded(*one, url)]
    assert holds, seed
    model, design = holds[0]
    with keyplan.open(model, url, design=design) as store:
        checked = store.verify()
        assert checked.ok, (seed, checked.structures, checked.problems)
        assert checked.rows == (ROWS if there else 0), seed
    steps = keyplan.apply(model, url, design=design)
    assert [one for one in steps if not one.startswith("leaves: ")] == [], seed
    return model, design


def is_recorded(model: Model, design: Design, url: str) -> bool:
    try:
        keyplan.open(model, url, design=design).close()
    except DesignMismatchError:
        return False
    return True


def values(source: random.Random) -> dict[str, Any]:
    return {
        "points": source.randrange(99),
        "tags": {source.choice("ab")},
        "state": source.choice(["open", "shut"]),
    }


def change(store: Any, source: random.Random, *, make: bool = False) -> None:
    noon = datetime(2052, 5, 15, 12, tzinfo=UTC)
    for sid in range(ROWS):
        if make:
            store.make(sid=sid, game=sid % 2, at=noon + timedelta(hours=sid), **values(source))
        else:
            store.mark(sid=sid, **values(source))
