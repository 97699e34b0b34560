"""References written before the row that they lead to: its values appear in whatever copies them once it is there.

Where the rows that point at nothing have a view of their own, it follows every way in which a row comes to point at
nothing, and ceases to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from keyplan.engines import engine_for_url
from keyplan.errors import ConflictError
from keyplan.model.model import path_of
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, designed, opened, parsed
from tests.conftest import Lend
from tests.noting import noting

MODEL = """
entities:
  Firm:
    fields:
      id: int, key
      city: string(8), optional 50%
  User:
    fields:
      id: int, key
      name: string(8)
      firm: Firm, as users, optional 70%
  Place:
    key: [row, seat]
    fields:
      row: int
      seat: int
      kind: string(8), immutable
  Order:
    fields:
      id: int, key
      user: User, as orders
      giver: User, as gifts, optional 40%
      place: Place, as orders, optional 60%
      note: string(8), optional 50%
  Line:
    key: [order, number]
    fields:
      order: Order, as lines
      number: int
      text: string(8)
patterns:
  orders: { find: Order, where: "user = :user", with: [user.name, giver.name], order: id, page: 50, p99: 20ms }
  order: { find: Order, where: "id = :id", with: [user.name, user.firm.city, place.kind], p99: 20ms }
  by_name: { find: Order, where: "user.name = :name", order: id, page: 50 }
  seated: { find: Order, where: "place.kind = :kind", order: id, page: 50 }
  lines: { find: Line, where: "order = :order", with: [order.note], order: number, page: 50 }
  users: { find: User, where: "id = :id", with: [firm.city] }
writes:
  found: { create: Firm }
  shut: { delete: Firm, where: "id = :id" }
  join: { create: User }
  save: { upsert: User }
  rename: { update: User, where: "id = :id", set: [name] }
  employ: { update: User, where: "id = :id", set: [firm] }
  leave: { delete: User, where: "id = :id" }
  build: { create: Place }
  tear: { delete: Place, where: "row = :row and seat = :seat" }
  place: { create: Order }
  put: { upsert: Order }
  give: { update: Order, where: "id = :id", set: [giver] }
  sell: { update: Order, where: "id = :id", set: [user] }
  mark: { update: Order, where: "id = :id", set: [note] }
  cancel: { delete: Order, with: [lines], where: "id = :id" }
  add: { create: Line }
  drop: { delete: Line, where: "order = :order and number = :number" }
transactions:
  both: [join, place]
  gone: [leave, place]
  turn: [join, cancel]
"""

KEYS = range(4)


def arguments(name: str, chance: random.Random) -> dict[str, Any]:
    """Arguments of one write, out of few enough values that rows meet."""

    def key() -> int:
        return chance.choice(KEYS)

    def maybe(value: Any) -> Any:
        return chance.choice((None, value, value))

    def seat() -> tuple[int, int]:
        return (chance.randrange(2), chance.randrange(2))

    word = chance.choice(("ann", "bob", "cid"))
    user = {"id": key(), "name": word, "firm": maybe(key())}
    order = {"id": key(), "user": key(), "giver": maybe(key()), "place": maybe(seat()), "note": maybe(word)}
    row, number = seat()
    return {
        "found": {"id": key(), "city": maybe(word)},
        "shut": {"id": key()},
        "join": user,
        "save": user,
        "rename": {"id": key(), "name": word},
        "employ": {"id": key(), "firm": maybe(key())},
        "leave": {"id": key()},
        "build": {"row": row, "seat": number, "kind": word},
        "tear": {"row": row, "seat": number},
        "place": order,
        "put": order,
        "give": {"id": key(), "giver": maybe(key())},
        "sell": {"id": key(), "user": key()},
        "mark": {"id": key(), "note": maybe(word)},
        "cancel": {"id": key()},
        "add": {"order": key(), "number": key(), "text": word},
        "drop": {"order": key(), "number": key()},
        "both": {"join": user, "place": order},
        "gone": {"leave": {"id": key()}, "place": order},
        "turn": {"join": user, "cancel": {"id": key()}},
    }[name]


def read_everything(pair: Pair) -> None:
    for key in KEYS:
        pair.same("orders", user=key)
        pair.same("order", id=key)
        pair.same("lines", order=key)
        pair.same("users", id=key)
    for word in ("ann", "bob", "cid"):
        for name, parameter in (("by_name", "name"), ("seated", "kind")):
            if pair.serves(name):
                pair.same(name, **{parameter: word})


@pytest.fixture(params=["designed", "noted"])
def pair(request: pytest.FixtureRequest, lend: Lend, size: str) -> Iterator[Pair]:
    """As designed, and with the rows that point at nothing noted for every reference."""
    model = parsed(MODEL, size)
    url = lend(MODEL, size, request.param)
    design = designed(model, engine_for_url(url).name)
    with opened(model, url, design=noting(model, design) if request.param == "noted" else design) as pair:
        yield pair
        pair.verified()


@pytest.mark.parametrize("seed", range(4))
def test_copies_appear_whoever_comes_first(pair: Pair, seed: int) -> None:
    chance = random.Random(seed)
    names = [*pair.model.writes, *pair.model.transactions]
    for _ in range(4):
        for _ in range(20):
            name = chance.choice(names)
            if pair.serves(name):
                with suppress(ConflictError):  # the same on both sides
                    pair.same(name, **arguments(name, chance))
        read_everything(pair)
        pair.verified()


def test_rows_are_loaded_before_what_they_point_at(pair: Pair) -> None:
    chance = random.Random(5)
    orders = [("Order", {**arguments("put", chance), "id": number}) for number in range(12)]
    lines = [("Line", {**arguments("add", chance), "number": number}) for number in range(8)]
    users = [("User", {**arguments("save", chance), "id": number}) for number in KEYS]
    firms = [("Firm", {**arguments("found", chance), "id": number}) for number in KEYS]
    for rows in (lines, orders, users, firms):
        pair.load(rows)
        read_everything(pair)
    pair.verified()


MADE_ONCE = """
entities:
  Product:
    fields: { sku: "string(8), key", name: "string(8)" }
  Sale:
    fields: { id: "int, key", product: "Product, as sales", price: int }
patterns:
  sale: { find: Sale, where: "id = :id", with: [product.name] }
  named: { find: Sale, where: "price = :price", order: product.name, page: 10 }
writes:
  offer: { create: Product }
  sell: { create: Sale }
  undo: { delete: Sale, where: "id = :id" }
"""


def test_a_create_does_not_read_all_rows_that_may_point_at_it(both: Both, size: str) -> None:
    """Where copies are kept and nothing else finds rows by their reference, those that point at nothing are noted."""
    pair = both(MADE_ONCE)
    copied = any(
        path_of(text, pair.model, view.entity).roles for view in pair.store.design.views.values() for text in view.holds
    )
    assert copied or size != "read"
    assert bool(pair.store.design.dangling) == (copied and size != "small")
    for number in range(3):
        pair.same("sell", id=number, product="a" if number else "b", price=number)
    pair.same("undo", id=0)
    pair.same("offer", sku="a", name="nut")
    pair.same("offer", sku="b", name="bolt")
    for number in range(3):
        pair.same("sale", id=number)
        pair.same("named", price=number)


TURNED = """
entities:
  Ant: { fields: { k: "int, key", seen: timestamp } }
  Bee: { fields: { id: "int, key", r: "Ant, as bees, optional 50%", c: "string(8)" } }
patterns:
  unseen: { find: Bee, where: "missing(r.seen)", order: id, page: 10 }
  bee: { find: Bee, where: "id = :id", with: [r.seen] }
writes:
  hatch: { create: Ant }
  make: { create: Bee }
  turn: { update: Bee, where: "id = :id", set: [r] }
  drop: { delete: Bee, where: "id = :id" }
"""


def test_a_note_that_stayed_changes_nothing(lend: Lend) -> None:
    """A row pointed at nothing, and now points elsewhere, at none or is gone: then what it pointed at comes."""
    model = parsed(TURNED, "read")
    url = lend(TURNED)
    with opened(model, url) as pair:
        assert pair.store.design.dangling
        for id in range(4):
            pair.same("make", id=id, r=5, c="x")
        pair.same("turn", id=0, r=None)
        pair.same("turn", id=1, r=6)
        pair.same("drop", id=2)
        for key in (5, 6):
            pair.same("hatch", k=key, seen=pair.clock())
            pair.same("unseen")
            for id in range(4):
                pair.same("bee", id=id)
        pair.verified()
