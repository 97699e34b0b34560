"""Calls on a store: pages and cursors, iteration, options, signatures, faults and races."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

import keyplan
from keyplan.errors import ArgumentError, ConflictError, CursorError, UncertainError
from keyplan.model.load import parse_model
from keyplan.plan.intents import INTENTS
from keyplan.store.core import Core
from keyplan.store.store import AsyncStore, Store
from tests.naive import EVERYTHING, Extras, naive_design
from tests.strategies.programs import Clock
from tests.unit.store.memory import MemoryEngine, MemoryPort, Written, conflict
from tests.unit.store.support import memory_store

MODEL = parse_model(
    """
keyplan: 1
name: shop
entities:
  User:
    count: 10
    fields:
      name: string(8), key
      email: string(16), unique
      orders_made: count(orders)
  Order:
    count: 100
    fields:
      number: int, key
      user: User, as orders
      status: enum(open 10%, done 90%), default open
      total: int, default 0
patterns:
  user: {find: User, where: "name = :name"}
  orders: {find: Order, where: "user = :user and status in :status", order: total desc, page: 2, with: [user.email]}
  totals: {from: Order, compute: {sum: sum(total), rows: count()}, group: [user]}
  rank: {rank: Order, of: [number], order: total desc}
writes:
  new_user: {create: User}
  put_user: {upsert: User}
  new_order: {create: Order}
  pay: {update: Order, add: {total: ":n"}, where: "number = :number", return: [total]}
  close: {update: Order, set: {status: done}, where: "number = :number", if: "status = 'open'"}
  close_all: {update: Order, set: {status: done}, where: "status = 'open'", rows: 5}
  drop: {delete: User, with: [orders], where: "name = :name"}
transactions:
  both: [new_user, new_order x2 max 3]
""".replace("  close:", "  finish:").replace("close_all", "finish_all")
)


@pytest.fixture(params=list(EVERYTHING))
def store(request: pytest.FixtureRequest) -> Store:
    store = memory_store(MODEL, EVERYTHING[request.param])
    store.load([("User", {"name": name, "email": f"{name}@x"}) for name in "ab"])
    store.load([("Order", {"number": n, "user": "ab"[n % 2], "total": n // 3}) for n in range(10)])
    return store


def port_of(store: Store) -> MemoryPort:
    port = store._port
    assert isinstance(port, MemoryPort)
    return port


def test_pages_meet_every_row_once(store: Store) -> None:
    seen: list[int] = []
    cursor = None
    while True:
        page = store.orders(user="b", status=["open", "done"], cursor=cursor)
        seen += [row["number"] for row in page]
        assert all(row["user"] == {"email": "b@x"} for row in page.rows)
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [9, 7, 5, 3, 1]
    assert [row["number"] for row in store.orders.all(user="b", status=["open"])] == seen


def test_cursors_belong_to_one_call(store: Store) -> None:
    cursor = store.orders(user="b", status=["open"]).cursor
    assert store.orders(user="b", status=["open"], cursor=cursor).rows
    for arguments in ({"user": "a", "status": ["open"]}, {"user": "b", "status": ["done"]}):
        with pytest.raises(CursorError):
            store.orders(**arguments, cursor=cursor)
    for tampered in (cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB"), "x", "", "é", cursor + "AAAA", 7):
        with pytest.raises(CursorError):
            store.orders(user="b", status=["open"], cursor=tampered)
    with pytest.raises(ArgumentError, match="does not come in pages"):
        store.user(name="a", cursor=cursor)


def test_of_a_cursor_no_letter_can_be_changed(store: Store) -> None:
    """Not even in the bits of the last one that hold nothing."""
    cursor = store.orders(user="b", status=["open"]).cursor
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for changed in (*(cursor[:-1] + letter for letter in letters if letter != cursor[-1]), f"{cursor}="):
        with pytest.raises(CursorError):
            store.orders(user="b", status=["open"], cursor=changed)


def test_a_cursor_from_before_a_change_of_types_is_refused() -> None:
    text = """
    keyplan: 1
    name: t
    entities: {A: {count: 10, fields: {id: "int, key", at: int}}}
    patterns: {all_of: {find: A, order: at, page: 1, rate: 1/s}}
    """
    before, after = (keyplan.parse_model(one) for one in (text, text.replace("at: int", "at: date")))
    with keyplan.open(before, "sqlite::memory:") as store:
        store.load([("A", {"id": 1, "at": 5})])
        cursor = store.all_of().cursor
    with keyplan.open(after, "sqlite::memory:") as store, pytest.raises(CursorError, match="not one of its own"):
        store.all_of(cursor=cursor)


def test_a_cursor_holds_sums_beyond_the_range_of_their_type() -> None:
    model = parse_model(
        """
        keyplan: 1
        name: t
        entities:
          Box: {count: 100, fields: {id: "int, key", whole: sum(things.n), exact: sum(things.d)}}
          Thing: {count: 100, fields: {id: "int, key", box: "Box, as things", n: int, d: decimal(2)}}
        patterns:
          fullest: {find: Box, order: "whole desc, exact", page: 1, rate: 1/s}
        writes:
          change: {update: Thing, set: [n, d], where: "id = :id", rate: 1k/s}
        """
    )
    most = {"n": 2**63 - 1, "d": "9999999999999999.99"}
    with keyplan.open(model, "sqlite::memory:") as store:
        store.load([("Box", {"id": box}) for box in range(3)])
        store.load([("Thing", {"id": 10 * box + n, "box": box, **most}) for box in range(3) for n in range(box + 1)])
        seen: list[int] = []
        cursor = None
        while len(seen) < 3:
            page = store.fullest(cursor=cursor)
            seen += [row["id"] for row in page]
            cursor = page.cursor
        assert seen == [2, 1, 0]


def test_arguments_are_checked_before_anything_is_sent(store: Store) -> None:
    rounds = port_of(store).rounds
    for call in (
        lambda: store.user(),
        lambda: store.user(nam="a"),
        lambda: store.user(name=None),
        lambda: store.user(name="a", consistency="total"),
        lambda: store.new_order(number="7", user="a"),
        lambda: store.both(new_user={"name": "c", "email": "c"}, new_order=[{"number": 1, "user": "c"}] * 2),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert port_of(store).rounds == rounds


def test_arguments_without_a_name_are_refused(store: Store) -> None:
    for call in (store.user, store.new_user, store.both, store.orders.all):
        with pytest.raises(ArgumentError, match="arguments are given by name, as name=value; it takes '"):
            call("a")


def test_methods_say_what_they_take(store: Store) -> None:
    assert list(inspect.signature(store.orders).parameters) == ["user", "status", "cursor", "consistency", "explain"]
    assert inspect.signature(store.new_order).parameters["total"].default == 0
    assert inspect.signature(store.new_order).parameters["user"].default is inspect.Parameter.empty
    with pytest.raises(AttributeError, match="did you mean 'orders'"):
        store.ordres  # noqa: B018


def test_explain_counts_what_was_done(store: Store) -> None:
    answer, executed = store.orders(user="b", status=["open"], explain=True)
    assert [row["number"] for row in answer] == [9, 7]
    assert executed.rounds >= 1
    assert executed.requests >= executed.rounds
    assert executed.steps
    assert executed.rows == sum(step["rows"] for step in executed.steps)


def test_a_transaction_leaves_nothing_behind_when_it_fails(store: Store) -> None:
    with pytest.raises(ConflictError, match="exists already"):
        store.both(
            new_user={"name": "c", "email": "c"}, new_order=[{"number": 20, "user": "c"}, {"number": 3, "user": "c"}]
        )
    assert store.user(name="c") is None
    assert store.rank(number=20) is None
    assert store.verify().ok


def test_unique_values_are_refused_and_released(store: Store) -> None:
    with pytest.raises(ConflictError, match="same"):
        store.new_user(name="c", email="a@x")
    store.put_user(name="a", email="other")
    store.new_user(name="c", email="a@x")
    assert store.verify().ok


def test_writes_of_many_rows_and_cascades(store: Store) -> None:
    store.finish(number=3)
    with pytest.raises(ConflictError, match="condition does not hold"):
        store.finish(number=3)
    with pytest.raises(ConflictError, match="no such Order"):
        store.finish(number=99)
    assert store.finish_all() == 9
    assert store.finish_all() == 0
    store.drop(name="a")
    assert [row["user"] for row in store.totals()] == ["b"]
    assert store.user(name="b")["orders_made"] == 5
    assert store.verify().ok


class Racing:
    """Does something else just before a write arrives, a few times."""

    def __init__(self, port: MemoryPort, other: Any, times: int = 1) -> None:
        self.port, self.other, self.times = port, other, times
        self.active = False
        port.faults.append(self)

    def __call__(self, request: Any) -> None:
        if isinstance(request, Written) and self.times and not self.active:
            self.times -= 1
            self.active = True
            self.other()
            self.active = False


def test_a_write_that_was_overtaken_is_worked_out_anew(store: Store) -> None:
    race = Racing(port_of(store), lambda: store.pay(number=3, n=100), times=3)
    paid = store.pay(number=3, n=1)  # where nothing depends on the old row, one request is enough
    assert paid == {"total": 2 + 100 * (3 - race.times)}
    assert race.times < 3
    assert store.verify().ok


def test_a_row_that_is_created_while_what_it_copies_changes(store: Store) -> None:
    Racing(port_of(store), lambda: store.new_order(number=50, user="a", total=1000))
    store.put_user(name="a", email="new")
    row = next(row for row in store.orders.all(user="a", status=["open"]) if row["number"] == 50)
    assert row["user"] == {"email": "new"}
    assert store.verify().ok


def test_a_row_that_is_deleted_while_it_is_changed(store: Store) -> None:
    Racing(port_of(store), lambda: store.drop(name="b"))
    assert store.pay(number=3, n=1) is None
    assert store.verify().ok


def lose_reply(store: Store, *, done: bool) -> None:
    """The next write's reply is lost, whether it was done or not; one that only holds something is none."""
    port = port_of(store)

    def fault(request: Any) -> Any:
        if not isinstance(request, Written) or all(edit.view == INTENTS for edit in request.edits):
            return None
        port.faults.remove(fault)
        if done:
            port.write(request)
        return UncertainError("the reply was lost")

    port.faults.append(fault)


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_reply(store: Store, done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyplan.store.pump.time.sleep", lambda seconds: None)
    lose_reply(store, done=done)
    with pytest.raises(UncertainError):
        store.pay(number=3, n=1)
    lose_reply(store, done=done)
    with pytest.raises(UncertainError):
        store.finish(number=5)
    lose_reply(store, done=done)
    store.put_user(name="a", email="z")
    assert store.user(name="a")["email"] == "z"
    lose_reply(store, done=done)
    if done:
        with pytest.raises(UncertainError):
            store.new_user(name="n", email="n")
    else:
        store.new_user(name="n", email="n")
    assert store.user(name="n")["email"] == "n"
    assert store.verify().ok


def test_rows_that_never_hold_still(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyplan.store.pump.time.sleep", lambda seconds: None)
    port = port_of(store)
    if not any(place.deciding for place in store._core.places.of["Order"]):
        return
    port.faults.append(lambda request: conflict(0, "busy") if isinstance(request, Written) else None)
    with pytest.raises(ConflictError):
        store.put_user(name="a", email="q")


def test_verify_finds_and_repairs(store: Store) -> None:
    port = port_of(store)
    homes = {name for name, _ in store.design.homes.values()}
    views = [where for where in port.entries if where[0] not in homes and port.entries[where]]
    if not views:
        return
    for where in views:
        entries = port.entries[where]
        entries.pop(min(entries, key=repr))
        if entries:
            key = max(entries, key=repr)
            for path in [path for path in entries[key] if path not in ("number", "name")][:1]:
                entries[key] = {**entries[key], path: None}
    assert not store.verify().ok
    assert store.verify(repair=True).repaired
    assert store.verify().ok


def test_an_interrupted_load_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyplan.store.bulk.load.BULK", 4)
    store = memory_store(MODEL, Extras(copies=True))
    rows: Sequence[tuple[str, dict[str, Any]]] = [("User", {"name": str(n), "email": str(n)}) for n in range(10)]
    safe: list[int] = []

    def stop(count: int) -> None:
        safe.append(count)
        if len(safe) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.load(rows, progress=stop)
    assert store.load(rows, done=safe[-1]) == 10 - safe[-1]
    assert sum(store.user(name=str(n)) is not None for n in range(10)) == 10


def test_async_stores_do_the_same() -> None:
    class Port:
        def __init__(self, port: MemoryPort) -> None:
            self.port = port

        async def send(self, round: Sequence[Any]) -> Sequence[Any]:
            await asyncio.sleep(0)
            return self.port.send(round)

        async def close(self) -> None:
            pass

    async def main() -> None:
        design = naive_design(MODEL, Extras(copies=True))
        core = Core(MODEL, design, MemoryEngine(), Clock())  # type: ignore[arg-type]
        async with AsyncStore(core, Port(MemoryPort(MODEL, design))) as store:
            await store.load([("User", {"name": "a", "email": "a"})])
            await asyncio.gather(*(store.new_order(number=n, user="a", total=n) for n in range(5)))
            page = await store.orders(user="a", status=["open"])
            assert [row["number"] for row in page] == [4, 3]
            assert [row["number"] async for row in store.orders.all(user="a", status=["open"])] == [4, 3, 2, 1, 0]
            assert (await store.user(name="a"))["orders_made"] == 5
            assert (await store.verify()).ok

    asyncio.run(main())
