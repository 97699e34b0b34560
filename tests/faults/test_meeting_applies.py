"""Several that apply designs at once, in any order of their requests: whoever is overtaken does nothing more, and what
is on record in the end is there, all of it and nothing else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyplan
from keyplan.engines import engine_for_url, lease
from keyplan.engines.base import Pause
from keyplan.errors import ConflictError, DesignMismatchError
from keyplan.model.model import Model
from keyplan.plan.design import Design
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
ROWS = 6
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
        self._go_on(None)

    def step(self) -> None:
        """Sends one more of its requests."""
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


def model_of(harness: Harness, more: str) -> Model:
    text = STATES + more + WRITES + MARK
    if "Team" in more:
        text = text.replace("entities:", FOUND if "named:" in more else ENTITIES)
        text += "  found: { create: Team, rate: 0.1/s }\n"
    return of(harness, text)


def made_for(harness: Harness, *texts: str) -> list[tuple[Model, Design]]:
    models = [model_of(harness, more) for more in texts]
    return [(one, keyplan.design(one, harness.name, advise=False)) for one in models]


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
        with keyplan.open(base[0], url, design=base[1]) as old:
            appliers: list[Applying] = []
            ended: list[Applying] = []
            while chosen or appliers:
                if chosen and (not appliers or source.random() < hurry):
                    appliers.append(Applying(*chosen.pop(), url))
                if source.random() < 0.3:
                    try:
                        old.mark(sid=source.randrange(ROWS), **values(source))
                        written += 1
                    except (DesignMismatchError, ConflictError):
                        stopped += 1
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
    made = made_for(harness, *ways)
    for seed in range(ORDERS):
        source = random.Random(seed)
        url = harness.url()
        appliers = [Applying(*one, url) for one in made]
        if seed % 2:
            appliers.append(Applying(*source.choice(made), url))
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
    base, one, other = made_for(harness, "", OPEN + NEWEST, OPEN + MORE)
    url, source = harness.url(), random.Random(1)
    in_processes(harness, url, ["", "", ""], [0, 0, 0])
    with keyplan.open(base[0], url, design=base[1]) as store:
        change(store, source, make=True)
    in_processes(harness, url, [OPEN + MORE] * 3, [0, 0, 0])
    check(url, [other], 0)
    codes = in_processes(harness, url, [OPEN + NEWEST, OPEN + MORE, OPEN + NEWEST], None)
    check(url, [made for made, code in zip((one, other, one), codes, strict=True) if code == 0], 1)


APPLY = """
import sys
import keyplan
from keyplan.engines import lease
from keyplan.errors import ConflictError, DesignMismatchError
from tests.engines.harness import harness_for
from tests.faults.test_meeting_applies import model_of

lease.TERM, lease.GRACE = 3600.0, -3600.0
name, url, more = sys.argv[1:]
model = model_of(harness_for(name), more)
design = keyplan.design(model, name, advise=False)
sys.stdin.readline()
try:
    keyplan.apply(model, url, design=design, destroy=True)
except (ConflictError, DesignMismatchError) as error:
    print(error)
    sys.exit(2)
"""


def in_processes(harness: Harness, url: str, texts: Sequence[str], expected: list[int] | None) -> list[int]:
    """Has processes apply designs, all at the same moment."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", APPLY, harness.name, url, more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for more in texts
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120)[0] for process in processes]
    codes = [process.returncode for process in processes]
    assert set(codes) <= {0, 2}, said
    assert 0 in codes, said
    if expected is not None:
        assert codes == expected, said
    return codes


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
