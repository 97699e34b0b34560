"""Order, ties, missing values, pages, cursors, limits and ranks."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.errors import ArgumentError, CursorError, UnsupportedError
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair

MODEL = """
entities:
  Row:
    key: [a, b]
    fields:
      a: int
      b: string(4)
      x: int, optional 50%
      y: int, optional 50%
      kind: enum(p, q), default p
      of: Box, as rows, optional 50%
      tags: set(string(4), avg 2)
  Box:
    fields:
      id: int, key
      name: string(8), optional 50%
      size: count(rows)
      best: max(rows.x)
patterns:
  up: { find: Row, order: x, page: 3 }
  down: { find: Row, order: x desc, page: 3 }
  mixed: { find: Row, order: "x desc, y", page: 4 }
  mixed_down: { find: Row, order: "x, y desc", page: 2 }
  of_kind: { find: Row, where: "kind = :kind", order: y desc, page: 2 }
  in_kinds: { find: Row, where: "kind in :kinds", order: y, page: 3 }
  ranged: { find: Row, where: "kind = :kind and x between :low and :high", order: x desc, page: 2 }
  filtered: { find: Row, where: "kind = :kind and y >= :y", order: x, page: 2 }
  tagged: { find: Row, where: "contains(tags, :tag)", order: x, page: 2 }
  by_name: { find: Row, order: of.name, page: 3 }
  by_size: { find: Box, order: size desc, page: 2 }
  by_best: { find: Box, order: best, page: 2 }
  by_key: { find: Row, order: a desc, page: 2 }
  boxes: { find: Box, where: "id in :ids", page: 2 }
  boxes_down: { find: Box, where: "id in (3, 1)", order: id desc, page: 1 }
  rows_in: { find: Row, where: "a in :a and b in :b", order: "a, b", page: 2 }
  some: { find: Row, where: "kind = :kind", page: 2 }
  unpaged: { find: Row, where: "kind = :kind" }
  top: { find: Row, order: x desc, limit: 3 }
  top_kind: { find: Row, where: "kind = :kind", order: x, limit: 2, select: [a, x] }
  place: { rank: Row, of: [a, b], order: x desc }
  place_in: { rank: Row, of: [a, b], where: "kind = :kind", order: "x, y desc" }
  place_by_key: { rank: Row, of: [a, b], order: a }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Box", {"id": 1, "name": "one"}),
    ("Box", {"id": 2}),
    ("Box", {"id": 3, "name": "a"}),
    ("Row", {"a": 1, "b": "a", "x": 5, "y": 1, "of": 1, "tags": ["s", "t"]}),
    ("Row", {"a": 1, "b": "b", "x": 5, "y": 1, "of": 3, "tags": ["t"]}),
    ("Row", {"a": 1, "b": "", "x": 5, "of": 2}),
    ("Row", {"a": -2, "b": "a", "x": -1, "y": 2, "kind": "q", "of": 9}),
    ("Row", {"a": 2, "b": "a", "y": 7, "kind": "q", "of": 1, "tags": ["t"]}),
    ("Row", {"a": 3, "b": "a", "y": 3}),
    ("Row", {"a": 3, "b": "z"}),
    ("Row", {"a": 4, "b": "a", "x": 0, "y": 3, "of": 3, "tags": ["t", "u"]}),
    ("Row", {"a": 5, "b": "a", "x": 9, "y": -3, "kind": "q", "tags": ["s"]}),
]


def keys(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["a"], row["b"]) for row in rows]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("up", {}),
        ("down", {}),
        ("mixed", {}),
        ("mixed_down", {}),
        ("of_kind", {"kind": "p"}),
        ("of_kind", {"kind": "q"}),
        ("in_kinds", {"kinds": ["q", "p"]}),
        ("ranged", {"kind": "p", "low": 0, "high": 5}),
        ("filtered", {"kind": "p", "y": 1}),
        ("tagged", {"tag": "t"}),
        ("by_name", {}),
        ("by_size", {}),
        ("by_best", {}),
        ("by_key", {}),
        ("boxes", {"ids": [3, 1, 8]}),
        ("boxes_down", {}),
        ("rows_in", {"a": [3, 1], "b": ["a", "z", "b"]}),
        ("top", {}),
        ("top_kind", {"kind": "p"}),
    ],
)
def test_ordered_walks(reads: Pair, name: str, arguments: dict[str, Any]) -> None:
    """Pages of the same length with the same rows in the same order, their ends included."""
    assert reads.same(name, **arguments)


def test_ties_go_by_the_key_in_the_direction_of_the_last_term(reads: Pair) -> None:
    tied = [(1, "a"), (1, "b"), (1, "")]
    assert [key for key in keys(reads.same("up")) if key in tied] == [(1, ""), (1, "a"), (1, "b")]
    assert [key for key in keys(reads.same("down")) if key in tied] == [(1, "b"), (1, "a"), (1, "")]


def test_missing_sorts_last_in_both_directions(reads: Pair) -> None:
    for name in ("up", "down"):
        assert [row["x"] for row in reads.same(name)][-3:] == [None, None, None]


def test_without_an_order_pages_walk_a_set(reads: Pair) -> None:
    assert len(reads.same("some", kind="p")) == 6


def test_a_page_has_a_hundred_rows_if_nothing_is_said(both: Both) -> None:
    pair = both(MODEL, [("Row", {"a": number, "b": "x", "x": number % 7}) for number in range(230)])
    first = pair.store.unpaged(kind="p")
    assert (len(first.rows), first.cursor is None) == (100, False)
    assert len(pair.same("unpaged", kind="p")) == 230
    assert len(pair.same("up")) == 230
    assert len(list(pair.store.up.all())) == 230


def test_a_cursor_is_none_exactly_when_the_page_is_short(reads: Pair) -> None:
    first = reads.store.filtered(kind="p", y=1)
    second = reads.store.filtered(kind="p", y=1, cursor=first.cursor)
    third = reads.store.filtered(kind="p", y=1, cursor=second.cursor)
    assert [len(page.rows) for page in (first, second, third)] == [2, 2, 0]
    assert [page.cursor is None for page in (first, second, third)] == [False, False, True]


TIES = """
entities:
  Task:
    key: [owner, id]
    fields:
      owner: string(4)
      id: int
      prio: int
      cost: int
      state: enum(open, done)
      note: string(8), optional 20%
patterns:
  cheap: { find: Task, where: "owner = :owner and cost <= :most", order: prio desc, page: 4 }
  dear: { find: Task, where: "owner = :owner and cost > :most", order: "prio, cost", page: 3 }
  of_state: { find: Task, where: "prio >= :prio and state = :state", order: prio, page: 4 }
  first: { find: Task, where: "owner = :owner and state != 'done'", order: prio, limit: 3 }
  plain: { find: Task, where: "missing(note)", page: 4 }
writes:
  remark: { update: Task, set: [note], where: "owner = :owner and id = :id" }
  spend: { update: Task, add: [cost], where: "owner = :owner and id = :id" }
  finish: { update: Task, set: [state], where: "owner = :owner and id = :id" }
"""


def test_pages_are_topped_up_among_rows_that_share_what_they_are_ordered_by(both: Both) -> None:
    """A filter leaves few of many rows of one value: each time more of them are read, from where it went on last."""
    tasks = (
        {"owner": "ann", "id": id, "prio": id // 50, "cost": id % 10, "state": "done" if id % 8 else "open"}
        | ({"note": "x"} if id % 9 else {})
        for id in range(100)
    )
    pair = both(TIES, [("Task", task) for task in tasks])
    assert len(pair.same("cheap", owner="ann", most=0)) == 10
    assert len(pair.same("dear", owner="ann", most=8)) == 10
    assert len(pair.same("of_state", prio=1, state="open")) == 6
    assert len(pair.same("first", owner="ann")) == 3
    assert len(pair.same("plain")) == 12


def test_limit_cuts_and_has_no_cursor(reads: Pair) -> None:
    assert [row["x"] for row in reads.same("top")] == [9, 5, 5]
    reads.refused("top", cursor="x")


def test_a_cursor_is_opaque_text(reads: Pair) -> None:
    assert isinstance(reads.store.up().cursor, str)


def test_a_cursor_works_in_another_process(reads: Pair) -> None:
    """It holds no state of the store that handed it out."""
    import keyplan

    cursor = reads.store.up().cursor
    with keyplan.open(reads.model, reads.url, design=reads.store.design) as other:
        assert other.up(cursor=cursor).rows == reads.store.up(cursor=cursor).rows


def test_a_cursor_of_another_pattern_is_refused(reads: Pair) -> None:
    with pytest.raises(CursorError, match="down: this cursor is not one of its own"):
        reads.store.down(cursor=reads.store.up().cursor)


def test_a_cursor_with_other_arguments_is_refused(reads: Pair) -> None:
    cursor = reads.store.of_kind(kind="p").cursor
    assert reads.store.of_kind(kind="p", cursor=cursor).rows
    with pytest.raises(CursorError, match="the arguments differ"):
        reads.store.of_kind(kind="q", cursor=cursor)


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + "A", lambda c: "A" + c[1:], lambda c: c[::-1]])
def test_a_cursor_that_was_tampered_with_is_refused(reads: Pair, change: Any) -> None:
    cursor = reads.store.up().cursor
    if change(cursor) != cursor:
        with pytest.raises(CursorError):
            reads.store.up(cursor=change(cursor))


@pytest.mark.parametrize("cursor", ["", "x", "é", "AAAA", "A" * 5000, 5, b"AAAA", ("a",)])
def test_what_is_no_cursor_is_refused(reads: Pair, cursor: Any) -> None:
    with pytest.raises(CursorError):
        reads.store.up(cursor=cursor)


def test_rows_that_do_not_change_appear_once_while_others_do(both: Both) -> None:
    pair = both(MODEL, [("Row", {"a": number, "b": "x", "x": number}) for number in range(12)])
    seen: list[int] = []
    cursor = None
    step = 0
    while True:
        page = pair.store.up(cursor=cursor)
        seen += [row["a"] for row in page.rows]
        if page.cursor is None:
            break
        cursor = page.cursor
        step += 1
        # one before, one after, and one that jumps back over the walk
        pair.load([("Row", {"a": 100 + step, "b": "n", "x": -step}), ("Row", {"a": 200 + step, "b": "n", "x": 50})])
        pair.load([("Row", {"a": 11, "b": "x", "x": -100 - step})])
    assert [number for number in seen if number < 11] == list(range(11))


def test_all_goes_through_every_page(reads: Pair) -> None:
    assert list(reads.store.up.all()) == reads.same("up")
    assert list(reads.store.filtered.all(kind="p", y=1)) == reads.same("filtered", kind="p", y=1)


def test_all_goes_on_from_a_cursor(reads: Pair) -> None:
    first = reads.store.up()
    assert [*first.rows, *reads.store.up.all(cursor=first.cursor)] == reads.same("up")


def test_all_keeps_a_limit_and_takes_no_cursor_then(reads: Pair) -> None:
    cursor = reads.store.up().cursor
    for name, arguments in (("top", {}), ("top_kind", {"kind": "p"})):
        everything = getattr(reads.store, name).all
        assert list(everything(**arguments)) == reads.same(name, **arguments)
        with pytest.raises(ArgumentError, match="its answer does not come in pages"):
            list(everything(**arguments, cursor=cursor))


def test_all_of_an_answer_that_is_no_list_is_refused(reads: Pair) -> None:
    # A rank among ten million rows, five hundred times a second, is more than some engines can count.
    unserved = "place" in reads.store.design.unserved
    with pytest.raises(
        UnsupportedError if unserved else ArgumentError,
        match="does not serve it" if unserved else "place: its answer is not a list of rows",
    ):
        list(reads.store.place.all(a=1, b="a"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("place", {"a": 5, "b": "a"}),
        ("place", {"a": 1, "b": ""}),
        ("place", {"a": 3, "b": "z"}),
        ("place", {"a": 77, "b": "z"}),
        ("place_in", {"a": 1, "b": "b", "kind": "p"}),
        ("place_in", {"a": 1, "b": "b", "kind": "q"}),
        ("place_in", {"a": 3, "b": "a", "kind": "p"}),
        ("place_by_key", {"a": 4, "b": "a"}),
    ],
)
def test_rank_is_one_more_than_the_rows_before(reads: Pair, name: str, arguments: dict[str, Any]) -> None:
    reads.same(name, **arguments)
