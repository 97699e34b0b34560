"""Computed fields that are kept with their row because they are read far more often than they change."""

from __future__ import annotations

from typing import Any

from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, at

MODEL = """
entities:
  Album:
    fields:
      aid: int, key
      owner: string(4), distinct 100
      made: timestamp
      title: string(8), default 'x'
      photos_in: count(photos)
      size: sum(photos.bytes)
      latest: max(photos.taken)
      oldest: min(photos.taken)
  Photo:
    fields:
      pid: int, key
      album: Album, as photos, optional 90%
      bytes: int, optional 90%
      taken: timestamp, optional 90%
patterns:
  album: { find: Album, where: "aid = :aid" }
  albums: { find: Album, where: "owner = :owner", order: made desc, page: 2 }
  sizes: { find: Album, where: "owner = :owner", select: [title, size] }
writes:
  start: { create: Album }
  again: { upsert: Album }
  rename: { update: Album, set: [title, owner], where: "aid = :aid" }
  drop: { delete: Album, where: "aid = :aid" }
  clear: { delete: Album, with: [photos], where: "aid = :aid" }
  add: { create: Photo }
  put: { upsert: Photo }
  crop: { update: Photo, set: [bytes, taken], where: "pid = :pid" }
  grow: { update: Photo, add: [bytes], where: "pid = :pid" }
  move: { update: Photo, set: [album], where: "pid = :pid" }
  forget: { delete: Photo, where: "pid = :pid" }
transactions:
  bring: [start, add x2 max 4]
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("Album", {"aid": n, "owner": "ab"[n % 2], "made": at(f"2052-01-0{1 + n}")}) for n in range(6)),
    *(("Photo", {"pid": n, "album": n % 4, "bytes": n * 3 % 7, "taken": at(f"2052-05-0{1 + n}")}) for n in range(9)),
    ("Photo", {"pid": 20, "album": 9, "bytes": 4, "taken": at("2052-05-20")}),
    ("Photo", {"pid": 21, "bytes": 4}),
]

READS: list[tuple[str, dict[str, Any]]] = [
    *(("album", {"aid": aid}) for aid in (0, 1, 5, 9, 77)),
    ("albums", {"owner": "a"}),
    ("albums", {"owner": "b"}),
    ("sizes", {"owner": "a"}),
]

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("add", {"pid": 30, "album": 5, "bytes": 50, "taken": at("2052-06-01")}),
    ("add", {"pid": 31, "album": 5}),
    ("add", {"pid": 32, "album": 77, "bytes": 1}),
    ("start", {"aid": 9, "owner": "b", "made": at("2052-02-01")}),
    ("start", {"aid": 77, "owner": "a", "title": "late", "made": at("2052-02-02")}),
    ("crop", {"pid": 30, "bytes": -5, "taken": at("2052-04-01")}),
    ("crop", {"pid": 0, "bytes": None, "taken": None}),
    ("grow", {"pid": 5, "bytes": 100}),
    ("move", {"pid": 5, "album": 0}),
    ("move", {"pid": 8, "album": None}),
    ("put", {"pid": 21, "album": 3, "bytes": 9}),
    ("again", {"aid": 1, "owner": "a", "made": at("2052-03-01")}),
    ("rename", {"aid": 2, "title": "new", "owner": "b"}),
    ("forget", {"pid": 1}),
    ("drop", {"aid": 0}),
    ("start", {"aid": 0, "owner": "a", "made": at("2052-03-02")}),
    ("bring", {"start": {"aid": 40, "owner": "a", "made": at("2052-04-01")}, "add": [{"pid": 70, "album": 40}]}),
    ("clear", {"aid": 3}),
]


def test_values_follow_what_they_are_computed_of(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_rows_that_are_loaded_again_count_once(both: Both) -> None:
    pair = both(MODEL, ROWS)
    pair.load(ROWS)
    pair.agrees(READS)
    pair.load([("Photo", {"pid": 0, "album": 5, "bytes": 1000})])
    pair.agrees(READS)


def test_they_are_kept_where_they_are_read_most(reads: Pair, size: str) -> None:
    """Otherwise the tests above would say little."""
    design = reads.store.design
    home, _ = design.homes["Album"]
    computed = {"photos_in", "size", "latest", "oldest"}
    if size == "read":
        assert computed <= set(design.views[home].holds)
    if size == "written":
        assert not computed & set(design.views[home].holds)


COVERS = """
entities:
  Album:
    fields:
      aid: int, key
      cover: Photo, optional 50%
      title: string(8), default 'x'
      photos_in: count(photos)
      size: sum(photos.bytes)
      largest: max(photos.bytes)
  Photo:
    fields:
      pid: int, key
      album: Album, as photos, optional 90%
      bytes: int, default 1
      name: string(8), default 'x'
patterns:
  album: { find: Album, where: "aid = :aid", with: [cover.name] }
  largest: { find: Album, order: size desc, page: 3, select: [aid, size, photos_in, cover.name] }
writes:
  start: { upsert: Album }
  choose: { update: Album, set: [cover], where: "aid = :aid" }
  drop: { delete: Album, where: "aid = :aid" }
  add: { create: Photo }
  put: { upsert: Photo }
  edit: { update: Photo, set: [bytes, name], where: "pid = :pid" }
  move: { update: Photo, set: [album, name], where: "pid = :pid" }
  forget: { delete: Photo, where: "pid = :pid" }
transactions:
  add_and_edit: [add, edit]
  add_and_forget: [add, forget]
"""


def test_a_row_that_copies_from_one_of_those_it_is_computed_of_gets_both(both: Both) -> None:
    """An album with its cover: a change of that photo changes a copy in the album's entry, and a sum there."""
    pair = both(COVERS, [("Album", {"aid": 1, "cover": 7}), ("Album", {"aid": 2, "cover": 7})])
    writes: list[tuple[str, dict[str, Any]]] = [
        ("add", {"pid": 7, "album": 1, "bytes": 3, "name": "a"}),
        ("edit", {"pid": 7, "bytes": 5, "name": "b"}),
        ("move", {"pid": 7, "album": 2, "name": "c"}),
        ("move", {"pid": 7, "album": 1, "name": "d"}),
        ("add_and_edit", {"add": {"pid": 8, "album": 1}, "edit": {"pid": 7, "bytes": 9, "name": "e"}}),
        ("choose", {"aid": 1, "cover": 8}),
        ("put", {"pid": 8, "album": 2, "bytes": 4, "name": "f"}),
        ("forget", {"pid": 7}),
        ("add_and_forget", {"add": {"pid": 7, "album": 2, "bytes": 6}, "forget": {"pid": 8}}),
        ("put", {"pid": 7, "name": "g"}),
        ("drop", {"aid": 2}),
        ("start", {"aid": 2, "cover": 7}),
        ("put", {"pid": 7, "album": 2, "name": "h"}),
    ]
    pair.stays_right(writes, [("album", {"aid": 1}), ("album", {"aid": 2}), ("largest", {})])
    covers = [("Album", {"aid": aid, "cover": 10 + aid}) for aid in range(3, 9)]
    pair.load([*covers, *(("Photo", {"pid": 10 + aid, "album": 3 + aid % 3, "name": "i"}) for aid in range(3, 9))])
    pair.agrees([("album", {"aid": aid}) for aid in range(3, 9)])


BEYOND = """
entities:
  House: { fields: { hid: "int, key", street: "string(8), default x", rooms_in: count(rooms), area: sum(rooms.size) } }
  Room:
    key: [house, number]
    fields: { house: "House, as rooms", number: int, size: "int, default 1", chairs_in: count(chairs) }
  Chair:
    key: [room, seat]
    fields: { room: "Room, as chairs", seat: int }
patterns:
  chairs: { find: Chair, select: [seat, room.chairs_in, room.house.rooms_in, room.house.area, room.house.street] }
  large: { find: Chair, where: "room.house.area >= :area" }
  by_area: { find: Chair, order: room.house.area desc, page: 2, select: [room.house.hid, seat] }
  homeless: { find: Chair, where: "missing(room.house.rooms_in)" }
writes:
  build: { upsert: Room }
  tear_down: { delete: Room, where: "house = :house and number = :number" }
  put: { create: Chair }
"""


def test_nothing_is_computed_beyond_a_row_that_is_gone(both: Both) -> None:
    """The house is in the key of a room that is gone: what is computed of the room is there, of the house it is not."""
    pair = both(BEYOND, [("House", {"hid": 1}), ("Room", {"house": 1, "number": 2, "size": 5})])
    pair.load([("Chair", {"room": (1, number), "seat": number}) for number in (2, 3)])
    writes: list[tuple[str, dict[str, Any]]] = [
        ("build", {"house": 1, "number": 3}),
        ("tear_down", {"house": 1, "number": 2}),
        ("put", {"room": (7, 2), "seat": 9}),
        ("build", {"house": 7, "number": 2, "size": 4}),
        ("tear_down", {"house": 1, "number": 3}),
    ]
    reads = [("chairs", {}), ("large", {"area": 1}), ("by_area", {}), ("homeless", {})]
    pair.stays_right(writes, reads)
    found = {row["seat"]: row["room"] for row in pair.same("chairs")}
    assert found[2] == {"chairs_in": 1, "house": {"rooms_in": None, "area": None, "street": None}}
    assert found[9] == {"chairs_in": 1, "house": {"rooms_in": 1, "area": 4, "street": None}}
