"""A row with its first children: one Query of their item collection, which brings these and the row, and no more."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keyplan
from keyplan.engines import get_engine
from keyplan.engines.dynamodb import cost
from keyplan.engines.dynamodb.families import children_prefix, read_with
from keyplan.engines.work import Cost
from keyplan.errors import ConflictError, DesignMismatchError
from keyplan.model.model import Model
from keyplan.plan.children import first_along, leading
from keyplan.plan.design import Design
from keyplan.plan.view import Embed, Part, View
from keyplan.plan.walk import searches
from tests.conformance.pair import NOON, Pair, designed, opened, parsed
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.dynamodb.meter import Metered
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.strategies.designs import Designs
from tests.strategies.families import families

SHOP = """
entities:
  Customer:
    count: 1M
    fields: { username: "string(12), key", name: string(20) }
  Order:
    count: 100M
    key: [customer, number]
    fields:
      customer: Customer, as orders
      number: int
      total: int, default 0
      note: string(200), optional 50%
  Address:
    count: 3M
    key: [customer, label]
    fields: { customer: "Customer, as addresses, max 10", label: string(8), street: string(20) }
patterns:
  newest:
    find: Customer
    where: username = :username
    with: { orders: { order: NEWEST, limit: 3 } }
    rate: 1k/s
    STRONG
  fewer: { find: Customer, where: username in :usernames, with: { orders: { order: NEWEST, limit: 1 } }, rate: 100/s }
  oldest: { find: Customer, where: username = :username, with: { orders: { order: OLDEST, limit: 2 } }, rate: 1/h }
  addressed: { find: Customer, where: username = :username, with: [addresses], rate: 500/s }
  everything:
    find: Customer
    where: username = :username
    with: [addresses, { orders: { order: NEWEST, limit: 5 } }]
    rate: 1/day
  page: { find: Order, where: customer = :username, order: NEWEST, page: 2, rate: 100/s }
  back: { find: Order, where: "customer = :username and number > :number", order: OLDEST, page: 2, rate: 100/s }
  order: { find: Order, where: customer = :username and number = :number, rate: 10/s }
writes:
  register: { create: Customer, rate: 1/s }
  rename: { update: Customer, set: [name], where: username = :username, rate: 1/s }
  leave: { delete: Customer, where: username = :username, rate: 1/day }
  place: { create: Order, rate: 10/s }
  change: { update: Order, set: [total, note], where: customer = :username and number = :number, rate: 1/s }
  cancel: { delete: Order, where: customer = :username and number = :number, rate: 1/s }
  move_in: { upsert: Address, rate: 1/s }
  move_out: { delete: Address, where: customer = :username and label = :label, rate: 1/s }
"""
USERS = ("ann", "bob", "cay", "d!")


@cache
def shop(*, down: bool = True, strong: bool = False) -> Model:
    text = SHOP.replace("NEWEST", "number desc" if down else "number")
    text = text.replace("OLDEST", "number" if down else "number desc")
    text = text.replace("STRONG", "consistency: strong" if strong else "p99: 1s")
    return replace(parsed(text), targets={"dynamodb": {"billing": "on_demand"}})


def home_of(design: Design, entity: str) -> View:
    return design.views[design.homes[entity][0]]


def order(username: str, number: int) -> tuple[str, dict[str, Any]]:
    return ("Order", {"customer": username, "number": number, "total": number % 3, "note": None})


def rows() -> list[tuple[str, dict[str, Any]]]:
    """`cay` has no orders, and those of `d!` have no customer."""
    found: list[tuple[str, dict[str, Any]]] = [("Customer", {"username": one, "name": one}) for one in USERS[:3]]
    found += [order("ann", number) for number in range(-3, 9)] + [order("bob", 1), order("bob", 20)]
    found += [order("d!", number) for number in range(5)]
    labels = ("home", "work")
    return found + [("Address", {"customer": "ann", "label": label, "street": label}) for label in labels]


def reads() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [("fewer", {"usernames": [*USERS, "nobody"]})]
    for one in USERS:
        names = ("newest", "oldest", "addressed", "everything", "page")
        found += [(name, {"username": one}) for name in names]
        found += [("back", {"username": one, "number": number}) for number in (-2, 4, 100)]
    return [*found, ("order", {"username": "ann", "number": -3}), ("order", {"username": "d!", "number": 2})]


def some_write(draw: random.Random) -> tuple[str, dict[str, Any]]:
    one, number = {"username": draw.choice(USERS)}, {"number": draw.randrange(-12, 12)}
    customer = {"customer": one["username"]}
    able: dict[str, dict[str, Any]] = {
        "register": {**one, "name": draw.choice("xyz")},
        "rename": {**one, "name": draw.choice("xyz")},
        "leave": one,
        "place": {**customer, **number, "total": 1, "note": draw.choice([None, "n"])},
        "change": {**one, **number, "total": draw.randrange(9), "note": draw.choice([None, "n"])},
        "cancel": {**one, **number},
        "move_in": {**customer, "label": draw.choice(["home", "work"]), "street": draw.choice("xyz")},
        "move_out": {**one, "label": draw.choice(["home", "work"])},
    }
    name = draw.choice([*able, "place", "place", "cancel"])
    return name, able[name]


def test_the_children_lie_on_their_own_side_of_their_parent() -> None:
    """One Query each for a customer with the newest orders, and for one with all addresses."""
    design = designed(shop(), "dynamodb")
    view = home_of(design, "Customer")
    assert {embed.role: [str(part) for part in embed.sort] for embed in view.embeds} == {
        "addresses": ["label"],
        "orders": ["number desc"],
    }
    assert design.homes["Order"] == (view.name, ("orders",))
    keys = get_engine("dynamodb").stored_keys(shop(), design)
    assert [keys[view.name, at][1] for at in ((), ("addresses",), ("orders",))] == [
        "CUSTOMER#",
        "CUSTOMER#ADDRESS#{label}",
        "CUSTOMER!ORDER#{number}",
    ]
    assert read_with(view, ["orders"]) == ("orders",)
    assert read_with(view, ["addresses"]) == ("addresses",)
    assert {design.plans[name].figures.requests for name in ("newest", "addressed")} == {1}


def test_a_read_brings_what_lies_between_the_parent_and_its_children() -> None:
    def embed(role: str, entity: str, *, down: bool = False) -> Embed:
        return Embed(role, entity, (Part("number", descending=down),), ("number",))

    above = (embed("addresses", "Address"), embed("invoices", "Invoice"), embed("old_invoices", "Invoice"))
    view = View(
        "", "Customer", "table", (Part("username"),), (), ("username",), (*above, embed("orders", "Order", down=True))
    )
    assert read_with(view, []) == ()
    assert read_with(view, ["orders"]) == ("orders",)
    assert read_with(view, ["addresses"]) == ("addresses",)
    assert read_with(view, ["invoices"]) == ("addresses", "invoices")
    assert read_with(view, ["old_invoices"]) == ("addresses", "invoices", "old_invoices")
    assert read_with(view, ["addresses", "orders"]) == ("addresses", "orders")
    assert leading(view) == view.embeds[-1]
    assert leading(replace(view, embeds=above)) is None
    assert leading(replace(view, embeds=above[:1])) == above[0]
    only = replace(above[0], sort=())  # its key is its parent's, so that it has no order
    assert children_prefix("CUSTOMER", only, "ADDRESS") == "CUSTOMER#ADDRESS#"


def test_a_table_that_was_made_for_the_other_direction_is_refused(dynoxide: Server) -> None:
    """The same orders above their customers are other items: homes are not moved, which is said before anything is."""
    model, design = shop(), designed(shop(), "dynamodb")
    view = home_of(design, "Customer")
    upwards = tuple(
        replace(embed, sort=tuple(replace(part, descending=False) for part in embed.sort)) for embed in view.embeds
    )
    other = replace(design, views={**design.views, view.name: replace(view, embeds=upwards)})
    with opened(model, url_of(dynoxide.url), rows(), design) as pair:
        with pytest.raises(DesignMismatchError, match="'Order' lie under other keys"):
            keyplan.apply(model, pair.url, design=other)
        pair.agrees(reads())
        pair.verified()


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("down", [False, True])
def test_customers_come_with_their_first_orders(dynoxide: Server, down: bool, strong: bool) -> None:
    model = shop(down=down, strong=strong)
    draw = random.Random(7)
    with opened(model, url_of(dynoxide.url), rows(), designed(model, "dynamodb")) as pair:
        pair.agrees(reads())
        for number in range(40):
            name, arguments = some_write(draw)
            with contextlib.suppress(ConflictError):
                pair.same(name, **arguments)
            pair.agrees(reads())
            if number % 20 == 0:
                pair.verified()
        pair.verified()


def asked(pair: Pair, meter: Metered, name: str, **arguments: Any) -> tuple[Any, dict[str, Any], int]:
    """The answer of a call that takes one request: with its body, and the items that it brought."""
    meter.reset()
    found = pair.same(name, **arguments)
    assert meter.taken.operations == ["Query"]
    return found, meter.taken.bodies[0], meter.taken.replies[0]["ScannedCount"]


def test_one_query_brings_a_customer_and_no_more_orders_than_are_wanted(server: Server) -> None:
    model = shop()
    design = designed(model, "dynamodb")
    with opened(model, url_of(server.url), rows(), design) as pair:
        meter = Metered(pair.store._port, model, design)
        found, body, items = asked(pair, meter, "newest", username="ann")
        assert ([one["number"] for one in found["orders"]], body["Limit"], items) == ([8, 7, 6], 4, 4)
        assert body["ScanIndexForward"] is False
        # An eventual read of so few bytes takes half a unit, and that is what the plan says.
        assert meter.taken.read == {"": 0.5} == {"": design.plans["newest"].figures.units["read units"]}
        found, _, items = asked(pair, meter, "newest", username="bob")
        assert ([one["number"] for one in found["orders"]], items) == ([20, 1], 3)
        found, _, items = asked(pair, meter, "newest", username="cay")
        assert (found["orders"], items) == ([], 1)
        # Orders without a customer are nobody's.
        found, _, items = asked(pair, meter, "newest", username="d!")
        assert (found, items) == (None, 4)
        found, body, items = asked(pair, meter, "addressed", username="ann")
        assert (len(found["addresses"]), items, body.get("Limit")) == (2, 3, None)


def test_large_orders_come_in_pages(dynoxide: Server) -> None:
    """A Query brings 1 MB at most: it goes on where it ended, with as many as are left."""
    model = keyplan.parse_model(
        """
        keyplan: 1
        name: large
        entities:
          Album: { count: 1k, fields: { album_id: "int, key", name: string(10) } }
          Scan:
            count: 100k
            key: [album, page]
            fields: { album: "Album, as scans", page: int, data: bytes(100kB) }
        patterns:
          album:
            { find: Album, where: album_id = :album_id, with: { scans: { order: page desc, limit: 15 } }, rate: 100/s }
        writes:
          scan: { create: Scan, rate: 1/day }
        targets: { dynamodb: { billing: on_demand } }
        """
    )
    design = keyplan.design(model, "dynamodb", advise=False)
    assert [str(part) for part in home_of(design, "Album").embeds[0].sort] == ["page desc"]
    data: list[tuple[str, dict[str, Any]]] = [("Album", {"album_id": 1, "name": "a"})]
    data += [("Scan", {"album": 1, "page": page, "data": bytes(100_000)}) for page in range(30)]
    with opened(model, url_of(dynoxide.url), data, design) as pair:
        meter = Metered(pair.store._port, model, design)
        found = pair.same("album", album_id=1)
        assert [one["page"] for one in found["scans"]] == list(range(29, 14, -1))
        assert meter.taken.operations == ["Query", "Query"]
        first, last = meter.taken.bodies
        read = [len(reply["Items"]) for reply in meter.taken.replies]
        assert (first["Limit"], last["Limit"], sum(read)) == (16, 16 - read[0], 16)
        assert design.plans["album"].figures.requests == 2


INBOX = """
entities:
  User: { count: 1M, fields: { user_id: "int, key", name: string(10) } TTL }
  Note:
    count: 100M
    key: [user, number]
    fields: { user: "User, as notes", number: int, seen: timestamp }
    ttl: 1h since seen
patterns:
  inbox: { find: User, where: user_id = :user_id, with: { notes: { order: number desc, limit: 3 } }, rate: 1k/s }
writes:
  join: { create: User, rate: 1/s }
  tell: { create: Note, rate: 1/s }
targets: { dynamodb: { billing: on_demand } }
"""


def test_expired_notes_give_way_to_the_next_ones(dynoxide: Server) -> None:
    """Items stay for a while when they have expired; a second Query brings more, and a third, if it takes them."""
    model = parsed(INBOX.replace(" TTL", ""))
    design = designed(model, "dynamodb")
    assert [str(part) for part in home_of(design, "User").embeds[0].sort] == ["number desc"]
    notes = [
        ("Note", {"user": user, "number": number, "seen": NOON + timedelta(hours=8 * (number < live))})
        for user, live in ((1, 20), (2, 19), (3, 18), (4, 12), (5, 2), (6, 0))
        for number in range(20)
    ]
    users = [("User", {"user_id": number, "name": "u"}) for number in range(1, 8)]
    with opened(model, url_of(dynoxide.url), [*users, *notes], design) as pair:
        meter = Metered(pair.store._port, model, design)

        def asked_of(user: int) -> tuple[list[int], list[int]]:
            meter.reset()
            found = pair.same("inbox", user_id=user)
            return [one["number"] for one in found["notes"]], [body["Limit"] for body in meter.taken.bodies]

        assert asked_of(2) == ([19, 18, 17], [4])
        pair.clock.advance(hours=2)
        assert asked_of(1) == ([19, 18, 17], [4])
        assert asked_of(2) == ([18, 17, 16], [4, 3])
        assert asked_of(3) == ([17, 16, 15], [4, 3])
        assert asked_of(4) == ([11, 10, 9], [4, 3, 6])
        assert asked_of(5) == ([1, 0], [4, 3, 6, 12])
        assert asked_of(6) == ([], [4, 3, 6, 12])
        assert asked_of(7) == ([], [4])
        pair.clock.advance(hours=10)
        assert asked_of(1) == ([], [4, 3, 6, 12])


def test_users_that_expire_have_no_notes(dynoxide: Server) -> None:
    """Nothing more is asked for then, whatever has become of the notes."""
    model = parsed(INBOX.replace(" TTL", ", ttl: 2h"))
    design = designed(model, "dynamodb")
    notes = [("Note", {"user": 1, "number": number, "seen": NOON}) for number in range(9)]
    with opened(model, url_of(dynoxide.url), [("User", {"user_id": 1, "name": "u"}), *notes], design) as pair:
        meter = Metered(pair.store._port, model, design)
        pair.clock.advance(hours=3)
        assert pair.same("inbox", user_id=1) is None
        assert meter.taken.operations == ["Query"]


def test_it_is_explained_with_its_limit() -> None:
    told = keyplan.explain(shop(), designed(shop(), "dynamodb"), "newest")
    (step,) = told["steps"]
    shown = ('"Limit": 4', '"ScanIndexForward": false', '":low": "CUSTOMER!ORDER#"', '":high": "CUSTOMER#"')
    assert [text for text in shown if text not in step["words"]] == []


def test_children_that_are_read_by_themselves_are_explained_with_their_limit() -> None:
    model = parsed(
        """
        entities:
          Post: { count: 1M, fields: { post_id: "int, key", title: string(10) } }
          Comment:
            count: 100M
            fields: { comment_id: "ulid, key", post: "Post, as comments", author: "string(10), distinct 1M" }
        patterns:
          post:
            find: Post
            where: post_id in :posts
            with: { comments: { order: comment_id desc, limit: 7 } }
            rate: 1/h
          comment: { find: Comment, where: comment_id = :comment_id, consistency: strong, rate: 10k/s }
        writes:
          say: { create: Comment, rate: 1k/s }
        """
    )
    told = keyplan.explain(model, designed(model, "dynamodb"), "post")
    (query,) = [step["words"] for step in told["steps"] if step.get("words", "").startswith("Query")]
    assert [text for text in ('"Limit": 7', '"ScanIndexForward": false') if text not in query] == []


GAMES = """
entities:
  Game: { count: 5M, fields: { game_id: "int, key", map: "string(16), distinct 10", people: "int, default 0" } }
  Seat:
    count: 250M
    key: [game, user]
    fields: { game: "Game, as seats, max 50", user: "int, distinct 1M", joined: int, place: "int, default 0" }
patterns:
  game: { find: Game, where: game_id = :game_id, with: [seats], rate: 50/s }
  seats: { find: Seat, where: game = :game_id, with: [game.map], page: 2, rate: 20/s }
  games_of_user: { find: Seat, where: user = :user, order: joined desc, page: 20, with: [game.map], rate: 100/s }
writes:
  begin: { create: Game, rate: 1/s }
  remap: { update: Game, set: [map], where: game_id = :game_id, rate: 1/day }
  end: { delete: Game, where: game_id = :game_id, rate: 1/day }
  count: { update: Game, add: [people], where: game_id = :game_id, rate: 1/s }
  sit: { create: Seat, rate: 1/s }
  move: { update: Seat, set: [place], where: game = :game_id and user = :user, rate: 500/s }
  leave: { delete: Seat, where: game = :game_id and user = :user, rate: 1/s }
transactions:
  join: [sit, count]
targets: { dynamodb: { billing: on_demand } }
"""


def test_seats_copy_what_is_wanted_of_them_alone_beside_their_game(dynoxide: Server) -> None:
    """A value of the very row that they lie beside, which may come, change and go."""
    model = parsed(GAMES)
    design = designed(model, "dynamodb")
    (seats,) = home_of(design, "Game").embeds
    assert design.homes["Seat"] == (design.homes["Game"][0], ("seats",))
    assert "game.map" in seats.holds
    assert design.plans["game"].figures.requests == 1
    draw = random.Random(11)
    reads = [("game", {"game_id": number}) for number in range(4)] + [("seats", {"game_id": n}) for n in range(4)]
    reads += [("games_of_user", {"user": user}) for user in range(3)]
    with opened(model, url_of(dynoxide.url), [("Game", {"game_id": 1, "map": "m", "people": 0})], design) as pair:
        for number in range(80):
            game, user = {"game_id": draw.randrange(4)}, {"user": draw.randrange(3)}
            sit = {"game": game["game_id"], **user, "joined": draw.randrange(5), "place": 0}
            able: dict[str, dict[str, Any]] = {
                "begin": {**game, "map": draw.choice("xyz"), "people": 0},
                "remap": {**game, "map": draw.choice("xyz")},
                "end": game,
                "sit": sit,
                "move": {**game, **user, "place": draw.randrange(5)},
                "leave": {**game, **user},
                "join": {"sit": sit, "count": {**game, "people": 1}},
            }
            name = draw.choice([*able, "begin", "sit", "join"])
            with contextlib.suppress(ConflictError):
                pair.same(name, **able[name])
            pair.agrees(reads)
            if number % 20 == 0:
                pair.verified()
        pair.verified()


# generated programs

EXAMPLES = max(60, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 5)
"""Of which a third has rows with children."""

COUNTED: list[tuple[bool, bool]] = []
"""Per program that reads rows with children along: whether only the first of them, and whether backwards."""


@pytest.fixture(autouse=True)
def some_share(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the generated programs would say nothing."""
    before = len(COUNTED)
    yield
    if request.node.originalname == "test_first_children_are_those_of_the_reference":
        found = COUNTED[before:]
        assert len(found) > EXAMPLES / 8, found
        assert sum(first for first, _ in found) > EXAMPLES / 12, found
        assert any(first and down for first, down in found), found
        assert any(first and not down for first, down in found), found


@pytest.fixture
def children_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections of rows and their children cost next to nothing, so that there are many."""
    priced = cost.cost_model

    def cheap(model: Model) -> Any:
        costs: Any = priced(model)
        read, touch, keep = costs.read, costs.touch, costs.keep
        costs.read = lambda work: replace(one := read(work), cost=one.cost * (0.001 if work.along else 1.0))
        costs.touch = lambda work: Cost(1e-9, {"write units": 1e-9}) if work.view.embeds else touch(work)
        costs.keep = lambda view, facts: 0.0 if view.embeds else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_first_children_are_those_of_the_reference(
    dynoxide: Server, children_along: None, designs: Designs, data: st.DataObject
) -> None:
    """Generated programs on designs in which children come along; every view is compared at the end."""
    program = data.draw(families())
    model = replace(data.draw(statistics(program.model)), targets={"dynamodb": {"billing": "on_demand"}})
    design = designs.of(model, "dynamodb")
    along = [search for plan in design.plans.values() for search in searches(plan.node) if search.along]
    if along:
        first = [one for one in along if first_along(model, design.views[one.view], one.along) is not None]
        sorts = [embed.sort for one in first for embed in design.views[one.view].embeds if embed.role in one.along]
        COUNTED.append((bool(first), any(all(part.descending for part in sort) for sort in sorts)))
        run(program, model, url_of(dynoxide.url), design)
