"""Loads that end early go on from the last number that was reported; loads at once do not hurt each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

import keyplan
from tests.engines.harness import Harness
from tests.faults import market

ROWS = 900

LOADER = """
import sys
import keyplan
from tests.faults import market
from tests.faults.test_load import rows
from keyplan.store.bulk import load
load.BULK = 180  # small batches, so that there are some to be cut off between
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
        command,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background of a shell, SIGINT is ignored, by everybody whom they start as well.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


# What a killed process had locked in a transaction is free only after the server's limit, and three processes start:
# 15 s on a quiet machine, 100 s on a busy one with three nodes.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_load_that_was_cut_off_goes_on(harness: Harness, how: signal.Signals) -> None:
    url = harness.replicated.url()
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


def overlapping(part: int) -> list[tuple[str, dict[str, object]]]:
    """New orders of users that others rename meanwhile; half of them are loaded by two at once."""
    numbers = range(part * 100, part * 100 + 200)
    return [
        ("Order", {"oid": UUID(int=number), "user": number % 7, "status": "open", "total": number, "tags": ["t"]})
        for number in numbers
    ]


@pytest.mark.timeout(120)
def test_loads_at_once_keep_counters_and_copies_true(harness: Harness) -> None:
    url = harness.replicated.url()
    market.prepare(url)
    model = market.model()
    with keyplan.open(model, url) as store:
        store.load([("User", {"uid": uid, "email": f"e{uid}", "name": "a"}) for uid in range(7)])
    begin = threading.Barrier(4)

    def loads(part: int) -> None:
        with keyplan.open(model, url) as store:
            begin.wait()
            store.load(overlapping(part))

    def renames() -> None:
        with keyplan.open(model, url) as store:
            begin.wait()
            for number in range(20):
                store.rename(uid=number % 7, name=f"n{number}")

    with ThreadPoolExecutor(4) as pool:
        for done in [*(pool.submit(loads, part) for part in range(3)), pool.submit(renames)]:
            done.result()
    with keyplan.open(model, url) as store:
        found = store.verify()
        assert found.ok, found.problems
        for uid in range(7):
            mine = [number for number in range(400) if number % 7 == uid]
            user = store.user(uid=uid)
            assert (user["spent"], user["orders_made"]) == (sum(mine), len(mine))
