"""Subsets in the memory double: the first children of a parent are with it, whatever comes and goes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from keyplan.errors import ArgumentError, ConflictError
from keyplan.plan.edits import Edit
from keyplan.reference import Database
from keyplan.store.core import Core
from keyplan.store.store import Store
from tests import discussion
from tests.conformance.pair import Clock, Pair, ids, parsed
from tests.naive import Extras, naive_design
from tests.unit.store.memory import MemoryEngine, MemoryPort, Written

EXTRAS = {
    "plain": Extras(subsets=3),
    "copies": Extras(copies=True, computed=True, subsets=3),
    "more": Extras(subsets=4),
}
SUBSET = ("Post", ("comments",))


def pair(extras: str) -> tuple[Pair, MemoryPort]:
    model = parsed(discussion.MODEL)
    design = naive_design(model, EXTRAS[extras])
    assert [one.limit for one in design.views["Post"].embeds] == [4 if extras == "more" else 3]
    port = MemoryPort(model, design)
    clock = Clock()
    found = Pair(another(port, clock), Database(model, clock, ids()), clock)
    found.load(discussion.rows())
    return found, port


def another(port: MemoryPort, clock: Clock) -> Store:
    """A store over the same entries."""
    return Store(Core(port.model, port.design, MemoryEngine(), clock, ids()), port)  # type: ignore[arg-type]


@pytest.mark.parametrize("extras", list(EXTRAS))
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 6))])
def test_posts_keep_their_best_comments(extras: str, seed: int) -> None:
    found, port = pair(extras)
    kept = set()
    for number, (name, arguments) in enumerate(discussion.writes(seed, 60)):
        with contextlib.suppress(ArgumentError, ConflictError):
            found.same(name, **arguments)
        found.agrees(discussion.reads())
        kept |= {len([key for key in port.entries[SUBSET] if key[0] == post]) for post in range(discussion.POSTS)}
        if number % 10 == 9:
            found.verified()
    assert max(kept) == (4 if extras == "more" else 3)


LEAVING: list[tuple[str, dict[str, Any]]] = [
    ("erase", {"comment_id": 8}),
    ("rank", {"comment_id": 8, "score": -1, "place": 0}),
    ("move", {"comment_id": 8, "post": 0}),
    ("tidy", {"erase": [{"comment_id": 8}, {"comment_id": 5}]}),
    ("silence", {"author_id": 2}),
]
"""Calls that take comments away from the best three of post 2: 2, 8 and 5."""
MEANWHILE: list[tuple[str, dict[str, Any]]] = [
    ("erase", {"comment_id": 4}),
    ("edit", {"comment_id": 4, "body": "late"}),
    ("rank", {"comment_id": 4, "score": 0, "place": 9}),
    ("rank", {"comment_id": 3, "score": 3, "place": 0}),
    ("move", {"comment_id": 4, "post": 1}),
    ("say", discussion.comment(11, 2, 1, place=0, author=0)),
    ("say", discussion.comment(11, 2, 9, author=0)),
    ("rename", {"author_id": 1, "name": "other"}),
    ("sign", {"comment_id": 4, "author": 0}),
    ("erase", {"comment_id": 7}),
    ("purge", {"post_id": 2}),
]
"""What others do to the one that would come, 4, or to its siblings."""


@pytest.mark.parametrize(("name", "arguments"), LEAVING)
@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda call: f"{call[0]}-{call[1].get('comment_id')}")
def test_others_write_between_the_read_and_the_write(
    name: str, arguments: dict[str, Any], meanwhile: tuple[str, dict[str, Any]]
) -> None:
    found, port = pair("copies")
    other = another(port, found.clock)
    came: list[Any] = []

    def interfere(request: Any) -> None:
        if isinstance(request, Written) and not came:
            came.append(request)
            getattr(other, meanwhile[0])(**meanwhile[1])
            found.database.call(meanwhile[0], **meanwhile[1])

    port.faults.append(interfere)
    getattr(found.store, name)(**arguments)
    port.faults.clear()
    assert came
    found.database.call(name, **arguments)
    found.agrees(discussion.reads())
    found.verified()


def test_siblings_that_come_and_go_are_no_reason_to_refuse_a_write() -> None:
    """Each time it is worked out anew the post counts as many comments as before, and another one in between."""
    found, port = pair("copies")
    other = another(port, found.clock)
    turns: list[str] = []

    def interfere(request: Any) -> None:
        if len(turns) < 8 and isinstance(request, Written) == (len(turns) % 2 == 0):
            turns.append("say" if len(turns) % 2 == 0 else "erase")
            port.faults.clear()
            if turns[-1] == "say":
                other.say(**discussion.comment(11, 2, 0))
            else:
                other.erase(comment_id=11)
            port.faults.append(interfere)

    port.faults.append(interfere)
    found.same("say", **discussion.comment(10, 2, 7))
    assert len(turns) == 8
    found.agrees(discussion.reads())
    found.verified()


@pytest.mark.parametrize("what", ["missing", "extra", "wrong"])
def test_verify_finds_and_mends(what: str) -> None:
    found, port = pair("copies")
    kept = port.entries[SUBSET]
    first = next(key for key in kept if key[0] == 2)
    if what == "missing":
        del kept[first]
    elif what == "wrong":
        kept[first] = {**kept[first], "author.name": "nobody"}
    else:
        kept[(2, 7, first[2], 99)] = {**kept.pop(first), "comment_id": 99, "score": 7}
    report = found.store.verify()
    counts = {one: getattr(report.views["Post"], one) for one in ("missing", "extra", "wrong")}
    assert counts == {"missing": int(what != "wrong"), "extra": int(what == "extra"), "wrong": int(what == "wrong")}
    found.store.verify(repair=True)
    found.agrees(discussion.reads())
    found.verified()


def test_a_long_list_of_rows_that_go_names_only_those_that_are_kept() -> None:
    found, port = pair("plain")
    found.load([("Comment", discussion.comment(number, 2, 0)) for number in range(20, 60)])
    sent: list[Edit] = []

    def note(request: Any) -> None:
        if isinstance(request, Written):
            sent.extend(request.edits)

    port.faults.append(note)
    found.same("purge", post_id=2)
    deletes = [edit for edit in sent if (edit.view, edit.at) == SUBSET and edit.do == "delete"]
    assert 3 <= len(deletes) <= 4
    found.agrees(discussion.reads())
    found.verified()
