"""The replica set of the run, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import started
from tests.engines.harness import Harness


@pytest.fixture(scope="session")
def mongodb() -> Iterator[Harness]:
    """Started once per process; several processes share one server."""
    yield from started("mongodb")
