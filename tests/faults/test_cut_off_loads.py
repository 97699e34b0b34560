"""Loads of rows whose keys are generated, cut off at every single request: what goes on from the last number that was
told comes to the same end, with every row once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

import keyplan
from keyplan.store.bulk import load
from keyplan.store.store import Store
from tests.engines.harness import Harness

MODEL = keyplan.parse_model("""
keyplan: 1
name: logs
entities:
  Event: { count: 10k, fields: { event_id: "ulid, key", kind: "string(8), distinct 5", n: int } }
  User: { count: 10k, fields: { user_id: "uuid, key", email: "string(20), unique" } }
  Talk: { count: 100, fields: { talk_id: "int, key", title: string(8), said: count(messages) } }
  Message:
    count: 10k
    fields:
      talk: Talk, as messages
      message_id: ulid
      title: string(8), from talk.title
      tags: set(string(4), avg 2)
    key: [talk, message_id]
patterns:
  events: { count: Event, rate: 100/s }
  of_kind: { find: Event, where: "kind = :kind", order: n, select: [n], page: 100, rate: 100/s }
  user: { find: User, where: "user_id = :user_id" }
  by_email: { find: User, where: "email = :email", rate: 100/s }
  talk: { find: Talk, where: "talk_id = :talk_id", rate: 100/s }
  messages: { find: Message, where: "talk = :talk_id", order: message_id, page: 100, rate: 100/s }
writes:
  log: { create: Event, rate: 1/s }
  join: { create: User, rate: 1/s }
  begin: { create: Talk, rate: 1/s }
  say: { create: Message, rate: 1/s }
""")

BATCH = 8
EVENTS, USERS, MESSAGES = 10, 5, 5
TALKS = 2


def rows(load: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of all ways to be loaded, in turn; every one but those of the talks without a key."""
    for number in range(EVENTS):
        # The same event comes over and over: their number is all that tells one from the other.
        yield "Event", {"kind": "a" if number % 2 else "b", "n": load}
        if number % 2:
            yield "User", {"email": f"{load}.{number}"}
            yield "Message", {"talk": number % TALKS, "tags": {"a", "b", "c"}}


class Interrupted:
    """A port on which Ctrl-C comes with a certain round: before it is sent, or when it is done."""

    def __init__(self, store: Store, at: int, sent: bool) -> None:
        self.port = store._port
        self.left = at
        self.sent = sent

    def send(self, round: Sequence[Any]) -> list[Any]:
        self.left -= 1
        if self.left == 0 and not self.sent:
            raise KeyboardInterrupt
        replies = self.port.send(round)
        if self.left == 0:
            raise KeyboardInterrupt
        return list(replies)


@contextmanager
def opened(harness: Harness) -> Iterator[Store]:
    """A database with the talks, and nothing else."""
    url = harness.soonest.url()
    keyplan.apply(MODEL, url)
    with keyplan.open(MODEL, url) as store:
        store.load([("Talk", {"talk_id": talk, "title": f"t{talk}"}) for talk in range(TALKS)])
        yield store


def cut_off(store: Store, load: int, at: int, sent: bool) -> tuple[bool, int]:
    """Begins a load that is cut off at a round; whether it was, and what it has told."""
    told = 0

    def remember(count: int) -> None:
        nonlocal told
        told = count

    port = store._port
    store._port = Interrupted(store, at, sent)  # type: ignore[assignment]
    try:
        store.load(rows(load), progress=remember)
    except KeyboardInterrupt:
        return True, told
    finally:
        store._port = port
    return False, told


def assert_once(store: Store, loads: int) -> None:
    """Every row of so many loads is there, and no other."""
    store.settle()
    assert store.events() == loads * EVENTS
    for talk in range(TALKS):
        said = len(list(store.messages.all(talk_id=talk)))
        assert said == store.talk(talk_id=talk)["said"]
        assert said == (loads * MESSAGES if talk else 0)
    for number in range(1, EVENTS, 2):
        assert store.by_email(email=f"{loads - 1}.{number}") is not None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sent", [False, True])
def test_a_load_cut_off_at_any_request_goes_on(harness: Harness, monkeypatch: pytest.MonkeyPatch, sent: bool) -> None:
    monkeypatch.setattr(load, "BULK", BATCH)
    monkeypatch.setattr(load, "TOGETHER", 3)
    with opened(harness) as store:
        for number in count():
            stopped, told = cut_off(store, number, number + 1, sent)
            if stopped:
                store.load(rows(number), done=told)
            assert_once(store, number + 1)
            if not stopped:
                break
        assert number > 3
        found = store.verify()
        assert found.ok, found.problems
        assert found.rows == TALKS + (number + 1) * (EVENTS + USERS + MESSAGES)


@pytest.mark.timeout(300)
def test_a_load_cut_off_after_any_batch_goes_on(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it begins again; and the load after it, of which no number was ever told, is one of its own."""
    monkeypatch.setattr(load, "BULK", BATCH)
    monkeypatch.setattr(load, "TOGETHER", 3)
    with opened(harness) as store:
        loads = 0
        for most in range(BATCH, EVENTS + USERS + MESSAGES + BATCH, BATCH):
            for again in (False, True):
                told = 0

                def stop(count: int, most: int = most) -> None:
                    nonlocal told
                    told = count
                    if count >= min(most, EVENTS + USERS + MESSAGES):
                        raise KeyboardInterrupt

                with pytest.raises(KeyboardInterrupt):
                    store.load(rows(loads), progress=stop)
                store.load(rows(loads), progress=lambda count: None, done=0 if again else told)
                loads += 1
                assert_once(store, loads)
        event = [("Event", {"kind": "a", "n": 1})]
        store.load(event)
        store.load(event)
        assert store.events() == loads * EVENTS + 2
        assert store.verify().ok
