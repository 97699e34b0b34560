"""What a model means after it was loaded: the shop of the language reference, and both forms of everything."""

from __future__ import annotations

import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import pytest

from keyplan.errors import ModelError
from keyplan.model.entity import Computed, Ttl
from keyplan.model.load import load_model, model_from, parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Ago, Condition, Group, Literal, Now, Order, Param, Path, Pattern, Select, Term
from keyplan.model.types import Type
from keyplan.model.write import Repeat, Write

SHOP = """
keyplan: 1
name: shop
entities:
  User:
    count: 2M
    fields:
      user_id: uuid, key
      email: string(32), unique
      name: string(20)
      created_at: timestamp, now
      order_count: count(orders)
  Order:
    count: 40M
    fields:
      order_id: ulid, key
      user: User, as orders
      status: enum(pending 3%, shipped 7%, delivered 88%, cancelled 2%), default pending
      total: decimal(2)
      created_at: timestamp, now
  Item:
    count: 120M
    key: [order, line]
    fields:
      order: Order, as items, max 50
      line: int
      product: Product
      quantity: int
      price: decimal(2), from product.price
  Product:
    count: 50k
    fields:
      sku: string(12), key
      name: string(40)
      category: string(12), distinct 40
      price: decimal(2)
      stock: int, default 0
patterns:
  user_by_id: { find: User, where: "user_id = :user_id", rate: 200k/day, p99: 10ms }
  user_by_email: { find: User, where: "email = :email", rate: low }
  orders_of_user:
    find: Order
    where: user = :user_id and created_at between :start and :end
    order: created_at desc
    page: 20
    rows: 12
    rate: 50k/day
    p99: 50ms
  order_page:
    find: Order
    where: order_id = :order_id
    with: [user.name, items, items.product.name]
    rate: 100k/day
  pending_orders: { find: Order, where: "status = 'pending'", order: created_at, limit: 100, rate: 10/s }
  orders_today: { count: Order, group: [status], where: day(created_at) = :day, stale: 1m, rate: 1/s }
  revenue:
    from: Item
    compute: { revenue: sum(quantity * price), lines: count() }
    group: { day: day(order.created_at), category: product.category }
    where: order.created_at >= ago('30d')
    order: revenue desc
    stale: 1h
    rate: 100/day
writes:
  place_order: { create: Order, with: [items], rate: 400k/day, peak: 10x }
  ship_order:  { update: Order, set: {status: shipped}, where: "order_id = :order_id", if: "status = 'pending'" }
  take_stock:  { update: Product, add: {stock: -:n}, where: "sku = :sku", if: "stock >= :n", rate: 1.2M/day }
  rename_user: { update: User, set: [name], where: "user_id = :user_id", rate: 100/day }
  drop_order:  { delete: Order, with: [items], where: "order_id = :order_id", rate: 1k/day }
transactions:
  checkout: [place_order, take_stock x3 max 15]
"""


@pytest.fixture(scope="module")
def shop() -> Model:
    return parse_model(SHOP, "shop.yaml")


def test_entities(shop: Model) -> None:
    user, order, item = shop.entities["User"], shop.entities["Order"], shop.entities["Item"]
    assert shop.name == "shop"
    assert shop.warnings == ("no rate for 'ship_order'; assumed low, which is 1/s",)
    assert user.count == 2e6
    assert user.unique == (("email",),)
    assert user.fields["order_count"].computed == Computed("count", "orders")
    assert user.fields["created_at"].now
    assert order.fields["status"].default == "pending"
    status = order.columns["status"].type
    assert status.values == (("pending", 0.03), ("shipped", 0.07), ("delivered", 0.88), ("cancelled", 0.02))
    assert item.key == ("order", "line")
    assert item.columns["order"].type == Type("ulid")
    assert (item.fields["price"].source, item.fields["order"].most) == ("product.price", 50)
    assert shop.entities["Product"].fields["stock"].default == 0
    assert shop.entities["Product"].fields["category"].distinct == 40


def test_finds(shop: Model) -> None:
    by_id, page = shop.patterns["user_by_id"], shop.patterns["orders_of_user"]
    assert (by_id.one, by_id.page, by_id.p99_ms) == (True, None, 10)
    assert by_id.traffic.rate == pytest.approx(200_000 / 86_400)
    assert shop.patterns["user_by_email"].one
    assert (page.one, page.page, page.limit, page.rows) == (False, 20, None, 12)
    assert page.where == (
        Condition(Path((), "user"), "=", (Param("user_id"),)),
        Condition(Path((), "created_at"), "between", (Param("start"), Param("end"))),
    )
    assert page.order == (Order(Path((), "created_at"), True),)
    assert page.params == {"user_id": Type("uuid"), "start": Type("timestamp"), "end": Type("timestamp")}
    pending = shop.patterns["pending_orders"]
    assert (pending.page, pending.limit) == (None, 100)
    assert pending.where[0].operands == (Literal("pending"),)


def test_with_is_a_tree(shop: Model) -> None:
    own = ("order_id", "user", "status", "total", "created_at")
    items = Select(("order", "line", "product", "quantity", "price"), {"product": Select(("name",))})
    assert shop.patterns["order_page"].select == Select(own, {"user": Select(("name",)), "items": items})
    assert "order_count" in shop.patterns["user_by_id"].select.columns


def test_aggregates(shop: Model) -> None:
    today, revenue = shop.patterns["orders_today"], shop.patterns["revenue"]
    assert (today.kind, today.scalar, today.stale_ms) == ("aggregate", False, 60_000)
    assert today.where[0].cut == "day"
    assert today.params == {"day": Type("date")}
    assert [(one.name, one.how, one.type) for one in today.compute] == [("count", "count", Type("int"))]
    assert revenue.group == (
        Group("day", Path(("order",), "created_at"), "day"),
        Group("category", Path(("product",), "category")),
    )
    assert revenue.compute[0].type == Type("decimal", scale=2)
    product = Term(op="*", left=Term(path=Path((), "quantity")), right=Term(path=Path((), "price")))
    assert revenue.compute[0].term == product
    assert revenue.where[0].operands == (Ago(30 * 86_400_000),)
    assert revenue.order == (Order(Path((), "revenue"), True),)


def test_writes(shop: Model) -> None:
    place, ship, take = (shop.writes[name] for name in ("place_order", "ship_order", "take_stock"))
    assert (place.kind, place.children, place.by_key) == ("create", {"items": {}}, True)
    assert (place.traffic.peak, place.traffic.peak_hours) == (10, 1)
    assert (ship.sets, ship.condition[0].operands) == ({"status": Literal("shipped")}, (Literal("pending"),))
    assert take.adds == {"stock": Param("n", negative=True)}
    assert take.params == {"sku": Type("string", 12), "n": Type("int")}
    assert shop.writes["rename_user"].sets == {"name": Param("name")}
    assert shop.transactions["checkout"].parts == (Repeat("place_order"), Repeat("take_stock", 3, 15, True))
    assert shop.transactions["checkout"].traffic is None


def base() -> dict[str, Any]:
    return {
        "keyplan": 1,
        "entities": {
            "User": {
                "count": "1k",
                "fields": {
                    "id": "int, key",
                    "age": "int, optional 60%",
                    "rate": "decimal(3)",
                    "weight": "float",
                    "born": "date, optional",
                    "seen": "timestamp, optional",
                    "on": "bool",
                    "mood": "enum(good, bad)",
                    "name": "string(10)",
                    "tags": "set(string(4), avg 2, max 9)",
                    "seat": "Seat, as users, max 1, optional",
                    "boss": "User, as staff, max 20, optional",
                },
            },
            "Seat": {"count": "1k", "key": ["room", "row"], "fields": {"room": "Room", "row": "int"}},
            "Room": {"count": 10, "fields": {"code": "string(4), key", "size": "int"}},
        },
    }


def pattern(**keys: Any) -> Pattern:
    return model_from({**base(), "patterns": {"p": {"rate": "1/s", **keys}}}).patterns["p"]


def write(**keys: Any) -> Write:
    return model_from({**base(), "writes": {"w": {"rate": "1/s", **keys}}}).writes["w"]


FORMS = [
    ("string(32), unique", {"type": "string", "size": 32, "unique": True}),
    ("string(32, max 99)", {"type": "string", "size": 32, "max": 99}),
    ("string(32), max 99", {"type": "string(32)", "max": "99"}),
    ("text(5kB), max 200kB", {"type": "text", "size": "5kB", "max": "200 kB"}),
    ("decimal(2), optional 60%", {"type": "decimal", "scale": 2, "optional": "60%"}),
    ("decimal", {"type": "DECIMAL"}),
    ("int, optional", {"type": "int", "optional": True}),
    ("int, default 5, immutable, distinct 20", {"type": "int", "default": 5, "immutable": True, "distinct": 20}),
    ("int, skew zipf 1.1", {"type": "int", "skew": 1.1}),
    ("int, TOP 5%, Note 'a, b'", {"type": "int", "top": "5%", "note": "a, b"}),
    ("enum(a 90%, b 10%), default a", {"type": "enum", "values": {"a": "90%", "b": "10%"}, "default": "a"}),
    ("enum(a, 'b c')", {"type": "enum", "values": ["a", "b c"]}),
    ("bool(true 1%)", {"type": "bool(true 1%)"}),
    ("set(string(10), avg 3, max 50)", {"type": "set", "of": "string(10)", "avg": 3, "max": 50}),
    ("list(int, max 5)", {"type": "list", "of": "int", "max": 5}),
    ("timestamp, now", {"type": "timestamp", "now": True}),
    ("Room, as guests, max 50, optional 5%", {"type": "Room", "as": "guests", "max": 50, "optional": "5%"}),
    ("int, from seat.room.size", {"type": "int", "from": "seat.room.size"}),
    ("max(staff.age)", {"type": "max(staff.age)"}),
]


@pytest.mark.parametrize(("short", "long"), FORMS, ids=[short for short, _ in FORMS])
def test_short_and_long_fields_mean_the_same(short: str, long: dict[str, Any]) -> None:
    models = []
    for form in (short, long):
        data = base()
        data["entities"]["User"]["fields"]["x"] = form
        models.append(model_from(data))
    assert models[0].entities == models[1].entities


def test_types() -> None:
    data = base()
    data["entities"]["User"]["fields"] |= {
        "a": "enum(x 50%, y, z)",
        "b": "bool(false 99%)",
        "c": "string",
        "d": "decimal",
        "e": "json(100)",
    }
    columns = model_from(data).entities["User"].columns
    assert columns["a"].type.values == (("x", 0.5), ("y", 0.25), ("z", 0.25))
    assert columns["b"].type.values == (("true", 0.01),)
    assert columns["c"].type == Type("string")
    assert columns["d"].type == Type("decimal", scale=4)
    assert columns["tags"].type == Type("set", size=2, most=9, of=Type("string", 4))


def test_composite_references_and_key_paths() -> None:
    data = base()
    data["entities"]["Ticket"] = {"key": ["seat.room", "day"], "fields": {"seat": "Seat", "day": "date"}}
    data["entities"]["Badge"] = {"key": ["seat.room.code", "n"], "fields": {"seat": "Seat", "n": "int"}}
    data["entities"]["Alias"] = {"key": ["room.code"], "fields": {"room": "Room"}}
    entities = model_from(data).entities
    assert entities["User"].columns["seat.room"].type == Type("string", 4)
    assert entities["Ticket"].key == ("seat.room", "day")
    assert entities["Badge"].key == ("seat.room", "n")
    assert entities["Alias"].key == ("room",)


def test_keys_and_lifetimes() -> None:
    data = base()
    data["entities"]["User"] |= {"ttl": "30m since seen", "unique": [["name", "seat"]], "skew": "zipf 1.2"}
    data["entities"]["Room"] |= {"ttl": {"after": "90d"}, "top": "20%"}
    data["entities"]["Room"]["fields"]["code"] = "string(4), key, unique"
    entities = model_from(data).entities
    assert entities["User"].ttl == Ttl(1_800_000, "seen")
    assert entities["User"].unique == (("name", "seat.room", "seat.row"),)
    assert (entities["User"].skew, entities["Room"].top) == (1.2, 0.2)
    assert entities["Room"].ttl == Ttl(90 * 86_400_000)
    assert entities["Room"].unique == ()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 5", Condition(Path((), "id"), "=", (Literal(5),))),
        ("id = -5", Condition(Path((), "id"), "=", (Literal(-5),))),
        ("rate < 1.5", Condition(Path((), "rate"), "<", (Literal(Decimal("1.500")),))),
        ("on = TRUE", Condition(Path((), "on"), "=", (Literal(True),))),
        ("mood != 'bad'", Condition(Path((), "mood"), "!=", (Literal("bad"),))),
        ("name = 'it''s'", Condition(Path((), "name"), "=", (Literal("it's"),))),
        ("id IN (1, 2)", Condition(Path((), "id"), "in", (Literal(1), Literal(2)))),
        ("id in ()", Condition(Path((), "id"), "in")),
        ("id in :ids[20]", Condition(Path((), "id"), "in", (Param("ids", 20),))),
        ("id in (:ids)", Condition(Path((), "id"), "in", (Param("ids"),))),
        ("boss.name = :n", Condition(Path(("boss",), "name"), "=", (Param("n"),))),
        ("staff.name = :n", Condition(Path(("staff",), "name"), "=", (Param("n"),))),
        ("boss.id = :b", Condition(Path((), "boss"), "=", (Param("b"),))),
        ("seat.room.code = :r", Condition(Path((), "seat.room"), "=", (Param("r"),))),
        ("present(age)", Condition(Path((), "age"), "present")),
        ("missing(seat.row)", Condition(Path((), "seat.row"), "missing")),
        ("begins_with(name, 'x')", Condition(Path((), "name"), "begins_with", (Literal("x"),))),
        ("contains(tags, :t)", Condition(Path((), "tags"), "contains", (Param("t"),))),
        (
            "search(name, boss.name, :w)",
            Condition(Path((), "name"), "search", (Param("w"),), None, (Path(("boss",), "name"),)),
        ),
        ("hour(seen) = :h", Condition(Path((), "seen"), "=", (Param("h"),), "hour")),
        ("born >= ago('1y')", Condition(Path((), "born"), ">=", (Ago(365 * 86_400_000),))),
    ],
)
def test_conditions(where: str, expected: Condition) -> None:
    assert pattern(find="User", where=where).where == (expected,)


def test_the_types_of_parameters() -> None:
    found = pattern(
        find="User",
        where="id in :ids and hour(seen) = :h and month(born) >= :m and contains(tags, :t) and begins_with(mood, :p) "
        "and search(name, :w) and seat.room = :r and day(seen) in :days",
    )
    assert found.params == {
        "ids": Type("list", of=Type("int")),
        "h": Type("timestamp"),
        "m": Type("date"),
        "t": Type("string", 4),
        "p": Type("string"),
        "w": Type("text"),
        "r": Type("string", 4),
        "days": Type("list", of=Type("date")),
    }


def test_a_truncated_literal_is_truncated() -> None:
    found = pattern(find="User", where="month(seen) = '2024-02-29T12:00:00Z' and week(born) = '2024-02-29'")
    assert [str(condition.operands) for condition in found.where] == [
        "(Literal(value=datetime.date(2024, 2, 1)),)",
        "(Literal(value=datetime.date(2024, 2, 26)),)",
    ]


def test_a_where_may_be_a_list() -> None:
    assert (
        pattern(find="User", where=["id = 1", "name = 'x'"]).where
        == pattern(find="User", where="id = 1 and name = 'x'").where
    )


@pytest.mark.parametrize(
    ("expression", "type"),
    [
        ("sum(id)", Type("int")),
        ("sum(rate)", Type("decimal", scale=3)),
        ("sum(rate * rate)", Type("decimal", scale=6)),
        ("sum(rate * 1.05 + id)", Type("decimal", scale=5)),
        ("sum(id - 2)", Type("int")),
        ("sum(-rate)", Type("decimal", scale=3)),
        ("sum(weight * rate)", Type("float")),
        ("avg(id)", Type("float")),
        ("min(name)", Type("string", 10)),
        ("max(boss.seen)", Type("timestamp")),
        ("COUNT()", Type("int")),
    ],
)
def test_the_types_of_aggregates(expression: str, type: Type) -> None:
    (compute,) = pattern(**{"from": "User", "compute": {"x": expression}}).compute
    assert compute.type == type


def test_scalar_aggregates_and_names_of_groups() -> None:
    assert pattern(count="User").scalar
    assert pattern(avg="User.boss.age").compute[0].term == Term(path=Path(("boss",), "age"))
    assert not pattern(**{"from": "User", "compute": {"n": "count()"}}).scalar
    grouped = pattern(count="User", group=["boss.name", "day(seen)", "seat.room"])
    assert [group.name for group in grouped.group] == ["name", "day", "room"]


def test_rank() -> None:
    found = pattern(rank="Seat", of=["room", "row"], order="row desc", where="room = :room")
    assert found.of == (
        Condition(Path((), "room"), "=", (Param("room"),)),
        Condition(Path((), "row"), "=", (Param("row"),)),
    )
    assert found.params == {"room": Type("string", 4), "row": Type("int")}
    assert pattern(rank="User", of="id = :who", order="age").params == {"who": Type("int")}


def test_select() -> None:
    assert pattern(find="User", select=["id", "seat", "boss", "boss.name"]).select == Select(
        ("id", "seat.room", "seat.row", "boss"), {"boss": Select(("name",))}
    )
    found = pattern(
        find="User", select=["id"], **{"with": [{"staff": {"select": ["id"], "order": "age desc", "limit": 3}}]}
    )
    assert found.select == Select(("id",), {"staff": Select(("id",), {}, (Order(Path((), "age"), True),), 3)})
    assert pattern(find="Room", **{"with": []}).select == Select(("code", "size"))
    seat = pattern(find="Seat", select=["row"], **{"with": ["users.name", "room"]}).select
    assert seat == Select(("row",), {"users": Select(("name",)), "room": Select(("code", "size"))})


def test_pages() -> None:
    assert pattern(find="User", where="name = :n").page == 100
    assert pattern(find="User", where="name = :n", limit=5).page is None
    assert pattern(find="User", where="id = :n", page=5).page is None
    assert pattern(find="Room").page == 100
    cut = pattern(find="User", where="day(seen) = :d and id > 3")
    assert not cut.one


def test_one_row_by_key_or_unique() -> None:
    data = base()
    data["entities"]["User"]["unique"] = [["name", "age"]]
    data["patterns"] = {
        "a": {"find": "User", "where": "name = :n and age = :a and on = true"},
        "b": {"find": "User", "where": "name = :n"},
        "c": {"find": "Seat", "where": "room = :r and row = 3"},
        "d": {"find": "Seat", "where": "room.code = :r and row in (3)"},
    }
    model = model_from(data)
    assert [model.patterns[name].one for name in "abcd"] == [True, False, True, False]


def test_changes() -> None:
    found = write(
        update="User",
        set={"seen": "now", "born": None, "name": "'now'", "mood": "bad", "tags": ["a", "b"], "seat.row": ":row"},
        add={"age": 1, "rate": "-:by"},
        where="id = :id",
        **{"return": ["name", "seat"]},
    )
    assert found.sets == {
        "seen": Now(),
        "born": Literal(None),
        "name": Literal("now"),
        "mood": Literal("bad"),
        "tags": Literal(frozenset({"a", "b"})),
        "seat.row": Param("row"),
    }
    assert found.adds == {"age": Literal(1), "rate": Param("by", negative=True)}
    assert found.params == {"id": Type("int"), "row": Type("int"), "by": Type("decimal", scale=3)}
    assert found.returns == ("name", "seat.room", "seat.row")


def test_a_listed_composite_reference_is_one_argument() -> None:
    found = write(update="User", set=["seat"], where="id = :id")
    assert found.sets == {"seat.room": Param("seat.room"), "seat.row": Param("seat.row")}


def test_kinds_of_writes() -> None:
    assert write(upsert="User").kind == "upsert"
    change = write(upsert="Room", add=["size"], where="code = :code")
    assert (change.kind, change.by_key) == ("change", True)
    assert write(upsert="Room", add=["size"]).where == (Condition(Path((), "code"), "=", (Param("code"),)),)
    wide = write(delete="User", where="name = :n", rows=3)
    assert (wide.by_key, wide.rows) == (False, 3)
    assert write(delete="User", where="id = :id and on = true").by_key
    assert write(create="User", **{"with": ["staff.staff"]}).children == {"staff": {"staff": {}}}


def test_long_transactions() -> None:
    data = base()
    data["writes"] = {"a": {"create": "User"}, "b": {"create": "Room"}, "c": {"create": "Seat"}}
    data["transactions"] = {
        "t": {"writes": ["a", {"write": "b", "usual": 2.5}, {"write": "c", "max": 4}], "rate": "5/s", "peak": "2x"}
    }
    found = model_from(data).transactions["t"]
    assert found.parts == (Repeat("a"), Repeat("b", 2.5, 3, True), Repeat("c", 1, 4, True))
    assert found.traffic is not None
    assert (found.traffic.rate, found.traffic.peak) == (5, 2)


def test_one_warning_for_rates_and_one_for_counts() -> None:
    data = base()
    del data["entities"]["Room"]["count"]
    data["patterns"] = {"p": {"find": "Room"}, "q": {"find": "Room", "rate": "1/s"}}
    data["writes"] = {f"w{number}": {"create": "Room"} for number in range(6)}
    assert model_from(data).warnings == (
        "no rate for 'p', 'w0', 'w1', 'w2', 'w3' and 2 more; assumed low, which is 1/s",
        "no count for 'Room'; assumed 1000 rows",
    )


def test_targets_are_texts() -> None:
    model = parse_model(SHOP + "targets:\n  dynamodb: {region: eu-west-1, limits: {gsis: 5}, zones: [a, b]}\n")
    assert model.targets == {"dynamodb": {"region": "eu-west-1", "limits": {"gsis": "5"}, "zones": ["a", "b"]}}


def test_the_name_comes_from_the_file(tmp_path: FilePath) -> None:
    path = tmp_path / "cinema.yaml"
    path.write_text("keyplan: 1\nentities: {A: {fields: {id: 'int, key'}}}\n")
    assert load_model(path).name == "cinema"
    assert load_model(str(path)).file == str(path)


def test_yaml_and_dicts_give_the_same_model() -> None:
    import yaml

    from_text, from_dict = parse_model(SHOP), parse_model(yaml.load(SHOP, Loader=yaml.BaseLoader))
    assert set(from_text.calls) == set(from_dict.calls)
    for name, one in from_text.patterns.items():
        other = from_dict.patterns[name]
        assert (one.where, one.select, one.params, one.order) == (other.where, other.select, other.params, other.order)


def test_names_are_not_reserved() -> None:
    data = base()
    names = ("day", "count", "between", "desc", "key", "order", "now", "where", "search", "sum", "max", "present")
    for name in names:
        data["entities"]["User"]["fields"][name] = "int"
    data["patterns"] = {
        f"p{number}": {"find": "User", "where": f"{name} between 1 and 2 and {name} = :a", "order": f"{name} desc"}
        for number, name in enumerate(names)
    }
    data["patterns"]["q"] = {"from": "User", "compute": {"x": "sum(sum * max - count)"}, "group": ["day", "order"]}
    assert len(model_from(data).patterns) == len(names) + 1


def test_the_shop_loads_quickly() -> None:
    """The best of several, so that a busy machine does not fail it."""
    best = 1.0
    for _ in range(8):
        start = time.perf_counter()
        parse_model(SHOP)
        best = min(best, time.perf_counter() - start)
    assert best < 0.06


def test_importing_the_nouns_does_not_import_the_parsers() -> None:
    code = "import sys, keyplan, keyplan.model.model; print('lark' in sys.modules, 'yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_of_many_names_the_first_are_told() -> None:
    """Also where none is near, so that there is something to go on with."""
    fields = {"id": "int, key", **{f"field{number}": "int" for number in range(20)}}
    entities = {"User": {"count": 1, "fields": fields}}
    patterns = {"x": {"find": "User", "where": "id = :id", "select": ["zzz"], "rate": "1/s"}}
    said = r"'User' has no 'zzz'; there are field0, field1, .*, … \(21 in all\)$"
    with pytest.raises(ModelError, match=said):
        parse_model({"keyplan": 1, "name": "x", "entities": entities, "patterns": patterns})


@pytest.mark.parametrize("hops", [17, 1000, 5000])
def test_a_path_goes_over_sixteen_roles_at_most(hops: int) -> None:
    text = """
keyplan: 1
entities:
  A: { count: 10, fields: { id: "uuid, key", b: "A, optional", n: int, c: "int, optional, from %s.n" } }
patterns:
  far: { find: A, where: "%s.n = 1", order: %s.n, rate: 1/s }
"""
    assert parse_model(text % (("b" + ".b" * 15,) * 3)).patterns["far"].where[0].path.roles == ("b",) * 16
    with pytest.raises(ModelError) as caught:
        parse_model(text % (("b" + ".b" * (hops - 1),) * 3))
    assert [problem.line for problem in caught.value.problems] == [4, 6]
    assert all(
        "goes over more than 16 roles; keep what it leads to closer by" in one.message for one in caught.value.problems
    )
