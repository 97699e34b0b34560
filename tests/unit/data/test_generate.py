"""Generated rows: valid for their model, unique where they must be, and with the statistics it states.

How fast they are made is measured by `python -m tests.bench.bench_data`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tracemalloc
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from keyplan.data import Dataset, generate
from keyplan.data.dataset import NOW
from keyplan.data.rows import composite
from keyplan.errors import ArgumentError
from keyplan.model.entity import EXPIRES
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.values import average_bytes, canonical, compact_json, words

SHOP = """
keyplan: 1
name: shop
entities:
  User:
    count: 2k
    fields:
      user_id: uuid, key
      email: string(32), unique
      name: string(20)
      phone: string(12), optional 60%
      vip: bool(true 10%)
      created_at: timestamp, now
      tags: set(string(8), avg 3, max 6), distinct 30
      scores: list(int, avg 2)
  Order:
    count: 8k
    fields:
      order_id: ulid, key
      user: User, as orders
      status: enum(pending 3%, shipped 7%, delivered 88%, cancelled 2%), default pending
      total: decimal(2)
      weight: float
      day: date
      created_at: timestamp, now
  Item:
    count: 24k
    key: [order, line]
    fields:
      order: Order, as items, max 9
      line: int
      product: Product, skew zipf 1.1
      buyer: User, from order.user
      quantity: int
      price: decimal(2), from product.price
  Product:
    count: 500
    fields:
      sku: string(12), key
      name: text(60)
      category: string(12), distinct 40
      maker: string(10), distinct 20, top 30%
      price: decimal(2)
      extra: json(100)
      picture: bytes(50)
"""

ODD = """
keyplan: 1
name: odd
entities:
  Warehouse: { count: 3, fields: { w: "int, key" } }
  District: { count: 12, key: [warehouse, d], fields: { warehouse: "Warehouse, as districts", d: int } }
  Customer: { count: 90, key: [district, c], fields: { district: "District, as customers", c: int, name: string(10) } }
  Sale:
    count: 300
    key: [customer.district, number]
    fields: { customer: "Customer, as sales, max 7", number: int, at: "timestamp, now" }
  SaleLine:
    count: 900
    key: [sale, line]
    fields: { sale: "Sale, as lines, max 15", line: int, who: "string(10), from sale.customer.name" }
  Follow:
    count: 700
    key: [follower, followee]
    fields: { follower: "Customer, as following, max 20", followee: "Customer, as followers" }
  Like: { count: 400, key: [sale, fan], fields: { sale: "Sale, as likes, skew zipf 1.2", fan: Customer } }
  Profile: { key: [customer], fields: { customer: Customer, bio: "text(200), optional 50%" } }
  Reading: { count: 600, key: [customer, at], fields: { customer: Customer, at: timestamp, value: float } }
  Daily: { count: 300, key: [customer, day], fields: { customer: Customer, day: date, n: int } }
  Flag: { count: 50, key: [customer, kind], fields: { customer: Customer, kind: "enum(a 50%, b 50%)" } }
  Switch: { key: [kind, on], fields: { kind: "enum(a 50%, b 30%, c 20%)", on: bool } }
  Seat: { count: 40, fields: { seat: "string(2), key", holder: "Customer, optional 50%, unique" } }
  Badge:
    count: 180
    unique: [[customer, kind], [kind, slot]]
    fields: { id: "uuid, key", customer: Customer, kind: "enum(x 60%, y 40%)", slot: int }
  Node: { count: 100, fields: { id: "int, key", up: "Node, as down, optional 90%", root: "Node, as all, max 3" } }
  Session:
    count: 500
    ttl: 30m since seen
    fields: { id: "uuid, key", seen: "timestamp, optional 90%", started: "timestamp, now" }
  Event: { count: 500, ttl: 2y, key: [customer, at], fields: { customer: Customer, at: "timestamp, now", x: bytes(4) } }
  Code: { count: 2000, fields: { code: "string(2, max 2), key", blob: "bytes(2), unique", big: "decimal(4), unique" } }
  Few: { fields: { id: "uuid, key", level: "enum(a 50%, b 50%), optional 90%, unique" } }
"""


def parsed(text: str) -> Model:
    return parse_model(text)


def collect(data: Dataset) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in data.entities}
    for name, row in data.all():
        found[name].append(row)
    return found


@pytest.fixture(scope="module", params=[SHOP, ODD], ids=["shop", "odd"])
def model(request: pytest.FixtureRequest) -> Model:
    return parsed(request.param)


@pytest.fixture(scope="module")
def data(model: Model) -> Dataset:
    return Dataset(model)


@pytest.fixture(scope="module")
def rows(data: Dataset) -> dict[str, list[dict[str, Any]]]:
    return collect(data)


@pytest.fixture(scope="module")
def shop() -> dict[str, list[dict[str, Any]]]:
    return collect(Dataset(parsed(SHOP)))


def test_every_value_is_canonical_and_every_stored_column_is_there(model: Model, rows: Any) -> None:
    for entity in model.entities.values():
        for row in rows[entity.name]:
            assert tuple(row) == entity.stored
            for name, value in row.items():
                column = entity.columns[name]
                if value is None:
                    assert column.optional, (entity.name, name)
                else:
                    same = canonical(column.type, value)
                    assert same == value
                    assert isinstance(value, frozenset) or repr(same) == repr(value)


def test_keys_and_unique_sets_are_unique(model: Model, rows: Any) -> None:
    for entity in model.entities.values():
        for columns in (entity.key, *entity.unique):
            values = [tuple(row[name] for name in columns) for row in rows[entity.name]]
            present = [value for value in values if None not in value]
            assert len(set(present)) == len(present), (entity.name, columns)


def test_references_lead_to_rows_and_maxima_hold(model: Model, rows: Any) -> None:
    keys = {
        entity.name: {tuple(row[name] for name in entity.key) for row in rows[entity.name]}
        for entity in model.entities.values()
    }
    for entity in model.entities.values():
        for role in entity.roles.values():
            if role.many:
                continue
            pointed = Counter(tuple(row[name] for name in role.columns) for row in rows[entity.name])
            pointed = Counter({key: count for key, count in pointed.items() if None not in key})
            assert pointed.keys() <= keys[role.entity], (entity.name, role.name)
            most = entity.fields[role.name].most
            if most is not None and pointed:
                assert max(pointed.values()) <= most, (entity.name, role.name)


def test_parents_come_before_children(model: Model, data: Dataset) -> None:
    for entity in model.entities.values():
        for role in entity.roles.values():
            if not role.many and role.entity != entity.name:
                assert data.entities.index(role.entity) < data.entities.index(entity.name)


def test_single_rows_equal_streamed_ones(data: Dataset, rows: Any) -> None:
    for name, streamed in rows.items():
        for number in {0, len(streamed) // 2, len(streamed) - 1}:
            assert data.row(name, number) == streamed[number]
            key = data.key(name, number)
            assert key == tuple(streamed[number][part] for part in data.parts[name].entity.key)
        assert list(islice(data.rows(name, 5), 3)) == streamed[5:8]


def test_rows_as_arguments_have_composite_references_as_tuples(model: Model, rows: Any) -> None:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in rows}
    for name, row in generate(model, as_arguments=True):
        found[name].append(row)
    for entity in model.entities.values():
        several = composite(entity)
        for flat, nested in zip(rows[entity.name], found[entity.name], strict=True):
            parts = {EXPIRES, *(column for columns in several.values() for column in columns)}
            assert {name: value for name, value in nested.items() if name not in several} == {
                name: value for name, value in flat.items() if name not in parts
            }
            for field, columns in several.items():
                values = tuple(flat[column] for column in columns)
                assert nested[field] == (None if None in values else values)


def test_counts_follow_scale_and_override() -> None:
    model = parsed(SHOP)
    assert Dataset(model).counts == {"User": 2000, "Order": 8000, "Product": 500, "Item": 24000}
    assert Dataset(model, scale=0.1).counts == {"User": 200, "Order": 800, "Product": 50, "Item": 2400}
    assert set(Dataset(model, scale=1e-9).counts.values()) == {1}
    counts = Dataset(model, scale=0.1, counts={"User": 7, "Product": 0}).counts
    assert (counts["User"], counts["Product"], counts["Order"]) == (7, 0, 800)
    assert len(list(generate(model, scale=0.01))) == 20 + 80 + 5 + 240


def test_references_to_an_empty_entity_dangle_or_are_missing() -> None:
    model = parsed(ODD)
    found = collect(Dataset(model, counts={"Customer": 0, "Sale": 0}))
    assert found["Customer"] == found["Sale"] == []
    assert all(row["holder.c"] is None for row in found["Seat"])
    assert all(row["who"] for row in found["SaleLine"])


def test_rows_beyond_what_fits_are_not_made() -> None:
    counts = Dataset(parsed(ODD)).counts
    assert counts["Profile"] == counts["Customer"] == 90
    assert counts["Switch"] == 6
    assert counts["Code"] == 32 * 32
    assert counts["Few"] == 1000


def test_bad_arguments_are_named() -> None:
    model = parsed(SHOP)
    with pytest.raises(ArgumentError, match="no entity 'Usr'; did you mean 'User'"):
        generate(model, counts={"Usr": 3})
    with pytest.raises(ArgumentError, match="cannot have -1 rows"):
        generate(model, counts={"User": -1})
    for scale in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="scale"):
            generate(model, scale=scale)
    with pytest.raises(ValueError, match="naive"):
        generate(model, now=datetime(2025, 1, 1))


def digest(text: str, seed: int) -> str:
    sha = hashlib.sha256()
    for name, row in generate(parsed(text), scale=0.2, seed=seed):
        for column, value in row.items():
            shown = sorted(value) if isinstance(value, frozenset) else value
            sha.update(f"{name}.{column}={shown!r}\n".encode())
    return sha.hexdigest()[:16]


@pytest.mark.thorough
def test_the_same_rows_in_another_process() -> None:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
    code += "import test_generate as t; print(t.digest(t.SHOP, 3), t.digest(t.ODD, 3))"
    seen = set()
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        seen.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        )
    assert seen == {f"{digest(SHOP, 3)} {digest(ODD, 3)}\n"}
    assert digest(SHOP, 4) != digest(SHOP, 3)


def test_order_lines_count_from_one(shop: Any) -> None:
    lines = defaultdict(list)
    for row in shop["Item"]:
        lines[row["order"]].append(row["line"])
    assert all(found == list(range(1, len(found) + 1)) for found in lines.values())
    sizes = Counter(len(found) for found in lines.values())
    assert len(sizes) >= 4
    assert sum(size * count for size, count in sizes.items()) == 24000


def test_snapshots_equal_their_source(shop: Any) -> None:
    prices = {row["sku"]: row["price"] for row in shop["Product"]}
    users = {row["order_id"]: row["user"] for row in shop["Order"]}
    for row in shop["Item"]:
        assert row["price"] == prices[row["product"]]
        assert row["buyer"] == users[row["order"]]


def test_snapshots_along_composite_references() -> None:
    data = Dataset(parsed(ODD))
    found = collect(data)
    names = {(row["district.warehouse"], row["district.d"], row["c"]): row["name"] for row in found["Customer"]}
    sales = {
        tuple(row[part] for part in data.parts["Sale"].entity.key): tuple(
            row[f"customer.{part}"] for part in ("district.warehouse", "district.d", "c")
        )
        for row in found["Sale"]
    }
    sale_columns = data.parts["SaleLine"].entity.roles["sale"].columns
    for row in found["SaleLine"]:
        assert row["who"] == names[sales[tuple(row[name] for name in sale_columns)]]


def test_shares(shop: Any) -> None:
    users, orders = shop["User"], shop["Order"]
    assert sum(row["phone"] is not None for row in users) / len(users) == pytest.approx(0.6, abs=0.04)
    assert sum(row["vip"] for row in users) / len(users) == pytest.approx(0.1, abs=0.03)
    status = Counter(row["status"] for row in orders)
    for name, share in {"pending": 0.03, "shipped": 0.07, "delivered": 0.88, "cancelled": 0.02}.items():
        assert status[name] / len(orders) == pytest.approx(share, abs=0.015)


def test_distinct_and_skew(shop: Any) -> None:
    products = shop["Product"]
    assert len({row["category"] for row in products}) == 40
    makers = Counter(row["maker"] for row in products).most_common()
    assert makers[0][1] / len(products) == pytest.approx(0.3, abs=0.06)
    assert len(makers) <= 20
    bought = [count for _, count in Counter(row["product"] for row in shop["Item"]).most_common()]
    harmonic = sum(rank**-1.1 for rank in range(1, 501))
    assert bought[0] / 24000 == pytest.approx(1 / harmonic, rel=0.1)
    assert bought[9] / 24000 == pytest.approx(10**-1.1 / harmonic, rel=0.2)
    assert len({tag for row in shop["User"] for tag in row["tags"]}) == 30


ROOMS = """
keyplan: 1
name: rooms
entities:
  Room: { count: 2k, fields: { room_id: "uuid, key" } }
  Member:
    count: 12k
    key: [room, user]
    fields: { room: "Room, as members, max 200", user: "string(12), distinct 1k" }
  Seat:
    count: 12k
    key: [room, row, seat]
    fields: { room: "Room, as seats, max 200", row: "int, distinct 40", seat: "int, distinct 50" }
  Visit:
    count: 12k
    key: [room, visitor]
    fields: { room: "Room, as visits", visitor: "string(12), distinct 12k" }
patterns:
  room: { find: Room, where: "room_id = :room_id", rate: 1/s }
"""


def test_values_beside_a_reference_in_a_key_are_as_many_as_stated() -> None:
    """Each parent has others of them, so that as many rows share a value as the design takes for granted."""
    found = collect(Dataset(parsed(ROOMS)))
    users = Counter(row["user"] for row in found["Member"])
    assert len(users) > 950
    assert users.most_common(1)[0][1] < 12 * 4
    assert len({(row["room"], row["user"]) for row in found["Member"]}) == len(found["Member"]) == 12000
    rows = Counter(row["row"] for row in found["Seat"])
    assert len(rows) == 40
    assert max(rows.values()) < 3 * min(rows.values())
    assert len({(row["room"], row["row"], row["seat"]) for row in found["Seat"]}) == len(found["Seat"]) == 12000
    assert len({row["visitor"] for row in found["Visit"]}) == 12000


def test_sizes(shop: Any) -> None:
    model = parsed(SHOP)
    for entity, name in [("User", "email"), ("User", "name"), ("User", "phone"), ("Product", "name")]:
        found = [len(row[name].encode()) for row in shop[entity] if row[name] is not None]
        assert sum(found) / len(found) == pytest.approx(
            average_bytes(model.entities[entity].columns[name].type), rel=0.15
        )
        assert max(found) > min(found) + 3
    pictures = [len(row["picture"]) for row in shop["Product"]]
    assert sum(pictures) / len(pictures) == pytest.approx(50, rel=0.1)
    extras = [len(compact_json(row["extra"])) for row in shop["Product"]]
    assert sum(extras) / len(extras) == pytest.approx(100, rel=0.15)
    tags = [len(row["tags"]) for row in shop["User"]]
    assert sum(tags) / len(tags) == pytest.approx(3, abs=0.2)
    assert max(tags) == 6
    scores = [len(row["scores"]) for row in shop["User"]]
    assert sum(scores) / len(scores) == pytest.approx(2, abs=0.15)


def test_texts_can_be_searched(shop: Any) -> None:
    found = Counter(word for row in shop["Product"] for word in words(row["name"]))
    assert found.most_common(1)[0][1] > 20
    assert sum(row["name"].startswith("s") for row in shop["User"]) > 20


def test_times_lie_in_the_last_ninety_days(shop: Any) -> None:
    for entity in ("User", "Order"):
        times = [row["created_at"] for row in shop[entity]]
        assert times == sorted(times)
        assert min(times) >= NOW - timedelta(days=90)
        assert max(times) <= NOW
        assert min(times) < NOW - timedelta(days=89)
        assert max(times) > NOW - timedelta(days=1)
    days = {row["day"] for row in shop["Order"]}
    assert len(days) == 90
    assert max(days) <= NOW.date()


def test_now_moves_the_times_and_nothing_else() -> None:
    model = parsed(SHOP)
    later = NOW + timedelta(days=10)
    for (_, first), (_, second) in zip(
        generate(model, scale=0.01), generate(model, scale=0.01, now=later), strict=True
    ):
        for name, value in first.items():
            if isinstance(value, datetime):
                assert second[name] == value + timedelta(days=10)
            elif name in ("status", "quantity", "sku", "email", "user_id"):
                assert second[name] == value


def test_rows_with_a_ttl_are_mostly_alive() -> None:
    found = collect(Dataset(parsed(ODD)))
    for row in found["Session"]:
        assert row[EXPIRES] == (None if row["seen"] is None else row["seen"] + timedelta(minutes=30))
    for row in found["Event"]:
        assert row[EXPIRES] == row["at"] + timedelta(days=730)
    for entity in ("Session", "Event"):
        alive = sum(row[EXPIRES] is None or row[EXPIRES] > NOW for row in found[entity])
        assert 0.9 < alive / len(found[entity]) < 1


def test_a_skewed_leading_reference_has_a_hottest_parent() -> None:
    found = collect(Dataset(parsed(ODD)))
    likes = Counter((row["sale.customer.district.warehouse"], row["sale.number"]) for row in found["Like"])
    hottest, second = (count for _, count in likes.most_common(2))
    assert hottest > 1.5 * second > 0
    assert hottest > 30


def test_self_references_form_a_tree() -> None:
    nodes = {row["id"]: row["up"] for row in collect(Dataset(parsed(ODD)))["Node"]}
    assert all(up is None or up < node for node, up in nodes.items())
    assert sum(up is not None for up in nodes.values()) > 75


def test_snapshots_in_a_circle_still_give_rows() -> None:
    circle = parsed(
        """
keyplan: 1
name: circle
entities:
  A: { count: 20, fields: { id: "int, key", b: B, x: "string(10), from b.y" } }
  B: { count: 20, fields: { id: "int, key", a: "A, optional 50%", y: "string(10), from a.x" } }
"""
    )
    found = collect(Dataset(circle))
    assert len(found["A"]) == len(found["B"]) == 20
    assert all(row["x"] for row in found["A"])


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_rows() -> None:
    """Nothing is kept per row: a stretch far into a very large entity costs what the first one cost."""
    data = Dataset(parsed(SHOP), scale=100_000)
    assert data.counts["Item"] == 2_400_000_000
    for _ in data.rows("Item", 0, 3000):
        pass
    tracemalloc.start()
    for _ in data.rows("Item", 1_500_000_000, 1_500_010_000):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    last = data.row("Item", 2_399_999_999)
    assert last["order"] == data.key("Order", data.counts["Order"] - 1)[0]


def test_dates_before_the_first_year_and_far_ttls_stay_valid() -> None:
    model = parsed(
        """
keyplan: 1
name: far
entities:
  Old: { count: 50, ttl: 9000y, fields: { id: "uuid, key", at: "timestamp, now", day: "date, unique" } }
"""
    )
    for _, row in generate(model, now=datetime(50, 1, 1, tzinfo=UTC)):
        assert row[EXPIRES] >= row["at"]


def test_rows_that_end_on_the_first_day_there_is_have_days() -> None:
    fields = '{ a: "int, key", some: date, few: "date, distinct 5", at: timestamp }'
    model = parse_model(f"keyplan: 1\nname: first\nentities: {{ A: {{ count: 9, fields: {fields} }} }}\n")
    rows = [row for _, row in generate(model, now=datetime(1, 1, 1, tzinfo=UTC))]
    assert {row["some"] for row in rows} == {date(1, 1, 1)}


@pytest.mark.parametrize("scale", ["x", 0, -1, float("nan"), None])
def test_a_scale_is_a_number_above_0(scale: Any) -> None:
    with pytest.raises(ArgumentError, match="scale: expected a number above 0, got "):
        next(iter(generate(parse_model(LITTLE), scale=scale)))


LITTLE = 'keyplan: 1\nname: little\nentities: { A: { count: 9, fields: { a: "int, key" } } }\n'
