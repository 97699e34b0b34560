"""`both`: a store on each engine in turn, in designs for different figures, with the reference beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

from keyplan.engines import engine_for_url, get_engine
from tests.conformance.pair import PACKED, SIZES, Pair, Rows, designed, opened, parsed
from tests.conftest import Lend
from tests.engines.harness import Harness

Both = Callable[..., Pair]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Packed designs are for engines that pack, and for the files that write and page most."""
    left_out = [item for item in items if _is_packed(item) and not (_packs(item) and item.path.stem in PACKED_FILES)]
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)


PACKED_FILES = (
    "test_counters",
    "test_lifetimes",
    "test_order_and_pages",
    "test_transactions",
    "test_verify",
    "test_writes",
)


def _is_packed(item: pytest.Item) -> bool:
    return _parameters(item).get("size") == PACKED


def _packs(item: pytest.Item) -> bool:
    return any(kind.packs for kind in get_engine(_parameters(item)["harness"]).kinds.values())


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return dict(getattr(getattr(item, "callspec", None), "params", {}))


@pytest.fixture(scope="session", params=[*SIZES, PACKED])
def size(request: pytest.FixtureRequest) -> str:
    """The figures of the model, which decide its design."""
    found: str = request.param
    return found


RICHEST = "read"
"""The figures whose designs keep most: those are tried on the vendor's own server, others on what answers soonest."""


def pair_of(text: str, size: str, url: str, rows: Rows = ()) -> AbstractContextManager[Pair]:
    model = parsed(text, size)
    return opened(model, url, rows, designed(model, engine_for_url(url).name, size))


@pytest.fixture
def both(lend: Lend, size: str) -> Iterator[Both]:
    """Opens a model, given as text, with rows; verifies every view at the end."""
    with ExitStack() as stack:
        made: list[Pair] = []

        def open_pair(text: str, rows: Rows = ()) -> Pair:
            made.append(stack.enter_context(pair_of(text, size, lend(text, size, soonest=size != RICHEST), rows)))
            return made[-1]

        yield open_pair
        for pair in made:
            pair.verified()


@pytest.fixture(scope="module")
def reads(request: pytest.FixtureRequest, harness: Harness, size: str) -> Iterator[Pair]:
    """The MODEL and ROWS of a test file, for tests that change nothing."""
    place = harness if size == RICHEST else harness.soonest
    with pair_of(request.module.MODEL, size, place.url(), request.module.ROWS) as pair:
        pair.verified()
        yield pair


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, harness: Harness, size: str) -> Iterator[Pair]:
    """The MODEL of a test file, for tests that write rows of their own."""
    place = harness if size == RICHEST else harness.soonest
    with pair_of(request.module.MODEL, size, place.url()) as pair:
        yield pair
        pair.verified()
