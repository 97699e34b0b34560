"""Aggregates over the rows that refer to one row, told by that row where it keeps them as computed fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.plan.steps import Owned
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, at, opened, parsed
from tests.conformance.test_computed_values import MODEL as ALBUMS
from tests.conformance.test_computed_values import ROWS as ALBUM_ROWS
from tests.conformance.test_computed_values import WRITES as ALBUM_WRITES
from tests.engines.harness import Harness

OWNED = ("photos_of", "bytes_of", "last_of", "first_of", "some_of", "all_of", "just_now")
MODEL = ALBUMS.replace(
    "patterns:",
    """patterns:
  photos_of: { count: Photo, where: "album = :aid" }
  bytes_of: { sum: Photo.bytes, where: "album = :aid" }
  last_of: { max: Photo.taken, where: "album = :aid" }
  first_of: { min: Photo.taken, where: "album = :aid", consistency: strong }
  some_of: { from: Photo, compute: { many: count(), large: sum(bytes) }, where: "album = :aid" }
  all_of:
    from: Photo
    compute: { a: count(), b: sum(bytes), c: max(taken), d: min(taken), e: count() }
    where: album = :aid
  just_now: { count: Photo, where: "album = 2", consistency: strong }
  mean_of: { avg: Photo.bytes, where: "album = :aid" }
  early_of: { count: Photo, where: "album = :aid and taken < :before" }
  by_album: { count: Photo, group: [album], where: "album = :aid" }
  of_two: { count: Photo, where: "album in :albums" }
  largest: { max: Photo.bytes, where: "album = :aid" }""",
)
PLAIN = ("mean_of", "early_of", "by_album", "of_two", "largest")


def reads(aids: tuple[int, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    for aid in aids:
        yield from ((name, {"aid": aid}) for name in OWNED if name != "just_now")
        yield from ((name, {"aid": aid}) for name in ("mean_of", "by_album", "largest"))
        yield "early_of", {"aid": aid, "before": at("2052-05-04")}
        yield "of_two", {"albums": [aid, 1]}
    yield "just_now", {}


def owned(pair: Pair) -> set[str]:
    return {name for name, plan in pair.store.design.plans.items() if isinstance(plan.node, Owned)}


def crowded(text: str, rates: Mapping[str, float]) -> Model:
    """The model with so many rows of each entity, the patterns asked often and the writes made now and then."""
    model = parsed(text)
    entities = {name: replace(one, count=rates[name]) for name, one in model.entities.items()}
    patterns = {name: replace(one, traffic=Traffic(500.0)) for name, one in model.patterns.items()}
    writes = {name: replace(one, traffic=Traffic(1.0)) for name, one in model.writes.items()}
    return replace(model, entities=entities, patterns=patterns, writes=writes)


def test_they_follow_the_rows_whatever_keeps_them(both: Both) -> None:
    """Albums 9 and 77 are created after some of their photos; album 0 goes before its own."""
    both(MODEL, ALBUM_ROWS).stays_right(ALBUM_WRITES, list(reads((0, 1, 5, 9, 77, 78))))


def test_they_follow_the_rows_where_the_row_tells_them(harness: Harness) -> None:
    text = MODEL[: MODEL.index("  mean_of")] + MODEL[MODEL.index("\n  album:") + 1 :]
    model = crowded(text, {"Album": 1e6, "Photo": 200e6})
    with opened(model, harness.url(), ALBUM_ROWS) as pair:
        assert owned(pair) == set(OWNED)
        assert all(pair.store.design.plans[name].figures.requests == 1 for name in OWNED)
        some = [one for one in reads((0, 1, 5, 9, 77, 78)) if one[0] in OWNED]
        pair.stays_right(ALBUM_WRITES, some)


def test_only_what_it_keeps_is_told_by_the_row(harness: Harness) -> None:
    model = crowded(MODEL, {"Album": 1e6, "Photo": 200e6})
    with opened(model, harness.url(), ALBUM_ROWS) as pair:
        assert owned(pair).isdisjoint(PLAIN)
        pair.agrees(list(reads((0, 9, 78))))


PARTS = """
entities:
  House: { fields: { hid: "int, key", rooms_in: count(rooms), chairs_in: sum(rooms.chairs) } }
  Room:
    key: [house, number]
    fields: { house: "House, as rooms", number: int, chairs: "int, default 1", beds_in: count(beds) }
  Bed:
    fields:
      bid: int, key
      room: Room, as beds
      next_room: Room, as beds_next
patterns:
  house: { find: House, where: "hid = :hid" }
  room: { find: Room, where: "house = :house and number = :number" }
  rooms_of: { count: Room, where: "house = :house" }
  chairs_of: { sum: Room.chairs, where: "house = :house" }
  beds_of: { count: Bed, where: "room.number = :number and room.house = :house" }
  next_to: { count: Bed, where: "next_room.number = :number and next_room.house = :house" }
writes:
  build: { upsert: House }
  raze: { delete: House, where: "hid = :hid" }
  add: { upsert: Room }
  drop: { delete: Room, where: "house = :house and number = :number" }
  put: { upsert: Bed }
  carry: { update: Bed, set: [room], where: "bid = :bid" }
"""


def test_a_key_of_several_parts_and_two_references_to_the_same_rows(harness: Harness) -> None:
    """What the beds next door are counted by has no computed field: only those in the room are told by it."""
    model = crowded(PARTS, {"House": 1e6, "Room": 50e6, "Bed": 1e9})
    with opened(
        model, harness.url(), [("House", {"hid": 1}), ("Room", {"house": 1, "number": 2, "chairs": 3})]
    ) as pair:
        assert owned(pair) == {"rooms_of", "chairs_of", "beds_of"}
        room = {"house": 1, "number": 2}
        writes: list[tuple[str, dict[str, Any]]] = [
            ("put", {"bid": 1, "room": (1, 2), "next_room": (1, 3)}),
            ("put", {"bid": 2, "room": (2, 1), "next_room": (1, 2)}),
            ("add", {"house": 2, "number": 1}),
            ("build", {"hid": 2}),
            ("carry", {"bid": 2, "room": (1, 2)}),
            ("drop", room),
            ("raze", {"hid": 1}),
            ("add", room),
        ]
        rooms = [room, {"house": 2, "number": 1}, {"house": 1, "number": 3}]
        asked: list[tuple[str, dict[str, Any]]] = [
            *((name, {"house": hid}) for name in ("rooms_of", "chairs_of") for hid in (1, 2, 3)),
            *((name, one) for name in ("beds_of", "next_to") for one in rooms),
        ]
        pair.stays_right(writes, asked)


EXPIRING = """
entities:
  Post:
    {ttl_post}
    fields: {{ pid: "int, key", text: "string(8), default x", likes: count(liked) }}
  Like:
    {ttl_like}
    fields: {{ lid: "int, key", post: "Post, as liked" }}
patterns:
  post: {{ find: Post, where: "pid = :pid" }}
  liked: {{ count: Like, where: "post = :pid" }}
writes:
  write: {{ upsert: Post }}
  like: {{ upsert: Like }}
"""


def test_nothing_is_told_by_rows_that_expire_or_of_such_rows(both: Both) -> None:
    for post, like in (("ttl: 1d", "note: x"), ("note: x", "ttl: 1d")):
        text = EXPIRING.format(ttl_post=post, ttl_like=like).replace("    note: x\n", "")
        pair = both(text, [("Post", {"pid": 1}), ("Like", {"lid": 1, "post": 1})])
        assert not owned(pair)
        asked = [("liked", {"pid": 1}), ("liked", {"pid": 2})]
        pair.stays_right([("like", {"lid": 2, "post": 1}), ("like", {"lid": 3, "post": 2})], asked)
        pair.clock.advance(hours=25)
        pair.agrees(asked)
        pair.stays_right([("write", {"pid": 1}), ("like", {"lid": 4, "post": 1})], asked)
