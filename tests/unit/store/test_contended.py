"""A write that copies from a row which others change at every moment is done in the end, and not told as refused."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.engines.rounds import Pause
from keyplan.model.load import parse_model
from tests.faults.test_intents import MODEL
from tests.naive import EVERYTHING
from tests.strategies.programs import Clock
from tests.unit.store.memory import Written
from tests.unit.store.support import memory_store


@pytest.mark.parametrize("times", [1, 3, 9])
def test_a_row_may_be_changed_between_any_two_requests(times: int) -> None:
    """The third refusal in a row was told as the write's own, though each was of another name."""
    store: Any = memory_store(parse_model(MODEL), EVERYTHING["copies"], Clock())
    store.add_user(user_id="a", name="n")
    adding = store._core.write(store.model.writes["add"], {"post_id": "p", "user": "a", "body": "x"})
    replies: Any = None
    renamed = 0
    while True:
        try:
            step = adding.send(replies)
        except StopIteration:
            break
        if isinstance(step, Pause):
            replies = []
            continue
        if renamed < times and any(isinstance(one, Written) for one in step):
            renamed += 1
            store.rename(user="a", name=f"n{renamed}")
        replies = store._port.send(step)
    assert renamed == times
    assert store.post(post="p")["user"]["name"] == f"n{times}"
    assert store.verify().ok
