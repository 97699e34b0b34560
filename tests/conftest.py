"""The engines of a test run: which are wanted, which can be started, and how each of them fared.

`pytest -m sqlite` runs the tests of one engine and nothing else; `pytest --engine sqlite` runs everything that needs no
other engine. An engine that cannot be started skips its tests and says why; if `KEYPLAN_TEST_REQUIRE` lists it, they
fail.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from keyplan.engines import BUILTIN, lease
from keyplan.store.reading import spans
from tests.engines.harness import Harness, harness_for
from tests.strategies.designs import Designs

ROOT = Path(__file__).parent

Lend = Callable[..., str]

# A run that fails fails again: the same examples each time. `make soak` draws new ones.
# How long an example takes depends on who else works on the machine, so none is too slow.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("random"), derandomize=True)
settings.register_profile(
    "quick", settings.get_profile("steady"), max_examples=15
)  # `make check`; explicit numbers win
settings.load_profile("random" if os.environ.get("KEYPLAN_RANDOM") else "steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("keyplan")
    group.addoption("--engine", action="append", choices=BUILTIN, help="leave out the tests of all other engines")
    group.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    for name in BUILTIN:
        config.addinivalue_line("markers", f"{name}: runs on the engine '{name}'")
    config.addinivalue_line("markers", "thorough: takes seconds, and is left out of `make check`")
    unknown = _required() - set(BUILTIN)
    if unknown:
        raise pytest.UsageError(f"KEYPLAN_TEST_REQUIRE: no engine '{min(unknown)}'; there are {', '.join(BUILTIN)}")
    config.pluginmanager.register(Tally())


def _required() -> set[str]:
    return set(os.environ.get("KEYPLAN_TEST_REQUIRE", "").replace(",", " ").split())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--engine") or BUILTIN
    kept, left_out = [], []
    for item in items:
        home = item.path.relative_to(ROOT).parts
        if home[:1] == ("engines",) and len(home) > 2:
            item.add_marker(home[1])
        name = next((mark.name for mark in item.iter_markers() if mark.name in BUILTIN), None)
        if name is not None:
            item.user_properties.append(("engine", name))
        (kept if name is None or name in wanted else left_out).append(item)
    items[:] = kept
    _gather_engines(items)
    config.hook.pytest_deselected(items=left_out)


def _gather_engines(items: list[pytest.Item]) -> None:
    """The tests of an engine follow each other, so that its server is started once: pytest, which gathers them by
    further parameters too, leaves an engine and comes back to it. Otherwise they stay in its order."""
    places = [number for number, item in enumerate(items) if _engine_of(item) is not None]
    gathered = sorted((items[number] for number in places), key=lambda item: BUILTIN.index(str(_engine_of(item))))
    for number, item in zip(places, gathered, strict=True):
        items[number] = item


def _engine_of(item: pytest.Item) -> object:
    """The engine whose `harness` a test takes, if any."""
    return getattr(getattr(item, "callspec", None), "params", {}).get("harness")


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector need not look at it again and again. And it looks
    seldom: at its usual pace it takes a seventh of the time of a design."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 10, 10)


def pytest_sessionfinish() -> None:
    """What is left ends with the process: pytest would look through all of it five times."""
    gc.freeze()


LONGEST = 20
"""How many parts of a run are listed with the seconds that they took."""


class Tally:
    """Counts by engine how the tests ended, and where the time went; also when they ran in several processes."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in BUILTIN}
        self.seconds: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = dict(report.user_properties).get("engine")
        self.seconds[report.nodeid.partition("::")[0], str(name or "")] += report.duration
        # A test counts once: by its call, or by its setup or teardown if that did not pass.
        if name is not None and (report.when == "call" or report.outcome != "passed"):
            self.counts[str(name)][report.outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, counts in self.counts.items():
            if counts:
                listed = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))
                terminalreporter.write_line(f"engine {name}: {listed}")
        total = sum(self.seconds.values())
        if total > 60:
            terminalreporter.write_line(f"seconds of {total:.0f} in all processes together, by file and engine:")
            for (file, name), seconds in self.seconds.most_common(LONGEST):
                terminalreporter.write_line(f"{seconds:7.1f} {file} {name}".rstrip())


@pytest.fixture(autouse=True, scope="session")
def quick_leases() -> Iterator[None]:
    """No store of a test is open while another design is applied, but where a test is about that: nobody waits for
    them, and they look at nothing that requests are counted among."""
    kept = lease.TERM, lease.GRACE
    lease.TERM, lease.GRACE = 3600.0, -3600.0
    yield
    lease.TERM, lease.GRACE = kept


@pytest.fixture(autouse=True, scope="session")
def patience() -> Iterator[None]:
    """Generated ranges are of centuries, and nobody waits for a million requests."""
    kept, spans.MOST_BUCKETS = spans.MOST_BUCKETS, 10_000
    yield
    spans.MOST_BUCKETS = kept


EACH_ENGINE = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in BUILTIN]


@pytest.fixture(scope="session", params=EACH_ENGINE)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """Each engine in turn, its server started."""
    yield from started(request.param)


@pytest.fixture(scope="session", params=EACH_ENGINE)
def quick_harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """Each engine in turn, as a server that answers soonest: for tests that cut calls off at every single request."""
    yield from started(request.param, quick=True)


def started(name: str, *, quick: bool = False) -> Iterator[Harness]:
    """A started harness; skips, or fails where the engine is required, if it cannot be started."""
    found = harness_for(name, quick=quick)
    try:
        found.start()
    except Exception as error:
        reason = f"engine '{name}' cannot be started: {error}"
        if name in _required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def url(harness: Harness) -> str:
    """A database that nobody has used yet, on each engine in turn, with as many nodes as its users have."""
    return harness.replicated.url()


@pytest.fixture
def lend(request: pytest.FixtureRequest, harness: Harness) -> Iterator[Lend]:
    """Databases without rows, each lent to one test after the other that names the same model and figures.

    What was applied stays in them, which on some engines takes far longer to make than rows. A test that fails keeps
    its database. Fixtures that open stores close them before the database is given back, since they were made later.
    `soonest`: on the server that answers soonest."""
    lent: list[tuple[Harness, Hashable, str]] = []
    failed = request.session.testsfailed

    def lend_for(*what: Hashable, soonest: bool = False) -> str:
        place = harness.soonest if soonest else harness
        lent.append((place, what, place.borrow(what)))
        return lent[-1][2]

    yield lend_for
    if request.session.testsfailed == failed:
        for place, what, url in lent:
            place.give_back(what, url)


@pytest.fixture
def designs() -> Designs:
    """Designs of the models that this test draws."""
    return Designs()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of that name below `tests/golden`."""

    def compare(name: str, text: str) -> None:
        file = ROOT / "golden" / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"no golden file '{name}'; run with --update-golden and review it"
        assert text == file.read_text(encoding="utf-8")

    return compare
