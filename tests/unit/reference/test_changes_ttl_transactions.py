"""Upserts that change, rows that expire, writes that go together."""

from __future__ import annotations

from datetime import timedelta

import pytest

from keyplan.errors import ArgumentError, ConflictError, RangeError
from keyplan.reference import Database
from tests.unit.reference.support import NOON, Clock, database

COUNTERS = """
Counter:
  count: 1
  key: [page, day]
  fields:
    page: string(8)
    day: int
    hits: int, default 10
    misses: int, optional 50%
    last: timestamp, optional 50%
    kind: enum(a 50%, b 50%), default a
    first: timestamp, now
"""


def counters() -> tuple[Database, Clock]:
    return database(
        COUNTERS,
        "counter: { find: Counter, where: 'page = :page and day = :day' }",
        """
        hit:
          upsert: Counter
          where: page = :page and day = :day
          add: {hits: 1, misses: ':misses'}
          set: {last: now}
          return: [hits, misses, last]
        label: { upsert: Counter, where: 'page = :page and day = :day', set: [kind] }
        """,
    )


def test_a_changing_upsert_creates_from_defaults_then_changes() -> None:
    found, clock = counters()
    assert found.write("hit", page="p", day=1, misses=2) == {"hits": 11, "misses": 2, "last": NOON}
    clock.advance(minutes=1)
    later = NOON + timedelta(minutes=1)
    assert found.write("hit", page="p", day=1, misses=-5) == {"hits": 12, "misses": -3, "last": later}
    assert found.write("label", page="p", day=1, kind="b") is None
    row = found.read("counter", page="p", day=1)
    assert (row["kind"], row["first"], row["last"]) == ("b", NOON, later)


def test_a_changing_upsert_out_of_range_creates_nothing() -> None:
    found, _ = counters()
    with pytest.raises(ArgumentError):
        found.write("hit", page="p", day=1, misses=2**63)
    found.write("hit", page="p", day=1, misses=2**63 - 1)
    with pytest.raises(RangeError):
        found.write("hit", page="p", day=1, misses=1)
    assert found.read("counter", page="p", day=1)["hits"] == 11


SESSIONS = """
Session:
  count: 1
  fields:
    id: int, key
    name: string(8), unique
    seen: timestamp, optional 50%
  ttl: {ttl}
"""
SESSION_WRITES = """
start: { create: Session }
put: { upsert: Session }
touch: { update: Session, set: {seen: now}, where: "id = :id" }
forget: { update: Session, set: [seen], where: "id = :id" }
rename: { update: Session, set: [name], where: "id = :id", return: [name] }
"""


def sessions(ttl: str) -> tuple[Database, Clock]:
    patterns = """
    session: { find: Session, where: "id = :id" }
    many: { count: Session }
    """
    return database(SESSIONS.replace("{ttl}", ttl), patterns, SESSION_WRITES)


def test_a_row_is_gone_when_its_time_is_up() -> None:
    found, clock = sessions("30m")
    found.write("start", id=1, name="a")
    clock.advance(minutes=30, milliseconds=-1)
    assert found.read("many") == 1
    with pytest.raises(ConflictError):
        found.write("start", id=1, name="b")
    clock.advance(milliseconds=1)
    assert found.read("session", id=1) is None
    assert found.read("many") == 0
    assert found.write("rename", id=1, name="c") is None
    found.write("start", id=2, name="a")
    found.write("start", id=1, name="b")


def test_an_update_does_not_prolong_a_row_and_an_upsert_does() -> None:
    found, clock = sessions("30m")
    found.write("start", id=1, name="a")
    found.write("start", id=2, name="b")
    clock.advance(minutes=20)
    found.write("rename", id=1, name="c")
    found.write("put", id=2, name="b")
    clock.advance(minutes=10)
    assert found.read("session", id=1) is None
    assert found.read("session", id=2) is not None


def test_since_follows_its_field() -> None:
    found, clock = sessions("30m since seen")
    found.write("start", id=1, name="a")
    clock.advance(days=9)
    assert found.read("session", id=1) is not None
    found.write("touch", id=1)
    clock.advance(minutes=29)
    found.write("touch", id=1)
    clock.advance(minutes=29)
    assert found.read("session", id=1) is not None
    found.write("forget", id=1, seen=None)
    clock.advance(days=9)
    assert found.read("session", id=1) is not None
    found.write("forget", id=1, seen=NOON)
    assert found.read("session", id=1) is None


def test_the_moment_of_expiry_is_hidden() -> None:
    found, _ = sessions("30m")
    found.write("start", id=1, name="a")
    assert found.read("session", id=1) == {"id": 1, "name": "a", "seen": None}
    with pytest.raises(ArgumentError):
        found.write("start", **{"id": 2, "name": "b", "$expires": NOON})


BANK = """
Account: { count: 1, fields: { id: 'int, key', owner: 'string(8), unique', money: 'int, default 0' } }
Entry: { count: 1, fields: { id: 'int, key', account: 'Account, as entries, max 9', amount: int } }
"""
BANK_WRITES = """
open_account: { create: Account }
pay: { update: Account, add: {money: ':n'}, where: "id = :id", if: "money >= 0", return: [money] }
note: { create: Entry }
shut: { delete: Account, where: "id = :id", with: [entries] }
change_entry: { update: Entry, set: [amount], where: "id = :id" }
"""


@pytest.fixture
def bank() -> Database:
    found, _ = database(
        BANK,
        "account: { find: Account, where: 'id = :id' }",
        BANK_WRITES,
        """
        transfer: [pay x2 max 3, note]
        shut_down: [shut, change_entry x1 max 5]
        replace: [shut, open_account]
        """,
    )
    found.load([("Account", {"id": 1, "owner": "a", "money": 5}), ("Account", {"id": 2, "owner": "b"})])
    return found


def test_a_transaction_returns_the_answers_of_its_writes(bank: Database) -> None:
    note = {"id": 1, "account": 1, "amount": 3}
    answer = bank.transact("transfer", pay=[{"id": 1, "n": -3}, {"id": 2, "n": 3}], note=note)
    assert answer == {"pay": [{"money": 2}, {"money": 3}], "note": {"id": 1}}


def test_a_transaction_happens_wholly_or_not_at_all(bank: Database) -> None:
    with pytest.raises(ConflictError):
        bank.transact(
            "transfer", pay=[{"id": 1, "n": -3}, {"id": 9, "n": 3}], note={"id": 1, "account": 1, "amount": 3}
        )
    assert bank.read("account", id=1)["money"] == 5
    assert bank.rows["Entry"] == {}


def test_a_row_may_be_written_once_in_a_transaction(bank: Database) -> None:
    note = {"id": 1, "account": 1, "amount": 3}
    with pytest.raises(ValueError, match="written twice"):
        bank.transact("transfer", pay=[{"id": 1, "n": 1}, {"id": 1, "n": 1}], note=note)
    bank.write("note", **note)
    with pytest.raises(ValueError, match="written twice"):
        bank.transact("shut_down", shut={"id": 1}, change_entry=[{"id": 1, "amount": 2}])
    assert bank.read("account", id=1)["money"] == 5


def test_each_write_sees_those_before_it(bank: Database) -> None:
    bank.transact("replace", shut={"id": 1}, open_account={"id": 3, "owner": "a"})
    assert sorted(bank.rows["Account"]) == [(2,), (3,)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pay": []}, "transfer: missing argument 'note'"),
        ({"pay": {}, "note": {}}, "transfer: argument 'pay': expected a list"),
        ({"pay": None, "note": {}}, "transfer: argument 'pay' is None; give a list of arguments, or leave it out"),
        ({"note": None}, "transfer: argument 'note' is None; give its arguments"),
        ({"note": []}, "transfer: argument 'note': expected a mapping"),
        ({"pay": [{}] * 4, "note": {}}, "transfer: argument 'pay' has 4 writes; give at most 3"),
        ({"pays": [], "note": {}}, "transfer: unknown argument 'pays'; did you mean 'pay'?"),
        ({"pay": [{"id": 1}], "note": {}}, r"transfer: pay\[0\]: missing argument 'n'"),
    ],
)
def test_wrong_calls_of_a_transaction(bank: Database, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        bank.transact("transfer", **arguments)
