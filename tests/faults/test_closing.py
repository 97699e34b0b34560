"""A store that is closed while other threads call it, and async calls that are cancelled: each call is done, or told
why not; the process goes on, and so do those who come after."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.errors import KeyplanError, UnavailableError, UncertainError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.engines.harness import Harness, harness_for
from tests.faults.test_intents import MODEL
from tests.faults.test_stopped_midway import BOTH

THREADS = 5
CLOSES = 6
ROWS = [
    ("User", {"user_id": "a", "name": "old"}),
    *(("Post", {"post_id": f"p{n}", "user": "a", "body": "x"}) for n in range(40)),
]


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Databases are made for every attempt."""
    return quick_harness


def made(name: str) -> tuple[Model, Design]:
    model = replace(parse_model(MODEL + BOTH), targets=harness_for(name).targets)
    return model, keyplan.design(model, name, advise=False)


def call(store: Any, source: random.Random, post: str) -> bool:
    """Some call; whether it is one that writes the post."""
    which = source.randrange(6)
    if which == 0:
        store.add(post_id=post, user="a", body="y")
    elif which == 1:
        store.both(add={"post_id": post, "user": "a", "body": "z"}, rename={"user": "a", "name": post[:8]})
    elif which == 2:
        store.load([("Post", {"post_id": post, "user": "a", "body": "l"})])
    elif which == 3:
        list(store.posts.all(user="a"))
    elif which == 4:
        store.verify()
    else:
        store.post(post="p1")
    return which < 3


def close_meanwhile(name: str, url: str, seed: int) -> None:
    """Run in a process of its own, too: what goes wrong here may end it."""
    model, design = made(name)
    keyplan.apply(model, url, design=design)
    store = keyplan.open(model, url, design=design)
    store.load(ROWS)
    written: list[str] = []
    told: list[BaseException] = []

    def work(number: int) -> None:
        source = random.Random(seed * 100 + number)
        try:
            for attempt in range(10_000):
                post = f"{number}_{attempt}"
                if call(store, source, post):
                    written.append(post)
        except BaseException as error:  # whatever it is, it is judged below
            told.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(0.03 + 0.04 * seed)
    store.close()
    began = time.monotonic()
    for thread in threads:
        thread.join(60)
    assert time.monotonic() - began < 20, "calls go on for long behind close"
    assert len(told) == THREADS
    for error in told:
        assert isinstance(error, UnavailableError | UncertainError), repr(error)
        assert "the store is closed" in str(error) or isinstance(error, UncertainError), error
    with keyplan.open(model, url, design=design) as again:
        again.settle()
        checked = again.verify()
        assert checked.ok, checked.problems
        for post in written:
            assert again.post(post=post) is not None, post


ALONE = """
import sys
from tests.faults.test_closing import close_meanwhile
for number, url in enumerate(sys.argv[2:]):
    close_meanwhile(sys.argv[1], url, number)
"""


@pytest.mark.timeout(240)
def test_close_while_other_threads_call(harness: Harness) -> None:
    urls = [harness.url() for _ in range(CLOSES)]
    command = [sys.executable, "-X", "faulthandler", "-c", ALONE, harness.name, *urls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=230, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.timeout(120)
def test_calls_that_are_cancelled(harness: Harness) -> None:
    """At any moment; what others write to the same rows meanwhile does not wait for what was cancelled."""
    model, design = made(harness.name)
    url = harness.url()
    keyplan.apply(model, url, design=design)

    async def write() -> set[str]:
        written = set()
        async with keyplan.open_async(model, url, design=design) as store:
            await store.load(ROWS)
            for number in range(40):
                source = random.Random(number)
                post = f"c{number}"
                parts = {"add": {"post_id": post, "user": "a", "body": "z"}, "rename": {"user": "a", "name": post}}
                cancelled = asyncio.create_task(store.both(**parts))
                await asyncio.sleep(source.random() * 0.02)
                cancelled.cancel()
                (outcome,) = await asyncio.gather(cancelled, return_exceptions=True)
                if not isinstance(outcome, BaseException):
                    written.add(post)
                began = time.monotonic()
                await store.rename(user="a", name=f"d{number}")
                assert time.monotonic() - began < 4, "waits for one that was cancelled"
                assert (await store.post(post="p1"))["user"]["name"] == f"d{number}"
        return written

    written = asyncio.run(write())
    with keyplan.open(model, url, design=design) as store:
        store.settle()
        checked = store.verify()
        assert checked.ok, checked.problems
        for post in written:
            assert store.post(post=post) is not None, post
        assert store.post(post="p1")["user"]["name"] == "d39"


def test_a_store_that_is_closed_says_so(harness: Harness) -> None:
    model, design = made(harness.name)
    url = harness.url()
    keyplan.apply(model, url, design=design)
    store = keyplan.open(model, url, design=design)
    store.close()
    for number in range(12):
        with pytest.raises(KeyplanError, match="the store is closed; open it again"):
            call(store, random.Random(number), "x")
