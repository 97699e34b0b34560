"""Writes near and beyond the 100 items of a transaction: done as far as they can be, told about before, and refused
with what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import keyplan
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.errors import UncertainError, UnsupportedError
from keyplan.model.load import load_model, parse_model
from keyplan.model.model import Model
from keyplan.store.pump import run
from keyplan.store.store import Store
from tests.engines.dynamodb.meter import Metered
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.engines.dynamodb.workload import ROOT

MODEL = """
keyplan: 1
name: baskets
entities:
  Product:
    count: 50k
    fields: { sku: "string(12), key", name: "string(40)", size: int }
  Order:
    count: 40M
    fields: { order_id: "uuid, key", at: "timestamp, now" }
  Item:
    count: 120M
    key: [order, line]
    fields: { order: "Order, as items, max 80", line: int, product: "Product, as sold" }
patterns:
  page: { find: Order, where: "order_id = :order", with: [items, items.product.name], rate: 1k/s, p99: 10ms }
  sold: { find: Item, where: "product = :sku", rate: 1/s, consistency: strong, page: 100 }
  product: { find: Product, where: "sku = :sku", rate: 100/s }
writes:
  list: { create: Product, rate: 1/day }
  rename: { update: Product, set: [name], where: "sku = :sku", rate: 1/day }
  drop: { delete: Product, where: "sku = :sku", rate: 1/day }
  place: { create: Order, with: [items], rate: 10/s }
"""
PRODUCTS = 70


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


class Between:
    """A port that does something once, before the round of that number."""

    def __init__(self, port: Any, number: int, do: Callable[[], None]) -> None:
        self.port = port
        self.number = number
        self.do = do

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        if self.number == 0:
            self.do()
        self.number -= 1
        found: Sequence[Any] = self.port.send(round)
        return found

    def close(self) -> None:
        self.port.close()


def baskets() -> Model:
    return parse_model(MODEL)


@pytest.fixture
def url(server: Server) -> str:
    return url_of(server.url)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    model = baskets()
    keyplan.apply(model, url)
    with keyplan.open(model, url) as found:
        found.load([("Product", {"sku": f"s{n:02}", "name": f"name {n}", "size": n}) for n in range(PRODUCTS)])
        yield found


def items(many: int = PRODUCTS) -> list[dict[str, Any]]:
    return [{"line": n, "product": f"s{n:02}"} for n in range(many)]


def names(store: Store, order: Any) -> list[str]:
    return [one["product"]["name"] for one in store.page(order=order)["items"]]


def killed() -> None:
    raise Killed


def test_the_design_knows_that_checks_do_not_fit() -> None:
    design = keyplan.design(baskets(), "dynamodb")
    note, room = [one for one in design.findings if one.path == "writes.place"]
    assert note.severity == room.severity == "note"
    assert "81 entries that copy from 80 rows" in note.message
    assert "cheaper views, with which it would be 161, are not possible" in room.message
    few = parse_model(MODEL.replace("max 80", "max 20"))
    assert [one for one in keyplan.design(few, "dynamodb").findings if one.path == "writes.place"] == []


def test_the_design_warns_of_what_will_be_refused() -> None:
    large = MODEL.replace("max 80", "max 200")
    unlimited = MODEL.replace(", max 80", "").replace("with: [items, items.product.name], ", "")
    for text, said in ((large, "its largest call writes"), (unlimited, "nothing says how many rows")):
        design = keyplan.design(parse_model(text), "dynamodb")
        (warning,) = [one for one in design.findings if one.path == "writes.place"]
        assert warning.severity == "warning"
        assert said in warning.message
        assert f"more than {LIMITS.transaction_items}" in warning.message
        assert "'max'" in warning.fix


def test_the_design_says_which_writes_converge() -> None:
    """What any number of rows repeat follows; what is bounded below 100, or refused beyond, comes at once."""

    def how(text: str, name: str) -> str:
        return keyplan.design(parse_model(text), "dynamodb").writes[name].how

    assert [how(MODEL, name) for name in ("rename", "drop", "list", "place")] == ["converges"] * 2 + ["atomic"] * 2
    bounded = MODEL.replace('"Product, as sold"', '"Product, as sold, max 40"').replace("120M", "1M")
    assert [how(bounded, name) for name in ("rename", "drop")] == ["atomic"] * 2
    cascade = MODEL + '  clear: { delete: Order, with: [items], where: "order_id = :order", rate: 1/s }\n'
    assert how(cascade.replace("max 80", "max 40"), "clear") == "atomic"
    assert how(cascade, "clear") == "converges", "each item has two entries"


def test_a_call_beyond_the_limit_says_what_to_do(server: Server) -> None:
    model, url = parse_model(MODEL.replace("max 80", "max 200")), url_of(server.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as found, pytest.raises(UnsupportedError, match="at most 100 together; write fewer"):
        found.place(items=[{"line": n, "product": "s"} for n in range(120)])


def test_more_copies_than_can_be_checked(store: Store) -> None:
    """71 entries and 70 products: written, and right."""
    order = store.place(items=items())["order_id"]
    assert names(store, order) == [f"name {n}" for n in range(PRODUCTS)]
    assert store.verify().ok
    store.rename(sku="s03", name="new")
    assert names(store, order)[3] == "new"
    assert store.verify().ok


@pytest.mark.parametrize("change", ["rename", "drop", "list"])
def test_a_source_that_changes_meanwhile_is_followed(store: Store, url: str, change: str) -> None:
    """Whatever happens to a product between any two rounds of the order, the copy ends as the product is."""
    if change == "list":
        store.drop(sku="s03")
    with keyplan.open(baskets(), url) as other:
        done: list[Any] = []

        def meddle() -> None:
            number = len(done)
            if change == "rename":
                done.append(other.rename(sku="s03", name=f"new {number}"))
            elif change == "drop":
                done.append(other.drop(sku="s03"))
            else:
                done.append(other.list(sku="s03", name="listed", size=1))

        for number in range(10):
            before = len(done)
            store._port = Between(store._port, number, meddle)
            order = store.place(items=items())["order_id"]
            store._port = store._port.port
            if len(done) == before:
                assert number == 4, "the products, the order, the products again, the end of the intent"
                break
            wanted = (other.product(sku="s03") or {}).get("name")
            assert names(store, order)[3] == wanted, number
            report = store.verify()
            assert report.ok, (number, report)
            if change == "drop":
                other.list(sku="s03", name="name 3", size=3)
            if change == "list":
                other.drop(sku="s03")
        else:
            raise AssertionError("the call takes ten rounds")


def test_a_process_that_ends_at_any_point(store: Store, url: str) -> None:
    """The order is there with all its items or not at all, and `verify` finds what has changed since."""
    with keyplan.open(baskets(), url) as other:
        for number in range(10):
            store._port = Between(store._port, number, killed)
            try:
                store.place(items=items())
                ended = True
            except Killed:
                ended = False
            store._port = store._port.port
            other.rename(sku="s05", name=f"after {number}")
            report = other.verify()
            assert report.ok, (number, report)
            (found,) = {row["product"]["name"] for row in _orders(other) if row["product"]["sku"] == "s05"} or {""}
            assert found in ("", f"after {number}")
            if ended:
                break
        assert ended
        assert other.verify().ok


def _orders(store: Store) -> list[dict[str, Any]]:
    """The items of every order, by the page of each."""
    found = []
    for order in {row["order"] for row in store.sold(sku="s05").rows}:
        found += store.page(order=order)["items"]
    return [{**row, "product": {"sku": f"s{row['line']:02}", **row["product"]}} for row in found]


class Losing(Between):
    """A port that loses the reply of one round."""

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        self.number -= 1
        found: Sequence[Any] = self.port.send(round)
        return [UncertainError("the reply was lost") for _ in round] if self.number == -1 else found


@pytest.mark.parametrize("many", [2, PRODUCTS])
def test_a_lost_reply_is_neither_a_conflict_nor_a_second_order(store: Store, many: int) -> None:
    """Items are named after an order whose key is new: that they are there says that the order was placed."""
    port = store._port
    store._port = Losing(port, 1, killed)
    order = store.place(items=items(many))["order_id"]
    store._port = port
    assert names(store, order) == [f"name {n}" for n in range(many)]
    assert len(store.sold(sku="s00").rows) == 1
    assert list(run(store._core.writer.intents.pending(), port)) == []
    assert store.verify().ok


def test_rows_named_after_a_new_one_are_not_looked_for(store: Store) -> None:
    """Two rounds: the products, and the order with its items."""
    counting = Between(store._port, 100, killed)
    store._port = counting
    store.place(items=items(2))
    store._port = counting.port
    assert 100 - counting.number == 2


def test_forty_products_in_the_shop(server: Server) -> None:
    """What the model of the shop allows: an order of 40 items, each of another product, and its checkout."""
    shop = load_model(ROOT / "shop.yaml")
    url = url_of(server.url)
    keyplan.apply(shop, url)
    with keyplan.open(shop, url) as store:
        user = store.register(email="a@b.c", name="A")["user_id"]
        for n in range(40):
            store.list_product(sku=f"s{n:02}", name=f"thing {n}", description="d", category="c", price="1.00", stock=9)
        wanted = [{"line": n, "product": f"s{n:02}", "quantity": 2} for n in range(40)]
        order = store.place_order(user=user, total="100.00", items=wanted)["order_id"]
        page = store.order_page(order_id=order)
        assert [one["product"]["name"] for one in page["items"]] == [f"thing {n}" for n in range(40)]
        taken = [{"sku": f"s{n:02}", "n": 2} for n in range(15)]
        store.checkout(place_order={"user": user, "total": "1.00", "items": wanted}, take_stock=taken)
        assert [store.product(sku=f"s{n:02}")["stock"] for n in (0, 14, 15)] == [7, 7, 9]
        store.settle()
        summary = store.order_summary(user_id=user)
        assert summary["order_count"] == 2
        assert store.verify().ok


MANY = """
keyplan: 1
name: many
entities:
  Page: { count: 100k, fields: { id: "int, key", title: "string(10)", body: text(200), tags: "set(string(8), avg 3)" } }
patterns:
  hits: { find: Page, where: "search(body, :w)", page: 3, rate: 50/s }
  tagged: { find: Page, where: "contains(tags, :t)", page: 3, rate: 50/s }
writes:
  put: { create: Page, rate: 1/min }
  edit: { update: Page, set: [body, tags], where: "id = :id", rate: 1/min }
  drop: { delete: Page, where: "id = :id", rate: 1/min }
"""


ROOMS = """
keyplan: 1
name: rooms
entities:
  Room: { count: 10k, fields: { room_id: "int, key", topic: string(20) } }
  Message: { count: 3M, key: [room, number], fields: { room: "Room, as messages", number: int, text: string(40) } }
patterns:
  latest: { find: Message, where: "room = :room", order: number desc, page: 20, rate: 100/s, consistency: strong }
writes:
  shut: { delete: Room, with: [messages], where: "room_id = :room_id", rate: 1/h }
"""


@pytest.fixture
def room(url: str) -> Iterator[Store]:
    """A store with a room of as many messages as are planned for."""
    model = parse_model(ROOMS)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as found:
        found.load([("Room", {"room_id": 1, "topic": "t"})])
        found.load([("Message", {"room": 1, "number": number, "text": "x"}) for number in range(300)])
        yield found


def test_a_large_cascade_reads_its_rows_once(room: Store) -> None:
    """What was read is deleted, chunk after chunk, and not read again for each."""
    meter = Metered(room._port)
    room.shut(room_id=1)
    taken, planned = meter.reset(), room.design.writes["shut"].figures
    assert (taken.requests, taken.rounds) == (planned.requests, planned.trips)
    assert list(room.latest(room=1)) == []
    assert room.verify().rows == 0


@pytest.mark.parametrize("number", range(1, 10, 2))
@pytest.mark.parametrize("message", [0, 299, 1000])
def test_messages_that_change_or_come_during_a_large_cascade(room: Store, url: str, number: int, message: int) -> None:
    """They go along unless they came behind its last look."""
    with keyplan.open(room.model, url) as other:
        rows = [("Message", {"room": 1, "number": message, "text": "late"})]

        def meddle() -> None:
            other.load(rows)

        room._port = Between(room._port, number, meddle)
        room.shut(room_id=1)
        left = [row["number"] for row in room.latest(room=1)]
        assert left in ([], [message])
        found = room.verify()
        assert (found.ok, found.rows) == (True, len(left))
        if number < 8:
            assert left == []


def words(first: int, many: int) -> str:
    return " ".join(f"w{n}" for n in range(first, first + many))


def test_one_row_beyond_the_limit_says_which_field_is_too_large(server: Server) -> None:
    """No advice to write fewer rows: it is one."""
    model, url = parse_model(MANY), url_of(server.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as found:
        with pytest.raises(UnsupportedError) as refused:
            found.put(id=1, title="a", body=words(0, 150), tags=["x", "y"])
        assert str(refused.value) == (
            "put: the row has entries for 150 words of 'body' and 2 elements of 'tags', and the engine changes at most "
            "100 entries together; leave at most 99 of these"
        )
        with pytest.raises(UnsupportedError, match="entries for 1 word of 'body' and 120 elements of 'tags'"):
            found.put(id=1, title="a", body="x", tags=[f"t{n}" for n in range(120)])
        found.put(id=1, title="a", body=words(0, 98), tags=["x"])
        with pytest.raises(UnsupportedError, match="entries for 196 words of 'body' and 1 element") as told:
            found.edit(id=1, body=words(200, 98), tags=["x"])
        assert str(told.value).endswith("; change at most 99 of these by one update")
        found.edit(id=1, body=words(0, 50), tags=["x"])
        assert [one["id"] for one in found.hits(w="w49").rows] == [1]
        assert found.hits(w="w50").rows == []
        found.drop(id=1)
        assert found.verify().ok


@pytest.mark.parametrize(
    ("fields", "where", "said"),
    [
        ("body: text(200)", "search(body, :w)", "each word of 'body', and one request changes at most 100 entries"),
        ('body: "text(200), max 2000"', "search(body, :w)", "a row with more than 99 of them is refused"),
        ('tags: "set(string(8), avg 3)"', "contains(tags, :w)", "each element of 'tags'"),
        ('tags: "set(string(8), avg 3, max 120)"', "contains(tags, :w)", "more than 99 of them is refused"),
        ('body: "text(200), max 600"', "search(body, :w)", ""),
        ("body: string(40)", "search(body, :w)", ""),
        ('tags: "set(string(8), avg 3, max 97)"', "contains(tags, :w)", ""),
    ],
)
def test_the_design_warns_of_a_row_that_will_be_refused(fields: str, where: str, said: str) -> None:
    text = f"""
keyplan: 1
name: one
entities:
  Page: {{ count: 100k, fields: {{ id: "int, key", {fields} }} }}
patterns:
  hits: {{ find: Page, where: "{where}", page: 3, rate: 50/s }}
writes:
  put: {{ create: Page, rate: 1/min }}
"""
    found = keyplan.design(parse_model(text), "dynamodb").findings
    told = [one for one in found if one.path.startswith("entities.Page.")]
    assert [one.severity for one in told] == ["warning"] * bool(said)
    assert said in "".join(one.message for one in told)
    assert not [one for one in found if one.path == "writes.put"], "said once"
    for other in ("sqlite", "mongodb"):
        found = keyplan.design(parse_model(text), other).findings
        assert not [one for one in found if one.path.startswith("entities.Page.")], "they have no such limit"


def test_following_the_advice_ends_the_warning() -> None:
    """Also where an update may replace all of it."""
    for kind, size in (("text(100)", "312"), ("set(string(8), avg 3)", "48")):
        where = "search(x, :w)" if kind.startswith("text") else "contains(x, :w)"
        model = f"""
keyplan: 1
name: one
entities:
  Page: {{ count: 100k, fields: {{ id: "int, key", x: "{kind}" }} }}
patterns:
  hits: {{ find: Page, where: "{where}", page: 3, rate: 50/s }}
writes:
  put: {{ create: Page, rate: 1/min }}
  edit: {{ update: Page, set: [x], where: "id = :id", rate: 1/min }}
"""
        (told,) = [
            one
            for one in keyplan.design(parse_model(model), "dynamodb").findings
            if one.path[:9] == "entities." and "has an entry for" in one.message
        ]
        assert f"a 'max' of at most {size}" in told.fix
        bounded = f"text(100), max {size}" if kind.startswith("text") else f"set(string(8), avg 3, max {size})"
        design = keyplan.design(parse_model(model.replace(kind, bounded)), "dynamodb")
        assert not [one for one in design.findings if "has an entry for" in one.message]
        assert not design.unserved


def test_what_the_usual_row_has_too_many_words_for_is_not_indexed_by_them() -> None:
    """Nor are all rows walked through for a rare word, however small the page."""
    text = """
keyplan: 1
name: srch
entities:
  Page: { count: 1M, fields: { id: "int, key", body: text(2000), title: string(40) } }
patterns:
  hits: { find: Page, where: "search(body, :w)", page: 3, rate: 10/s }
writes:
  put: { create: Page, rate: 1/s }
"""
    reason = keyplan.design(parse_model(text), "dynamodb").unserved["hits"].reason
    assert "only walking through 1M rows of 'Page', 2.1GB" in reason
    assert "a row has 308 words in 'body' on average, and one request writes 98 entries at most" in reason
    assert not keyplan.design(parse_model(text), "mongodb").unserved
    short = keyplan.design(parse_model(text.replace("2000", "200")), "dynamodb")
    kept = keyplan.design(parse_model(text), "dynamodb", keep=short)
    assert [one for one in kept.findings if one.message.startswith("it is kept, but a row has 308 words in 'body'")]
    assert not keyplan.design(parse_model(text.replace("1M", "300")), "dynamodb").unserved, "these are soon read"


def test_rows_tested_for_a_rare_word_are_told_of() -> None:
    """Pages of one site are filtered for a word; the largest site has more than a page holds."""
    text = """
keyplan: 1
name: sites
entities:
  Site: { count: 100, fields: { id: "int, key", name: "string(10)" } }
  Page: { count: 100k, key: [site, no], fields: { site: "Site, as pages, max 2000", no: int, body: text(2000) } }
patterns:
  hits: { find: Page, where: "site = :site and search(body, :w)", page: 3, rate: 1/day }
writes:
  put: { create: Page, rate: 1/s }
"""
    (told,) = [one for one in keyplan.design(parse_model(text), "dynamodb").findings if one.path == "patterns.hits"]
    assert told.severity == "warning"
    assert "through up to 2k rows of 'Page', 4.09MB" in told.message
    assert "MB at a call" in told.message
    few = text.replace("max 2000", "max 200").replace("100k", "10k")
    assert not [one for one in keyplan.design(parse_model(few), "dynamodb").findings if one.path == "patterns.hits"]
