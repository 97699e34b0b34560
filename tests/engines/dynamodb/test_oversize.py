"""Rows that are too large for an item: refused at design time, or by the row and its largest values when written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import keyplan
from keyplan.errors import DesignError, OversizeError
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.unit.design.nouns import model_of

DOC = """
Doc:
  count: 1k
  fields:
    did: int, key
    title: string(20)
    body: text(%d), max 300000
    notes: text(%d), max 300000
    tags: set(string(8), avg 2, max 5)
"""
READS = """
doc: { find: Doc, where: "did = :did", rate: 10/s }
tagged: { find: Doc, where: "contains(tags, :tag)", select: [did], rate: 10/s, limit: 5 }
"""
WRITES = """
make: { create: Doc, rate: 1/s }
put: { upsert: Doc, rate: 1/s }
edit: { update: Doc, set: [notes], where: "did = :did", rate: 1/s }
name: { update: Doc, set: [title], where: "did = :did", rate: 1/s }
edit_all: { update: Doc, set: [notes], where: "did >= :did", rows: 3, rate: 1/day }
"""
MODEL = model_of(DOC % (2000, 2000), READS, WRITES, "both: [name, edit]\n")
BIG = "x" * 250_000
WHOLE = r"Doc '1': its item would have 488 KB \('notes' 244 KB, 'body' 244 KB\), and dynamodb takes 400 KB; "


@pytest.fixture(scope="module", params=["local", "dynoxide"])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    server: Server = request.getfixturevalue(request.param)
    url = url_of(server.url)
    keyplan.apply(MODEL, url)
    with keyplan.open(MODEL, url) as found:
        found.make(did=7, title="t", body=BIG, notes="", tags={"a"})
        yield found


def row(did: int, *tags: str) -> dict[str, Any]:
    return {"did": did, "title": "t", "body": BIG, "notes": BIG, "tags": set(tags)}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda store: store.make(**row(1)), f"^make: {WHOLE}"),
        (lambda store: store.make(**row(1, "b", "c")), f"^make: {WHOLE}"),
        (lambda store: store.put(**row(1, "b")), r"^put: Doc '1': .*'notes' 244 KB"),
        (lambda store: store.load([("Doc", {**row(0), "notes": ""}), ("Doc", row(1, "b"))]), f"^load: row 2: {WHOLE}"),
        (lambda store: store.edit(did=7, notes=BIG), "^edit: Doc '7': with 'notes' 244 KB its item would have more"),
        (
            lambda store: store.both(name={"did": 5, "title": "t"}, edit={"did": 7, "notes": BIG}),
            "^both: edit: Doc '7': with 'notes' 244 KB its item would have more than the 400 KB that dynamodb takes",
        ),
    ],
)
def test_the_row_and_its_largest_values_are_named(store: Any, call: Callable[[Any], Any], told: str) -> None:
    store.put(did=5, title="t", body="", notes="", tags=set())
    with pytest.raises(OversizeError, match=told) as caught:
        call(store)
    assert "move large values into an entity of their own" in str(caught.value)
    assert store.doc(did=1) is None
    assert store.doc(did=7)["notes"] == ""
    assert store.verify().ok


def test_rows_that_are_too_large_on_average_have_no_design() -> None:
    with pytest.raises(
        DesignError, match="home of 'Doc': an item would take 586 KB on average, and dynamodb stores 400"
    ):
        keyplan.design(model_of(DOC % (300_000, 300_000), READS, WRITES), "dynamodb")


def test_rows_that_may_become_too_large_are_named_with_the_design() -> None:
    (found,) = [one.fix for one in keyplan.design(MODEL, "dynamodb").findings if "may take up to" in one.message]
    assert "give 'body' a smaller max" in found or "give 'notes' a smaller max" in found


def test_of_many_rows_the_one_is_refused(store: Any) -> None:
    for did in (4, 5):
        store.put(did=did, title="t", body="", notes="", tags=set())
    with pytest.raises(OversizeError, match=r"^edit_all: Doc '7': with 'notes' 244 KB its item would ") as caught:
        store.edit_all(did=4, notes=BIG)
    assert str(caught.value).endswith("; 1 row was refused, 2 written")
    assert "nothing was written" not in str(caught.value)
    assert [len(store.doc(did=did)["notes"]) for did in (4, 5, 7)] == [len(BIG), len(BIG), 0]
