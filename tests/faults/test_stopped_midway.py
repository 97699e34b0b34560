"""Calls of many rounds that another design comes in between: what they have left is finished by stores of that one, or
was never begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import keyplan
from keyplan.engines import lease
from keyplan.errors import DesignMismatchError, UncertainError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store import lease as stores
from keyplan.store import open as opening
from tests.engines.harness import Harness
from tests.faults.test_intents import MODEL

POSTS = 105
"""More than one request of any engine takes at once."""
MORE = """
  said: { find: Post, where: "body = :body", order: post_id, page: 9, rate: 300/s }
  many: { from: Post, compute: { n: count() }, where: user = :user, rate: 900/s }
writes:"""
BOTH = "transactions:\n  both: [add, rename]\n"
ROWS = [
    *(("User", {"user_id": name, "name": "old"}) for name in "ab"),
    *(("Post", {"post_id": f"p{number}", "user": "a", "body": f"b{number % 7}"}) for number in range(POSTS)),
]
CALLS: dict[str, Callable[[Any], Any]] = {
    "rename": lambda store: store.rename(user="a", name="new"),
    "drop": lambda store: store.drop(user="a"),
    "both": lambda store: store.both(
        add={"post_id": "x", "user": "a", "body": "b1"}, rename={"user": "a", "name": "new"}
    ),
    "load": lambda store: store.load(("Post", {**fields, "user": "b"}) for name, fields in ROWS if name == "Post"),
    "verify": lambda store: store.verify(repair=True),
    "settle": lambda store: store.settle(),
}


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every call is stopped at every round."""
    return quick_harness


class Meanwhile:
    """Stands before a store's port: before the round of this number, something else is done."""

    def __init__(self, store: Any, number: int, do: Callable[[], None]) -> None:
        self.port = store._port
        self.left = number
        self.do: Callable[[], None] | None = do
        store._port = self
        for name in store.model.patterns:
            getattr(store, name)._quick = None  # it has a port of its own

    def _before(self) -> None:
        self.left -= 1
        if self.left < 0 and self.do is not None:
            do, self.do = self.do, None
            do()

    def send(self, round: Sequence[Any]) -> Any:
        self._before()
        return self.port.send(round)

    def close(self) -> Any:
        return self.port.close()


class MeanwhileAsync(Meanwhile):
    """The same for asyncio."""

    async def send(self, round: Sequence[Any]) -> Any:
        self._before()
        return await self.port.send(round)


@cache
def designs(name: str) -> list[tuple[Model, Design]]:
    from tests.engines.harness import harness_for

    models = [parse_model(text + BOTH) for text in (MODEL, MODEL.replace("\nwrites:", MORE))]
    targets = harness_for(name).targets
    return [(one, keyplan.design(one, name, advise=False)) for one in (replace(m, targets=targets) for m in models)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody is waited for: time passes by the test's own clock."""
    monkeypatch.setattr(lease, "TERM", 20.0)
    monkeypatch.setattr(lease, "GRACE", -20.0)
    now = [stores.elapsed()]
    for module in (stores, opening):
        monkeypatch.setattr(module, "elapsed", lambda: now[0])
    return now


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("call", "back"), [*((call, False) for call in CALLS), ("rename", True)])
def test_a_design_comes_in_between(harness: Harness, call: str, back: bool, clock: list[float]) -> None:
    """And, with `back`, the one before comes back at once: then the store goes on, or was told to stop for a moment."""
    (before, old_design), (after, new_design) = designs(harness.name)
    for number in range(60):
        url = harness.url()
        keyplan.apply(before, url, design=old_design)

        def change(url: str = url) -> None:
            keyplan.apply(after, url, design=new_design)
            if back:
                keyplan.apply(before, url, design=old_design)
            clock[0] += 60

        with keyplan.open(before, url, design=old_design) as old:
            old.load(ROWS)
            meanwhile = Meanwhile(old, number, change)
            done: bool | None = True
            try:
                CALLS[call](old)
            except DesignMismatchError:
                done = False
            except UncertainError:
                done = None
            is_over = meanwhile.do is not None
            if is_over:
                change()
        check(*designs(harness.name)[0 if back else 1], url, call, done, number)
        if is_over:
            return
    pytest.fail("a call of more rounds than are tried")


def check(model: Model, design: Design, url: str, call: str, done: bool | None, number: int) -> None:
    with keyplan.open(model, url, design=design) as store:
        store.settle()
        checked = store.verify()
        assert checked.ok, (number, checked.structures, checked.problems)
        names = {row["user"]["name"] for user in "ab" for row in store.posts.all(user=user)}
        posts = {user: len(list(store.posts.all(user=user))) for user in "ab"}
        if call != "drop":
            assert sum(posts.values()) in ((POSTS, POSTS + 1) if call == "both" else (POSTS,)), number
        assert len(names) <= 1, number
        if done is not None and call in ("rename", "both"):
            assert names == {"new" if done else "old"}, number
        if done is not None and call == "drop":
            assert posts["a"] == (0 if done else POSTS), number
        if done and call == "load":
            assert posts == {"a": 0, "b": POSTS}, number
        if done is not None and call == "both" and "many" in model.patterns:
            assert store.many(user="a") == {"n": POSTS + done}, number


def test_the_same_for_an_async_store(harness: Harness, clock: list[float]) -> None:
    (before, old_design), (after, new_design) = designs(harness.name)

    async def renamed(url: str, number: int) -> tuple[bool | None, bool]:
        def change() -> None:
            keyplan.apply(after, url, design=new_design)
            clock[0] += 60

        async with keyplan.open_async(before, url, design=old_design) as old:
            await old.load(ROWS)
            if hasattr(old._port, "call"):  # whole calls run on a worker of its own
                change()
                with pytest.raises(DesignMismatchError):
                    await old.rename(user="a", name="new")
                return False, True
            meanwhile = MeanwhileAsync(old, number, change)
            try:
                await old.rename(user="a", name="new")
            except DesignMismatchError:
                return False, False
            except UncertainError:
                return None, False
            finally:
                is_over = meanwhile.do is not None
                if is_over:
                    change()
            return True, is_over

    for number in range(60):
        url = harness.url()
        keyplan.apply(before, url, design=old_design)
        done, is_over = asyncio.run(renamed(url, number))
        check(after, new_design, url, "rename", done, number)
        if is_over:
            return
    pytest.fail("a call of more rounds than are tried")
