"""Values: what each type accepts, how it comes back, how it orders, and what is refused on every engine alike."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from keyplan.errors import RangeError
from tests.conformance.conftest import Both
from tests.conformance.pair import NOON, Pair

MODEL = """
entities:
  Thing:
    fields:
      id: int, key
      str: string(10), optional 50%
      txt: text(100), optional 50%
      byt: bytes(10), optional 50%
      jsn: json(20), optional 50%
      num: int, optional 50%
      dec: decimal(2), optional 50%
      dec4: decimal, optional 50%
      flt: float, optional 50%
      boo: bool, optional 50%
      enu: enum(b, a, B, ab), optional 50%
      dat: date, optional 50%
      tim: timestamp, optional 50%
      uid: uuid, optional 50%
      uli: ulid, optional 50%
      set: set(string(4), avg 2)
      ints: set(int, avg 2, max 3)
      lst: list(int, avg 2, max 4)
      decs: list(decimal(1), avg 2)
      days: set(date, avg 2)
      short: string(3), max 5, optional 50%
patterns:
  thing: { find: Thing, where: "id = :id" }
  by_str: { find: Thing, where: present(str), order: str, select: [id, str], page: 3 }
  by_str_down: { find: Thing, where: present(str), order: str desc, select: [id, str], page: 3 }
  by_txt: { find: Thing, where: present(txt), order: txt, select: [txt] }
  by_byt: { find: Thing, where: present(byt), order: byt, select: [byt] }
  by_num: { find: Thing, where: present(num), order: num, select: [num], page: 3 }
  by_num_down: { find: Thing, where: present(num), order: num desc, select: [num], page: 3 }
  by_dec: { find: Thing, where: present(dec), order: dec, select: [dec], page: 3 }
  by_flt: { find: Thing, where: present(flt), order: flt, select: [flt], page: 3 }
  by_boo: { find: Thing, where: present(boo), order: boo, select: [boo, id] }
  by_enu: { find: Thing, where: present(enu), order: enu, select: [enu, id] }
  by_dat: { find: Thing, where: present(dat), order: dat, select: [dat] }
  by_tim: { find: Thing, where: present(tim), order: tim desc, select: [tim], page: 2 }
  by_uid: { find: Thing, where: present(uid), order: uid, select: [uid] }
  by_uli: { find: Thing, where: present(uli), order: uli, select: [uli] }
  at_str: { find: Thing, where: "str = :v", select: [id] }
  at_num: { find: Thing, where: "num = :v", select: [id] }
  at_dec: { find: Thing, where: "dec = :v", select: [id] }
  at_flt: { find: Thing, where: "flt = :v", select: [id] }
  at_tim: { find: Thing, where: "tim = :v", select: [id] }
  at_uid: { find: Thing, where: "uid = :v", select: [id] }
  at_uli: { find: Thing, where: "uli = :v", select: [id] }
  at_byt: { find: Thing, where: "byt = :v", select: [id] }
writes:
  make: { create: Thing }
  put: { upsert: Thing }
  add_num: { update: Thing, where: "id = :id", add: [num], return: [num] }
  add_dec: { update: Thing, where: "id = :id", add: [dec], return: [dec] }
  add_flt: { update: Thing, where: "id = :id", add: [flt], return: [flt] }
"""

STRINGS = [
    "",
    " ",
    "a",
    "A",
    "a\x01",
    "a#b",
    "a|b",
    "\u00e9",
    "e\u0301",
    "\uffff",
    "\U0001f600",
    "'\"\\;--",
    "$gt",
    "%_",
]
NUMBERS = [0, 1, -1, 9, 10, -10, 2**31, -(2**31), 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
DECIMALS = ["0", "0.01", "-0.01", "1", "10", "9.99", "-9.99", "9999999999999999.99", "-9999999999999999.99"]
FLOATS = [0.0, 1e-130, -1e-130, 0.1, -0.1, 1.5, 1e22, -1e22, 9.99e124, -9.99e124, 3]
IDS = [0, 1, 2**63, 2**64, 2**127, 2**128 - 1]


def filled(both: Both, field: str, values: list[Any]) -> Pair:
    return both(MODEL, [("Thing", {"id": number, field: value}) for number, value in enumerate(values)])


@pytest.mark.parametrize(
    ("field", "values", "pattern"),
    [
        ("str", STRINGS, "by_str"),
        ("str", STRINGS, "by_str_down"),
        ("txt", STRINGS, "by_txt"),
        ("byt", [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"a"], "by_byt"),
        ("num", NUMBERS, "by_num"),
        ("num", NUMBERS, "by_num_down"),
        ("dec", DECIMALS, "by_dec"),
        ("flt", FLOATS, "by_flt"),
        ("boo", [True, False, True], "by_boo"),
        ("enu", ["b", "a", "B", "ab"], "by_enu"),
        ("dat", [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2052, 2, 29)], "by_dat"),
        (
            "tim",
            [
                datetime(1, 1, 1, tzinfo=UTC),
                datetime(9999, 12, 31, 23, 59, 59, 999000, UTC),
                NOON,
                NOON.replace(year=1969),
            ],
            "by_tim",
        ),
        ("uid", [UUID(int=number) for number in IDS], "by_uid"),
        ("uli", ["00000000000000000000000000", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], "by_uli"),
    ],
)
def test_values_come_back_as_they_were_in_their_order(both: Both, field: str, values: list[Any], pattern: str) -> None:
    pair = filled(both, field, values)
    for number in range(len(values)):
        assert pair.same("thing", id=number)[field] is not None
    assert len(pair.same(pattern)) == len(values)


@pytest.mark.parametrize(
    ("field", "given", "canonical"),
    [
        ("num", 7, 7),
        ("dec", "1.5", Decimal("1.50")),
        ("dec", 2, Decimal("2.00")),
        ("dec", Decimal("1E+2"), Decimal("100.00")),
        ("dec", Decimal("-0"), Decimal("0.00")),
        ("dec4", "1.2345", Decimal("1.2345")),
        ("flt", -0.0, 0.0),
        ("flt", 3, 3.0),
        ("boo", False, False),
        ("tim", datetime(2052, 1, 1, 0, 0, 0, 1999, UTC), datetime(2052, 1, 1, 0, 0, 0, 1000, UTC)),
        ("tim", datetime(2052, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2052, 1, 1, tzinfo=UTC)),
        ("tim", "2052-01-01T00:00:00Z", datetime(2052, 1, 1, tzinfo=UTC)),
        ("dat", "2052-01-31", date(2052, 1, 31)),
        ("uid", "AAAAAAAA-0000-0000-0000-00000000000B", UUID("aaaaaaaa-0000-0000-0000-00000000000b")),
        ("uli", "01arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("set", ["b", "a", "b"], frozenset("ab")),
        ("set", [], frozenset()),
        ("ints", {3, -1}, frozenset((3, -1))),
        ("lst", [3, 1, 3], (3, 1, 3)),
        ("decs", ["1", "0.5"], (Decimal("1.0"), Decimal("0.5"))),
        ("days", [date(2052, 1, 1)], frozenset([date(2052, 1, 1)])),
        ("jsn", {"a": [1, None, {"$gt": ""}], "b": "x", "c": 1.5, "d": True}, None),
        ("jsn", [], None),
        ("jsn", "text", None),
        ("jsn", 2**70, None),
        ("short", "\u00e9\u00e9a", "\u00e9\u00e9a"),
        ("str", "x" * 512, "x" * 512),
        ("txt", "y" * 100_000, "y" * 100_000),
    ],
)
def test_canonical_forms_are_returned(shared: Pair, field: str, given: Any, canonical: Any) -> None:
    shared.same("put", id=1, **{field: given})
    found = shared.same("thing", id=1)[field]
    assert found == (given if canonical is None else canonical)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("str", "x" * 513),
        ("str", "\u00e9" * 257),
        ("str", "a\0b"),
        ("str", "\ud800"),
        ("str", 5),
        ("str", b"x"),
        ("short", "\u00e9\u00e9\u00e9"),
        ("txt", "y" * 100_001),
        ("byt", b"z" * 100_001),
        ("byt", "text"),
        ("jsn", "y" * 100_001),
        ("jsn", float("nan")),
        ("jsn", {1: 2}),
        ("jsn", object()),
        ("num", 2**63),
        ("num", -(2**63) - 1),
        ("num", 1.0),
        ("num", True),
        ("num", "1x"),
        ("dec", "0.001"),
        ("dec", "1e16"),
        ("dec", "NaN"),
        ("dec", "Infinity"),
        ("flt", float("inf")),
        ("flt", float("nan")),
        ("flt", 1e125),
        ("flt", 9e-131),
        ("boo", 1),
        ("enu", "c"),
        ("enu", "A"),
        ("dat", "2052-13-01"),
        ("dat", NOON),
        ("tim", datetime(2052, 1, 1)),
        ("tim", date(2052, 1, 1)),
        ("tim", "2052-01-01T00:00:00"),
        ("uid", "x"),
        ("uli", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        ("set", "ab"),
        ("set", [1]),
        ("set", [None]),
        ("ints", [1, 2, 3, 4]),
        ("lst", [1, 2, 3, 4, 5]),
        ("lst", 5),
    ],
)
def test_refused_values(shared: Pair, field: str, given: Any) -> None:
    assert f"'{field}'" in shared.refused("make", id=0, **{field: given})
    assert shared.same("thing", id=0) is None


@pytest.mark.parametrize(
    ("field", "value", "other", "pattern"),
    [
        ("str", "a", "A", "at_str"),
        ("str", "\u00e9", "e\u0301", "at_str"),
        ("str", "", " ", "at_str"),
        ("num", 2**53 + 1, 2**53, "at_num"),
        ("dec", "1.10", "1.01", "at_dec"),
        ("flt", 0.1, 0.1 + 1e-16, "at_flt"),
        ("flt", 0.0, 1e-130, "at_flt"),
        ("tim", NOON, NOON + timedelta(milliseconds=1), "at_tim"),
        ("uid", UUID(int=2**127), UUID(int=2**127 - 1), "at_uid"),
        ("uli", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000", "at_uli"),
        ("byt", b"\0", b"", "at_byt"),
    ],
)
def test_equality_is_exact(both: Both, field: str, value: Any, other: Any, pattern: str) -> None:
    pair = both(MODEL, [("Thing", {"id": 1, field: value}), ("Thing", {"id": 2, field: other}), ("Thing", {"id": 3})])
    assert pair.same(pattern, v=value) == [{"id": 1}]


def test_an_argument_is_made_canonical(both: Both) -> None:
    pair = both(MODEL, [("Thing", {"id": 1, "dec": "1.50", "uid": UUID(int=10**30), "flt": 0.0})])
    assert pair.same("at_dec", v=Decimal("1.5")) == [{"id": 1}]
    assert pair.same("at_uid", v=str(UUID(int=10**30)).upper()) == [{"id": 1}]
    assert pair.same("at_flt", v=-0.0) == [{"id": 1}]


@pytest.mark.parametrize(
    ("write", "field", "value", "delta"),
    [
        ("add_num", "num", 2**63 - 1, 1),
        ("add_num", "num", -(2**63), -1),
        ("add_num", "num", 2**62, 2**62),
        ("add_dec", "dec", "9999999999999999.99", "0.01"),
        ("add_flt", "flt", 9.9e124, 9.9e124),
    ],
)
def test_add_that_leaves_the_range_writes_nothing(shared: Pair, write: str, field: str, value: Any, delta: Any) -> None:
    shared.load([("Thing", {"id": 1, field: value})])
    with pytest.raises(RangeError):
        shared.same(write, id=1, **{field: delta})
    assert shared.same("thing", id=1)[field] is not None


@pytest.mark.parametrize(
    ("write", "field", "value", "delta"),
    [
        ("add_num", "num", 2**63 - 2, 1),
        ("add_num", "num", None, -5),
        ("add_dec", "dec", "0.10", "0.20"),
        ("add_dec", "dec", None, "-0.01"),
        ("add_flt", "flt", 0.1, 0.2),
    ],
)
def test_add_is_exact_and_counts_missing_as_zero(shared: Pair, write: str, field: str, value: Any, delta: Any) -> None:
    shared.load([("Thing", {"id": 1, field: value})])
    assert shared.same(write, id=1, **{field: delta})[field] is not None
    shared.same("thing", id=1)


def test_sets_and_lists_are_never_missing(both: Both) -> None:
    pair = both(MODEL, [("Thing", {"id": 1})])
    row = pair.same("thing", id=1)
    assert (row["set"], row["lst"]) == (frozenset(), ())
    pair.same("put", id=1, set=["a"])
    assert pair.same("thing", id=1)["set"] == {"a"}
    pair.same("put", id=1)
    assert pair.same("thing", id=1)["set"] == frozenset()


KEYS = """
entities:
  Part:
    key: [region, number, day]
    fields:
      region: string(4)
      number: int
      day: date
      made: timestamp, optional 50%
  Use:
    fields:
      uid: uuid, key
      part: Part, as uses, optional 50%
patterns:
  part: { find: Part, where: "region = :region and number = :number and day = :day" }
  parts: { find: Part, where: "region = :region", order: number desc, page: 2 }
  use: { find: Use, where: "uid = :uid", with: [part.made] }
  uses: { find: Use, where: "part.region = :region and part.number = :number" }
writes:
  mk: { create: Part }
  mku: { create: Use }
  move: { update: Use, set: [part], where: "uid = :uid" }
"""


def test_strings_that_look_like_separators_stay_apart(both: Both) -> None:
    day = date(2052, 1, 1)
    regions = ["", "a", "a#", "a#1", "#", "a\x01", "\x01", "|", "\U0001f600"]
    rows = [("Part", {"region": region, "number": number, "day": day}) for region in regions for number in (-1, 0, 1)]
    pair = both(KEYS, rows)
    for region in regions:
        assert len(pair.same("parts", region=region)) == 3
        assert pair.same("part", region=region, number=-1, day=day) is not None


@pytest.mark.parametrize(
    "given",
    [
        ("a", -1, date(2052, 1, 1)),
        ["a", -1, "2052-01-01"],
        {"day": date(2052, 1, 1), "region": "a", "number": -1},
    ],
)
def test_a_composite_reference_is_a_tuple_or_mapping(both: Both, given: Any) -> None:
    pair = both(KEYS, [("Part", {"region": "a", "number": -1, "day": date(2052, 1, 1), "made": NOON})])
    uid = pair.same("mku", part=given)["uid"]
    found = pair.same("use", uid=uid)
    assert found["part"]["made"] == NOON
    assert len(pair.same("uses", region="a", number=-1)) == 1
    pair.same("move", uid=uid, part=None)
    assert pair.same("use", uid=uid)["part"] is None
    assert pair.same("uses", region="a", number=-1) == []


@pytest.mark.parametrize("given", [("a", 1), ("a", None, date(2052, 1, 1)), "a", {"region": "a"}, {"x": 1}])
def test_a_partial_reference_is_refused(both: Both, given: Any) -> None:
    both(KEYS).refused("mku", part=given)
