"""Writes: create, upsert, change, update, delete, and unique, default, now, from, immutable, if, return."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from keyplan.engines import get_engine
from keyplan.errors import ConflictError, RangeError
from keyplan.store.writing.places import find_places
from tests.conformance.conftest import Both
from tests.conformance.pair import NOON, Pair

MODEL = """
entities:
  User:
    fields:
      uid: uuid, key
      email: string(8), unique
      phone: string(8), unique, optional 50%
      country: string(4), optional 50%
      number: int, optional 50%
      name: string(8)
      born: string(4), immutable, optional 50%
      made: timestamp, now
      day: date, now
      level: int, default 3
      seen: timestamp, optional 50%
      spent: sum(orders.total)
      orders_made: count(orders)
    unique: [[country, number]]
  Order:
    fields:
      oid: ulid, key
      user: User, as orders
      status: enum(pending, shipped, lost), default pending
      total: decimal(2), default 0
      note: string(8), optional 50%
      tags: set(string(4), avg 1)
      buyer: string(8), optional 50%, from user.name
  Item:
    key: [order, line]
    fields:
      order: Order, as items, max 5
      line: int
      product: Product, as sold
      price: decimal(2), from product.price
      qty: int, default 1
  Extra:
    key: [item, number]
    fields:
      item: Item, as extras, max 3
      number: int
      text: string(4), optional 50%
  Product:
    fields:
      sku: string(4), key
      price: decimal(2), optional 90%
      stock: int, default 0
      hits: int, optional 50%
      best: max(sold.qty)
patterns:
  user: { find: User, where: "uid = :uid" }
  by_email: { find: User, where: "email = :email" }
  by_phone: { find: User, where: "phone = :phone" }
  by_number: { find: User, where: "country = :country and number = :number" }
  order: { find: Order, where: "oid = :oid", with: [user.name, items, items.product.stock] }
  extras: { find: Extra, where: "item.order = :oid", order: number }
  by_status: { find: Order, where: "status = :status", order: total desc, select: [oid, total, user.name] }
  tagged: { find: Order, where: "contains(tags, :tag)", select: [oid] }
  counts: { count: Order, group: [status] }
  product: { find: Product, where: "sku = :sku" }
  products: { find: Product, order: stock desc, page: 3 }
writes:
  join: { create: User }
  put_user: { upsert: User }
  rename: { update: User, set: [name], where: "uid = :uid" }
  rename_back: { update: User, set: [name], where: "uid = :uid", return: [name, level] }
  contact: { update: User, set: [email, phone], where: "uid = :uid" }
  locate: { update: User, set: [country, number], where: "uid = :uid" }
  touch: { update: User, set: { seen: now, level: ":n" }, where: "uid = :uid", return: [seen] }
  leave: { delete: User, where: "uid = :uid", return: [name] }
  order_now: { create: Order, with: [items] }
  order_deep: { create: Order, with: [items, items.extras] }
  order_back: { create: Order, return: [oid, status, buyer] }
  put_order: { upsert: Order }
  put_item: { upsert: Item }
  ship: { update: Order, set: { status: shipped }, where: "oid = :oid", if: "status = 'pending'" }
  flip: { update: Order, set: [status, tags], where: "oid = :oid" }
  annotate: { update: Order, set: [note], where: "oid = :oid", if: missing(note) }
  clear: { update: Order, set: { note: null, buyer: null }, where: "oid = :oid" }
  ship_all: { update: Order, set: { status: shipped }, where: "status = 'pending'", rows: 3 }
  lose_of: { delete: Order, where: "user = :uid and status = :status", rows: 2 }
  give: { update: Order, set: [user], where: "oid = :oid" }
  cancel: { delete: Order, with: [items], where: "oid = :oid" }
  cancel_deep: { delete: Order, with: [items, items.extras], where: "oid = :oid" }
  cancel_alone: { delete: Order, where: "oid = :oid" }
  cancel_if: { delete: Order, where: "oid = :oid", if: "status = :status and total < 5" }
  stock_up: { create: Product }
  take: { update: Product, add: { stock: "-:n" }, where: "sku = :sku", if: "stock >= :n", return: [stock] }
  put_back: { update: Product, add: [stock], where: "sku = :sku" }
  hit: { update: Product, add: { hits: 1 }, set: [price], where: "sku = :sku", return: [hits, price] }
  bump: { upsert: Product, add: { stock: ":n", hits: 1 }, where: "sku = :sku", return: [stock, hits] }
  mark: { upsert: Product, set: { price: 5 }, where: "sku = :sku" }
  set_qty: { update: Item, set: [qty], where: "order = :oid and line = :line" }
"""


@pytest.fixture
def shop(both: Both) -> Pair:
    return both(MODEL, [("Product", {"sku": "p", "price": "2.50", "stock": 5}), ("Product", {"sku": "q"})])


def user(pair: Pair, email: str = "a@x", **more: Any) -> Any:
    return pair.same("join", email=email, name=email[:1], **more)["uid"]


def order(pair: Pair, **more: Any) -> Any:
    return pair.same("order_now", user=more.pop("user", None) or user(pair), **more)["oid"]


def test_a_generated_key_is_returned_with_what_was_filled_in(shop: Pair) -> None:
    made = shop.same("join", email="a@x", name="a")
    assert set(made) == {"uid", "made", "day", "level"}
    assert (made["made"], made["level"]) == (NOON, 3)
    assert shop.same("user", uid=made["uid"])["email"] == "a@x"


def test_a_given_value_is_taken_instead_of_a_default(shop: Pair) -> None:
    early = NOON - timedelta(days=9)
    uid = user(shop, made=early, level=7)
    assert shop.same("user", uid=uid)["made"] == early
    assert shop.same("user", uid=uid)["level"] == 7


def test_the_key_of_a_create_must_be_new(shop: Pair) -> None:
    uid = user(shop)
    shop.conflict("join", uid=uid, email="b@x", name="b")
    assert shop.same("by_email", email="b@x") is None
    shop.conflict("stock_up", sku="p")
    assert shop.same("product", sku="p")["stock"] == 5


def test_a_key_in_a_message_is_one_line_that_no_terminal_obeys(shop: Pair) -> None:
    shop.same("stock_up", sku="a\nb\x1b[31m")
    for stock_up in (shop.store.stock_up, partial(shop.database.call, "stock_up")):
        with pytest.raises(ConflictError) as caught:
            stock_up(sku="a\nb\x1b[31m")
        assert str(caught.value) == "stock_up: Product 'a\\nb\\x1b[31m' exists already; give another key"


def test_unique_binds_rows_that_have_it(shop: Pair) -> None:
    uid = user(shop, phone="1")
    other = user(shop, "b@x")
    user(shop, "c@x")
    shop.conflict("join", email="a@x", name="z")
    shop.conflict("contact", uid=other, email="b@x", phone="1")
    shop.conflict("put_user", uid=other, email="a@x", name="z")
    assert shop.same("by_phone", phone="1")["uid"] == uid
    assert shop.same("user", uid=other)["email"] == "b@x"


def test_unique_is_released_on_change_and_delete(shop: Pair) -> None:
    uid = user(shop, phone="1")
    shop.same("contact", uid=uid, email="new", phone=None)
    other = user(shop, "a@x", phone="1")
    shop.same("leave", uid=other)
    third = user(shop, "a@x", phone="1")
    assert shop.same("by_email", email="a@x")["uid"] == third
    shop.same("put_user", uid=third, email="z", name="z")
    user(shop, "a@x", phone="1")


def test_a_row_may_keep_its_own_unique_value(shop: Pair) -> None:
    uid = user(shop, phone="1")
    shop.same("contact", uid=uid, email="a@x", phone="1")
    shop.same("put_user", uid=uid, email="a@x", name="b", phone="1")
    assert shop.same("by_phone", phone="1")["name"] == "b"


def test_unique_together(shop: Pair) -> None:
    uid = user(shop, country="de", number=1)
    user(shop, "b@x", country="de", number=2)
    user(shop, "c@x", country="de")
    user(shop, "d@x", country="de")
    third = user(shop, "e@x", country="fr", number=1)
    shop.conflict("locate", uid=third, country="de", number=1)
    shop.same("locate", uid=uid, country="de", number=None)
    shop.same("locate", uid=third, country="de", number=1)
    assert shop.same("by_number", country="de", number=1)["uid"] == third


def test_an_upsert_replaces_the_whole_row(shop: Pair) -> None:
    uid = user(shop, phone="1", level=9, born="1999")
    shop.clock.advance(seconds=5)
    shop.same("put_user", uid=uid, email="n@x", name="n", born="1999")
    row = shop.same("user", uid=uid)
    assert (row["phone"], row["level"], row["made"]) == (None, 3, NOON + timedelta(seconds=5))
    assert shop.same("by_email", email="a@x") is None


def test_update_sets_arguments_and_none_clears_an_optional(shop: Pair) -> None:
    uid = user(shop, phone="1")
    shop.same("rename", uid=uid, name="Zoe")
    shop.same("contact", uid=uid, email="a@x", phone=None)
    assert shop.same("user", uid=uid)["phone"] is None
    assert "None" in shop.refused("rename", uid=uid, name=None)
    assert "missing" in shop.refused("contact", uid=uid, email="x")


def test_set_takes_now_parameters_and_null(shop: Pair) -> None:
    uid = user(shop)
    shop.clock.advance(minutes=1)
    assert shop.same("touch", uid=uid, n=4) == {"seen": NOON + timedelta(minutes=1)}
    oid = order(shop, user=uid, note="x")
    shop.same("clear", oid=oid)
    assert shop.same("order", oid=oid)["note"] is None


def test_update_of_a_missing_row_does_nothing(shop: Pair) -> None:
    uid = user(shop)
    shop.same("leave", uid=uid)
    shop.same("rename", uid=uid, name="x")
    assert shop.same("rename_back", uid=uid, name="x") is None
    assert shop.same("leave", uid=uid) is None
    shop.same("put_back", sku="none", stock=5)
    assert shop.same("product", sku="none") is None


def test_return_gives_values_after_the_write(shop: Pair) -> None:
    uid = user(shop)
    assert shop.same("rename_back", uid=uid, name="Zoe") == {"name": "Zoe", "level": 3}
    made = shop.same("order_back", user=uid)
    assert (made["status"], made["buyer"]) == ("pending", "Zoe")


def test_return_of_a_delete_gives_values_before_it(shop: Pair) -> None:
    assert shop.same("leave", uid=user(shop)) == {"name": "a"}


def test_add_counts_missing_as_zero(shop: Pair) -> None:
    assert shop.same("hit", sku="q", price=None) == {"hits": 1, "price": None}
    assert shop.same("hit", sku="q", price="1.5") == {"hits": 2, "price": Decimal("1.50")}


def test_if_holds_before_the_write(shop: Pair) -> None:
    assert shop.same("take", sku="p", n=5) == {"stock": 0}
    shop.conflict("take", sku="p", n=1)
    assert shop.same("product", sku="p")["stock"] == 0
    oid = order(shop)
    shop.same("ship", oid=oid)
    shop.conflict("ship", oid=oid)


def test_if_on_no_row_is_a_conflict(shop: Pair) -> None:
    shop.conflict("take", sku="none", n=1)
    shop.conflict("cancel_if", oid="01ARZ3NDEKTSV4RRFFQ69G5FAV", status="pending")


def test_if_with_missing(shop: Pair) -> None:
    oid = order(shop)
    shop.same("annotate", oid=oid, note="x")
    shop.conflict("annotate", oid=oid, note="y")
    assert shop.same("order", oid=oid)["note"] == "x"


def test_if_on_delete(shop: Pair) -> None:
    oid = order(shop, total=5)
    shop.conflict("cancel_if", oid=oid, status="pending")
    cheap = shop.same("order_now", user=shop.same("by_email", email="a@x")["uid"], total=4)["oid"]
    shop.conflict("cancel_if", oid=cheap, status="lost")
    shop.same("cancel_if", oid=cheap, status="pending")
    assert shop.same("order", oid=cheap) is None


def test_a_changing_upsert_creates_from_defaults_then_changes(shop: Pair) -> None:
    assert shop.same("bump", sku="new", n=4) == {"stock": 4, "hits": 1}
    assert shop.same("bump", sku="new", n=-1) == {"stock": 3, "hits": 2}
    assert shop.same("bump", sku="p", n=1) == {"stock": 6, "hits": 1}
    shop.same("mark", sku="m")
    assert shop.same("product", sku="m")["price"] == 5
    assert [row["sku"] for row in shop.same("products")] == ["p", "new", "q", "m"]


def test_children_are_created_in_the_same_write(shop: Pair) -> None:
    items = [{"line": 2, "product": "p"}, {"line": 1, "product": "q", "price": 9}]
    made = shop.same("order_now", user=user(shop), items=items)
    assert [child["line"] for child in made["items"]] == [2, 1]
    found = shop.same("order", oid=made["oid"])["items"]
    assert [(child["line"], child["price"]) for child in found] == [(1, 9), (2, Decimal("2.50"))]


def test_children_of_children(shop: Pair) -> None:
    items = [{"line": 1, "product": "p", "extras": [{"number": 2}, {"number": 1, "text": "x"}]}]
    made = shop.same("order_deep", user=user(shop), items=items)
    assert [row["number"] for row in shop.same("extras", oid=made["oid"])] == [1, 2]


def test_a_refused_child_refuses_the_whole_write(shop: Pair) -> None:
    uid = user(shop)
    shop.refused("order_now", user=uid, items=[{"line": 1, "product": "p"}, {"line": 1, "product": "p"}])
    shop.refused("order_now", user=uid, items=[{"line": 1, "product": "p"}, {"line": 2, "product": "q"}])
    shop.refused("order_now", user=uid, items=[{"line": number, "product": "p"} for number in range(6)])
    shop.refused("order_now", user=uid, items=[{"line": 1, "product": "p", "order": "x"}])
    assert shop.same("counts") == []


def test_a_snapshot_is_filled_at_create_and_never_followed(shop: Pair) -> None:
    oid = order(shop, items=[{"line": 1, "product": "p"}])
    shop.same("hit", sku="p", price=99)
    shop.same("rename", uid=shop.same("by_email", email="a@x")["uid"], name="new")
    found = shop.same("order", oid=oid)
    assert (found["items"][0]["price"], found["buyer"], found["user"]["name"]) == (Decimal("2.50"), "a", "new")
    shop.same("put_item", order=oid, line=1, product="p")
    assert shop.same("order", oid=oid)["items"][0]["price"] == 99


def test_a_snapshot_of_nothing(shop: Pair) -> None:
    oid = shop.same("order_now", user="00000000-0000-0000-0000-000000000001")["oid"]
    assert shop.same("order", oid=oid)["buyer"] is None
    assert "nothing to copy" in shop.refused("put_item", order=oid, line=1, product="gone")


def test_delete_cascades_over_the_named_roles_only(shop: Pair) -> None:
    items = [{"line": 1, "product": "p", "extras": [{"number": 1}]}]
    uid = user(shop)
    one, two, three = (shop.same("order_deep", user=uid, items=items)["oid"] for _ in range(3))
    shop.same("cancel_alone", oid=one)
    shop.same("cancel", oid=two)
    shop.same("cancel_deep", oid=three)
    assert [len(shop.same("extras", oid=oid)) for oid in (one, two, three)] == [1, 1, 0]
    shop.same("put_order", oid=one, user=uid)
    shop.same("put_order", oid=two, user=uid)
    assert [len(shop.same("order", oid=oid)["items"]) for oid in (one, two)] == [1, 0]


def test_a_change_moves_a_row_in_every_view(shop: Pair) -> None:
    oid = order(shop, total=3, tags=["a", "b"])
    shop.same("flip", oid=oid, status="lost", tags=["b", "c"])
    assert shop.same("by_status", status="pending") == []
    assert len(shop.same("by_status", status="lost")) == 1
    assert [len(shop.same("tagged", tag=tag)) for tag in "abc"] == [0, 1, 1]
    assert shop.same("counts") == [{"status": "lost", "count": 1}]


def test_computed_fields_follow_every_write(shop: Pair) -> None:
    one, two = user(shop), user(shop, "b@x")
    oid = shop.same("order_now", user=one, total=7)["oid"]
    shop.same("order_now", user=one, total=1)
    shop.same("give", oid=oid, user=two)
    assert [shop.same("user", uid=uid)["spent"] for uid in (one, two)] == [1, 7]
    shop.same("put_order", oid=oid, user=two, total=2)
    assert shop.same("user", uid=two)["spent"] == 2
    shop.same("cancel_alone", oid=oid)
    assert shop.same("user", uid=two)["orders_made"] == 0


def test_the_greatest_follows_changes_and_deletes(shop: Pair) -> None:
    oid = order(shop, items=[{"line": 1, "product": "p", "qty": 9}, {"line": 2, "product": "p", "qty": 4}])
    assert shop.same("product", sku="p")["best"] == 9
    shop.same("set_qty", oid=oid, line=1, qty=2)
    assert shop.same("product", sku="p")["best"] == 4
    shop.same("cancel", oid=oid)
    assert shop.same("product", sku="p")["best"] is None


def test_copies_follow_their_source(shop: Pair) -> None:
    uid = user(shop)
    shop.same("order_now", user=uid, total=1)
    shop.same("rename", uid=uid, name="Zoe")
    assert shop.same("by_status", status="pending")[0]["user"] == {"name": "Zoe"}
    shop.same("leave", uid=uid)
    assert shop.same("by_status", status="pending")[0]["user"] == {"name": None}
    shop.same("join", uid=uid, email="z", name="back")
    assert shop.same("by_status", status="pending")[0]["user"] == {"name": "back"}


def test_wide_update_and_delete_return_how_many(shop: Pair) -> None:
    uid = user(shop)
    for total in range(5):
        shop.same("order_now", user=uid, total=total, status="lost" if total > 2 else "pending")
    assert shop.same("ship_all") == 3
    assert shop.same("ship_all") == 0
    assert shop.same("lose_of", uid=uid, status="lost") == 2
    assert shop.same("counts") == [{"status": "shipped", "count": 3}]


def test_load_means_upsert(shop: Pair) -> None:
    uid = user(shop, phone="1")
    shop.load([("User", {"uid": uid, "email": "l@x", "name": "l"}), ("User", {"email": "a@x", "name": "m"})])
    assert shop.same("user", uid=uid)["phone"] is None
    assert shop.same("by_email", email="a@x")["name"] == "m"


def test_the_last_of_several_loaded_rows_with_one_key_counts(shop: Pair) -> None:
    shop.load([("Product", {"sku": "p", "stock": 1}), ("Product", {"sku": "z"}), ("Product", {"sku": "p", "stock": 2})])
    assert shop.same("product", sku="p")["stock"] == 2


def test_there_is_one_reading_of_the_clock_per_call(shop: Pair) -> None:
    times: list[Any] = []
    clock = shop.clock

    def reading() -> Any:
        times.append(clock.now)
        return clock.now

    shop.store._core.clock = reading
    shop.store.join(email="t@x", name="t")
    shop.store.order_now(user="00000000-0000-0000-0000-000000000001", items=[{"line": 1, "product": "p"}])
    assert len(times) == 2
    shop.store._core.clock = clock


CHAINS = """
entities:
  User:
    fields:
      id: int, key
      tier: string(5), default gold
      boss: User, optional
      boss_tier: string(5), from boss.tier, optional
  Order:
    fields: { id: "int, key", user: "User, as orders" }
  Item:
    key: [order, line]
    fields:
      order: Order, as items, max 9
      line: int
      tier: string(5), from order.user.tier, optional
      amount: int, default 0
patterns:
  order: { find: Order, where: "id = :id", with: [items] }
  user: { find: User, where: "id = :id" }
writes:
  place: { create: Order, with: [items] }
  give: { update: Order, set: [user], where: "id = :id" }
  add: { create: Item }
  put: { upsert: User }
  rename: { update: User, set: [tier], where: "id = :id" }
  touch: { upsert: Item, add: [amount], where: "order = :order and line = :line", return: [tier, amount] }
transactions:
  renamed: [rename, touch x1 max 2]
  both: [give, add x2 max 3]
  whole: [put, place]
"""


def test_a_snapshot_through_a_row_of_the_same_write(both: Both) -> None:
    pair = both(CHAINS, [("User", {"id": 1}), ("User", {"id": 2, "tier": "lead"})])
    pair.same("place", id=1, user=1, items=[{"line": 1}, {"line": 2, "tier": "own"}])
    assert [item["tier"] for item in pair.same("order", id=1)["items"]] == ["gold", "own"]
    pair.same("both", give={"id": 1, "user": 2}, add=[{"order": 1, "line": 8}, {"order": 1, "line": 9}])
    assert [item["tier"] for item in pair.same("order", id=1)["items"]] == ["gold", "own", "lead", "lead"]
    pair.same("both", give={"id": 1, "user": 7}, add=[{"order": 1, "line": 5}])
    pair.same("whole", put={"id": 3, "tier": "new", "boss": 3}, place={"id": 2, "user": 3, "items": [{"line": 1}]})
    assert pair.same("order", id=2)["items"][0]["tier"] == "new"
    touched = [{"order": 2, "line": 1, "amount": 1}, {"order": 2, "line": 2, "amount": 1}]
    answer = pair.same("renamed", rename={"id": 3, "tier": "top"}, touch=touched)
    assert [one["tier"] for one in answer["touch"]] == ["new", "top"]
    pair.same("order", id=2)
    pair.same("order", id=1)


def test_a_row_that_is_replaced_is_nothing_to_copy_from(both: Both) -> None:
    pair = both(CHAINS, [("User", {"id": 1, "tier": "old", "boss": 1})])
    assert pair.same("user", id=1)["boss_tier"] is None
    assert pair.same("put", id=1, boss=1) == {"id": 1, "tier": "gold", "boss_tier": None}
    pair.load([("User", {"id": 1, "tier": "new", "boss": 1}), ("User", {"id": 2, "boss": 1}), ("User", {"id": 1})])
    pair.same("user", id=1)
    assert pair.same("user", id=2)["boss_tier"] == "new"


COUNTERS = """
entities:
  Plain: { fields: { id: "string(4), key", n: "int, default 0", m: int, label: "string(4), default 'a'" } }
  Sparse:
    fields:
      id: string(4), key
      n: int, optional 50%
      d: decimal(2), optional 50%
      by: string(4), optional 50%
  Rich:
    key: [page, day]
    ttl: 2d
    fields:
      page: string(4)
      day: date
      hits: int, default 100
      paid: decimal(2), default 0.5
      made: timestamp, now
      seen: timestamp, optional 50%
      tags: set(string(4), avg 1)
      note: string(8), optional 10%
  Indexed: { fields: { id: "string(4), key", n: int, day: date } }
patterns:
  plain: { find: Plain, where: "id = :id" }
  sparse: { find: Sparse, where: "id = :id" }
  rich: { find: Rich, where: "page = :page and day = :day" }
  riches: { find: Rich, where: "page = :page", order: day desc, page: 3 }
  of_day: { find: Indexed, where: "day = :day", order: id, page: 3 }
writes:
  hit: { upsert: Plain, add: { n: ":n", m: 1 }, return: [n, m, label] }
  label: { upsert: Plain, set: [label], add: { m: ":m" } }
  more: { upsert: Sparse, add: [n, d], return: [n, d, by] }
  by: { upsert: Sparse, set: [by] }
  clear: { update: Sparse, set: { n: null, d: null }, where: "id = :id" }
  view:
    upsert: Rich
    set: { seen: now }
    add: [hits, paid]
    return: [hits, paid, made, seen, tags]
  tag: { upsert: Rich, set: [tags, note] }
  drop: { delete: Rich, where: "page = :page and day = :day" }
  move: { upsert: Indexed, set: [day], add: [n] }
transactions:
  both: [hit, more]
"""


def test_an_upsert_that_the_engine_does_by_itself_means_the_same(both: Both) -> None:
    pair = both(COUNTERS, [("Sparse", {"id": "b", "by": "x"}), ("Plain", {"id": "b", "m": 2**63 - 2, "label": "z"})])
    days = date(2052, 5, 1), date(2052, 5, 2)
    for ident in "abab":
        pair.same("more", id=ident, n=3, d="1.10")
        pair.same("by", id=ident, by=ident)
        pair.same("label", id=ident + "2", label="q", m=5)
        pair.same("both", hit={"id": "c", "n": 1}, more={"id": ident + "3", "n": 1, "d": 0})
        pair.same("clear", id="b")
        pair.same("move", id=ident, n=1, day=days["ab".index(ident)])
        for day in days:
            pair.same("view", page=ident, day=day, hits=1, paid="0.25")
            pair.same("tag", page=ident, day=day, tags=[ident], note=None)
        pair.clock.advance(hours=20)
    pair.same("hit", id="b", n=1)
    for n in (2**63 - 1, -(2**63)):
        with pytest.raises(RangeError):
            pair.same("hit", id="b", n=n)
    with pytest.raises(RangeError):
        pair.same("view", page="a", day=days[0], hits=2**63 - 1, paid=0)
    with pytest.raises(RangeError):
        pair.same("view", page="z", day=days[0], hits=2**63 - 50, paid=0)
    pair.same("drop", page="a", day=days[0])
    pair.same("view", page="a", day=days[0], hits=-(2**63), paid="-0.5")
    for ident in ("a", "b", "c", "a2", "b3", "z"):
        pair.same("plain", id=ident)
        pair.same("sparse", id=ident)
    for page in "abz":
        pair.same("riches", page=page)
        pair.same("rich", page=page, day=days[0])
    pair.agrees([("of_day", {"day": day}) for day in days])
    pair.clock.advance(days=3)
    pair.same("view", page="b", day=days[0], hits=7, paid=1)
    pair.same("riches", page="b")


def test_upserts_are_left_to_the_engine(both: Both, size: str) -> None:
    """Otherwise the test above would say little."""
    pair = both(COUNTERS)
    design = pair.store.design
    if size != "packed":
        assert {"hit", "more", "view"} <= find_places(pair.model, design, get_engine(design.engine).kinds).made


OWN = """
entities:
  Node:
    fields: { k: "int, key", v: int, up: "Node, optional 50%", seen: "int, from up.v" }
patterns:
  node: { find: Node, where: "k = :k" }
writes:
  make: { create: Node }
  put: { upsert: Node }
"""


def test_a_row_that_copies_from_itself(both: Both) -> None:
    """One that is there is in the way of another, and no other; one that is replaced is nothing to copy from."""
    pair = both(OWN, [("Node", {"k": 1, "v": 5, "seen": 7, "up": 1})])
    pair.conflict("make", k=1, v=6, up=1)
    assert "'seen' has nothing to copy" in pair.refused("put", k=1, v=6, up=1)
    assert "'seen' has nothing to copy" in pair.refused("make", k=2, v=6, up=2)
    pair.same("node", k=1)
    pair.same("make", k=2, v=6, up=1)
    pair.same("node", k=2)
