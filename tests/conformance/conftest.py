"""`both`: a store on each engine in turn, in designs for different figures, with the reference beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.pair import SIZES, Pair, Rows, opened, parsed
from tests.engines.harness import Harness

Both = Callable[..., Pair]


@pytest.fixture(scope="session", params=list(SIZES))
def size(request: pytest.FixtureRequest) -> str:
    """The figures of the model, which decide its design."""
    found: str = request.param
    return found


@pytest.fixture
def both(harness: Harness, size: str) -> Iterator[Both]:
    """Opens a model, given as text, with rows; verifies every view at the end."""
    with ExitStack() as stack:
        made: list[Pair] = []

        def open_pair(text: str, rows: Rows = ()) -> Pair:
            made.append(stack.enter_context(opened(parsed(text, size), harness.url(), rows)))
            return made[-1]

        yield open_pair
        for pair in made:
            pair.verified()


@pytest.fixture(scope="module")
def reads(request: pytest.FixtureRequest, harness: Harness, size: str) -> Iterator[Pair]:
    """The MODEL and ROWS of a test file, for tests that change nothing."""
    with opened(parsed(request.module.MODEL, size), harness.url(), request.module.ROWS) as pair:
        pair.verified()
        yield pair


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, harness: Harness, size: str) -> Iterator[Pair]:
    """The MODEL of a test file, for tests that write rows of their own."""
    with opened(parsed(request.module.MODEL, size), harness.url()) as pair:
        yield pair
        pair.verified()
