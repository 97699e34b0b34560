"""What items have besides their values, changed by other hands: `verify` names it and puts it right.

Indexes are DynamoDB's own, but their keys, and the second after which an item may be deleted, are written by us.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import keyplan
from keyplan.engines.dynamodb.operations import Request
from keyplan.store.store import Store
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.unit.design.nouns import model_of

MODEL = model_of(
    """
Note:
  count: 1M
  ttl: 90d
  fields:
    nid: int, key
    owner: int, distinct 10k
    made: timestamp
    state: "enum(open 5%, done 95%)"
""",
    """
of_owner: { find: Note, where: "owner = :owner", order: made desc, page: 5, rate: 50/s }
open_notes: { find: Note, where: "state = 'open'", order: made, page: 5, rate: 50/s }
""",
    "jot: { create: Note, rate: 1/s }",
)
MADE = "2030-01-01T00:00:00Z"


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    url = url_of(server.url)
    keyplan.apply(MODEL, url)
    with keyplan.open(MODEL, url) as found:
        found.jot(nid=1, owner=2, made=MADE, state="open")
        found.jot(nid=2, owner=2, made=MADE, state="done")
        yield found


def answers(store: Store) -> list[list[int]]:
    return [[row["nid"] for row in page] for page in (store.of_owner(owner=2), store.open_notes())]


def change(store: Store, nid: int, **changes: dict[str, Any] | None) -> None:
    """Gives the item of a note other attributes, or takes some away; `open_` is short for the index of open notes."""
    sparse = next(one for one in store.design.structures if any(store.design.views[name].where for name in one.views))
    (page,) = store._port.send([Request("Scan", {})])
    (item,) = (one for one in page["Items"] if one.get("nid") == {"N": str(nid)})
    for name, value in changes.items():
        name = name.replace("open_", sparse.name)
        item = {key: old for key, old in item.items() if key != name} | ({} if value is None else {name: value})
    (reply,) = store._port.send([Request("PutItem", {"Item": item})])
    if isinstance(reply, Exception):
        raise reply


ELSEWHERE = {"S": "NOTE#x"}


@pytest.mark.parametrize(
    ("nid", "changes", "what"),
    [
        (1, {"open_PK": None, "open_SK": None}, "missing"),
        (1, {"open_SK": None}, "wrong"),
        (1, {"open_SK": ELSEWHERE}, "wrong"),
        (2, {"open_PK": ELSEWHERE, "open_SK": ELSEWHERE}, "extra"),
        (1, {"ttl": {"N": "4000000000"}}, "wrong"),
        (1, {"ttl": None}, "wrong"),
    ],
)
def test_keys_and_ends_that_do_not_follow_from_the_values(
    store: Store, nid: int, changes: dict[str, Any], what: str
) -> None:
    assert store.verify().ok
    change(store, nid, **changes)
    found = store.verify()
    assert not found.ok
    wrong = {each: sum(getattr(view, each) for view in found.views.values()) for each in ("missing", "wrong", "extra")}
    assert wrong == {"missing": 0, "wrong": 0, "extra": 0} | {what: 1}
    assert store.verify(repair=True).repaired == 1
    assert store.verify().ok
    store.settle()
    assert answers(store) == [[2, 1], [1]]


def test_items_that_do_not_expire(store: Store) -> None:
    (reply,) = store._port.send(
        [Request("UpdateTimeToLive", {"TimeToLiveSpecification": {"Enabled": False, "AttributeName": "ttl"}})]
    )
    if isinstance(reply, Exception):
        raise reply
    found = store.verify()
    assert (found.ok, found.structures) == (False, ["items do not expire by 'ttl'"])
    assert store.verify(repair=True).repaired == 1
    assert store.verify().ok


def test_keys_are_said_as_people_write_them(store: Store) -> None:
    change(store, 1, open_PK=None, open_SK=None)
    (said,) = store.verify().problems
    assert "missing entry (" in said
    assert "2030-01-01T00:00:00+00:00, 1)" in said


def test_what_is_tested_has_indexes() -> None:
    """The model has two indexes; without one, the tests above would prove little."""
    design = keyplan.design(MODEL, "dynamodb")
    assert [one.name for one in design.structures if one.kind == "gsi"] == ["GSI1", "GSI2"]


STRONG = model_of(
    "Note: { count: 1M, fields: { nid: 'int, key', owner: 'int, distinct 10k', made: timestamp } }",
    """
note: { find: Note, where: "nid = :nid", rate: 50/s, consistency: strong }
of_owner: { find: Note, where: "owner = :owner", order: made desc, page: 5, rate: 50/s, consistency: strong }
""",
    "jot: { create: Note, rate: 0.1/s }",
)


def test_an_item_under_a_key_that_is_not_its_own_is_found_and_taken_away(dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    keyplan.apply(STRONG, url)
    with keyplan.open(STRONG, url) as store:
        store.jot(nid=1, owner=2, made=MADE)
        (page,) = store._port.send([Request("Scan", {})])
        homes = {view.name for view in store.design.views.values() if view.name == store.design.homes["Note"][0]}
        (view,) = (view for name, view in store.design.views.items() if name not in homes)
        first = view.parts[0].path
        tag = "NOTE.OWNER#" if first == "owner" else "NOTE#"
        (item,) = (one for one in page["Items"] if one["PK"]["S"].startswith(tag))
        other = {"nid": "NOTE#", "owner": "NOTE.OWNER#"}[first] + item["PK"]["S"].removeprefix(tag)[:-1] + "9"
        store._port.send([Request("PutItem", {"Item": {**item, "PK": {"S": other}}})])
        found = store.verify()
        assert (found.ok, found.views[view.name].extra) == (False, 1)
        store.verify(repair=True)
        assert store.verify().ok
        assert [row["nid"] for row in store.of_owner(owner=2)] == [1]


def test_a_row_without_its_key_is_told(dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    keyplan.apply(STRONG, url)
    with keyplan.open(STRONG, url) as store:
        store._port.send([Request("PutItem", {"Item": {"PK": {"S": "NOTE#x"}, "SK": {"S": "NOTE"}}})])
        store._port.send([Request("PutItem", {"Item": {"PK": {"S": "NOTE.OWNER#x"}, "SK": {"S": "NOTE#1#2"}}})])
        found = store.verify()
        assert not found.ok
        assert any("a row of 'Note' has no 'nid', which is part of its key" in one for one in found.problems)
