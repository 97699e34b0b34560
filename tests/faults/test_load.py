"""Loads that end early: killed or interrupted, they go on from the last number that was reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import keyplan
from tests.engines.harness import Harness
from tests.faults import market

ROWS = 1_500

LOADER = """
import sys
import keyplan
from tests.faults import market
from tests.faults.test_load import rows
from keyplan.store import load
load.BULK = 300  # small batches, so that there are some to be cut off between
with keyplan.open(market.model(), sys.argv[1]) as store:
    print(0, flush=True)
    store.load(rows(), done=int(sys.argv[2]), progress=lambda count: print(count, flush=True))
print("ended", flush=True)
"""


def rows(count: int = ROWS):  # type: ignore[no-untyped-def]
    for number in range(count):
        yield "User", {"uid": number, "email": f"e{number}", "name": f"n{number % 7}"}


def load(url: str, done: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOADER, url, str(done)]
    return subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_load_that_was_cut_off_goes_on(harness: Harness, how: signal.Signals) -> None:
    url = harness.url()
    market.prepare(url)
    done, ended = 0, False
    for attempt in range(3):
        loader = load(url, done)
        assert loader.stdout is not None
        told = [loader.stdout.readline().strip()]
        time.sleep(0.05 + 0.1 * attempt)
        os.kill(loader.pid, how)
        rest, said = loader.communicate(timeout=30)
        told += rest.split()
        numbers = [int(one) for one in told if one.isdigit()]
        ended = "ended" in told
        assert numbers, said
        done = max(done, *numbers)
        if ended:
            break
    model = market.model()
    with keyplan.open(model, url) as store:
        store.load(rows(), done=done)
        found = store.verify()
        assert found.ok, found.problems
        assert found.rows == ROWS + market.PRODUCTS
        for uid in (0, 1, ROWS // 2, ROWS - 1):
            assert store.user(uid=uid)["email"] == f"e{uid}"
            assert store.by_email(email=f"e{uid}")["uid"] == uid
