"""Rows that begin to copy a value while it is being changed, by a process that ends in the middle of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import keyplan
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.store.store import Store
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.faults.test_intents import MODEL, Killed, names


class Late:
    """A port that lets somebody act right before the first write, and ends the process so many rounds behind it."""

    def __init__(self, store: Store, act: Callable[[], Any], rounds: int) -> None:
        self.port = store._port
        self.act = act
        self.left = rounds
        self.wrote = False
        codec: Any = store._core.codec
        self.made: list[Any] = []
        write = codec.write

        def note(edits: Any) -> Any:
            self.made.append(write(edits))
            return self.made[-1]

        codec.write = note
        store._port = self

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        if self.wrote:
            if self.left == 0:
                raise Killed
            self.left -= 1
        elif any(request is made for request in round for made in self.made):
            self.act()
            self.wrote = True
        found: Sequence[Any] = self.port.send(round)
        return found

    def close(self) -> None:
        self.port.close()


@pytest.fixture
def model() -> Model:
    return replace(parse_model(MODEL), targets={"dynamodb": {"billing": "on_demand"}})


@pytest.fixture
def url(dynoxide: Server) -> str:
    return url_of(dynoxide.url)


@pytest.fixture
def few(model: Model, url: str) -> Iterator[Store]:
    """A user with so few posts that one request changes all of them."""
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        store.add_user(user_id="u", name="old")
        store.load([("Post", {"post_id": f"p{n}", "user": "u", "body": "x"}) for n in range(3)])
        yield store


@pytest.mark.parametrize("rounds", [0, 1, 2])
@pytest.mark.parametrize("finishing", ["settle", "verify", "writer"])
def test_a_row_that_began_to_copy_meanwhile(few: Store, model: Model, url: str, rounds: int, finishing: str) -> None:
    """A post is added between the lookup of a rename and its write, and the renaming process ends behind the write.

    The post has the old name then; whoever comes next puts that right.
    """
    with keyplan.open(model, url) as renaming:
        Late(renaming, lambda: few.add(post_id="late", user="u", body="x"), rounds)
        with pytest.raises(Killed):
            renaming.rename(user="u", name="new")
    expected = "new"
    if finishing == "settle":
        few.settle()
    elif finishing == "verify":
        assert few.verify().ok
    else:
        few.rename(user="u", name="newer")
        expected = "newer"
    assert few.post(post="late")["user"]["name"] == expected
    assert names(few) == [expected] * 4
    assert few.verify().ok
