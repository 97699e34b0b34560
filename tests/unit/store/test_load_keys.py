"""Keys that a load works out from its rows."""

from __future__ import annotations

import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest

from keyplan.model.load import parse_model
from keyplan.model.new_row import generate
from keyplan.model.types import Type
from keyplan.store.bulk.keys import Keys

MODEL = parse_model("""
keyplan: 1
name: logs
entities:
  Event: { fields: { event_id: "ulid, key", n: int, tags: "set(string(4), avg 2)" } }
  User: { fields: { user_id: "uuid, key", email: "string(10)" } }
  Pair: { key: [one, other], fields: { one: uuid, other: ulid } }
patterns: { user: { find: User, where: "user_id = :user_id" } }
""")
NOW = datetime(2025, 1, 1, tzinfo=UTC)
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Event", {"n": 1, "tags": {"a", "b", "c", "d"}}),
    ("User", {"email": "a"}),
    ("Event", {"n": 2}),
    ("User", {"user_id": "given", "email": "b"}),
    ("Event", {"n": 2}),
    ("Pair", {}),
    ("User", {"email": "a"}),
]


def made(rows: Sequence[Any], done: int = 0, derived: bool = True) -> list[list[Any]]:
    """The ids of each row after those that are done."""
    keys = Keys(MODEL, generate, derived)
    assert keys.passed(iter(rows[:done])) == done
    keys.begin(rows[done:])
    return [list(ids(keys, number, *row)) for number, row in enumerate(rows[done:], done + 1)]


def ids(keys: Keys, number: int, entity: str, fields: dict[str, Any]) -> Iterator[Any]:
    new_id = keys.of(number, entity, fields)
    return (new_id(type, NOW) for type in keys.left_out(entity, fields))


def test_a_load_that_goes_on_has_the_same_keys() -> None:
    whole = made(ROWS)
    assert [len(one) for one in whole] == [1, 1, 1, 0, 1, 2, 1]
    found = [one for some in whole for one in some]
    assert len({*found}) == len(found)
    for done in range(1, len(ROWS)):
        assert made(ROWS, done) == whole[done:]
    events = [whole[number][0] for number in (0, 2, 4)]
    assert events == sorted(events)
    assert whole[1][0].version == 8


def test_rows_of_an_entity_do_not_change_the_keys_of_others() -> None:
    whole = made(ROWS)
    assert made([*ROWS[:2], ROWS[4], *ROWS[5:]]) == [*whole[:3], *whole[5:]]
    other = made([*ROWS[:1], ("User", {"email": "c"}), *ROWS[2:]])
    assert [one for row, one in zip(ROWS, other, strict=True) if row[0] != "User"] == [
        one for row, one in zip(ROWS, whole, strict=True) if row[0] != "User"
    ]
    assert other[1] != whole[1]
    assert other[6] != whole[6]


def test_loads_with_other_first_rows_have_other_keys() -> None:
    one, other = made(ROWS), made([("Event", {"n": 0}), *ROWS[1:]])
    assert not {key for keys in one for key in keys} & {key for keys in other for key in keys}


@pytest.mark.parametrize("derived", [True, False])
def test_a_row_that_is_looked_at_again_has_the_ids_that_it_had(derived: bool) -> None:
    keys = Keys(MODEL, generate, derived)
    keys.begin(ROWS)
    first = list(ids(keys, 6, "Pair", {}))
    assert list(ids(keys, 7, "Pair", {})) != first
    assert list(ids(keys, 6, "Pair", {})) == first
    keys.begin(ROWS)
    assert list(ids(keys, 6, "Pair", {})) != first


def test_what_is_left_out_need_not_be_rows() -> None:
    keys = Keys(MODEL, generate, True)
    assert keys.passed(iter([5, (), ("Nothing", {}), (["Event"], {}), ("Event", 5), None])) == 6


def test_values_that_show_their_address_are_what_they_hold() -> None:
    class Zone(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta:
            return timedelta(hours=1)

    def rows() -> list[tuple[str, dict[str, Any]]]:
        when = datetime(2025, 1, 1, tzinfo=Zone())
        return [("Event", {"n": UserDict(a=[memoryview(b"a"), when, {memoryview(b"b")}])})]

    assert made(rows()) == made(rows())
    other = [("Event", {"n": UserDict(a=[memoryview(b"a"), NOW, {memoryview(b"b")}])})]
    assert made(rows()) != made(other)


def test_keys_are_the_same_in_every_process() -> None:
    """Sets of texts have another order in each."""
    code = "from tests.unit.store.test_load_keys import ROWS, made; print(made(ROWS))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "123"
    }
    assert said == {f"{made(ROWS)}\n"}


def test_other_ids_are_made_by_whoever_was_asked_to() -> None:
    keys = Keys(MODEL, lambda type, now: f"{type.kind} of {now.year}", False)
    keys.begin(ROWS)
    assert keys.of(1, "Event", {})(Type("ulid"), NOW) == "ulid of 2025"
