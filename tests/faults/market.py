"""A small market whose views are of every sort, and workers that change overlapping rows of it.

A worker is a process: `python -m tests.faults.market URL SEED COUNT LOG`. It appends a line to its log after each
write that was acknowledged, so that somebody else can add up what has to be there.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keyplan
from keyplan.errors import ConflictError, UncertainError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.store import Store

MODEL = """
keyplan: 1
name: market
entities:
  User:
    count: 1M
    fields:
      uid: int, key
      email: string(8), unique, optional 80%
      name: string(8), default 'nobody'
      spent: sum(orders.total)
      orders_made: count(orders)
      largest: max(orders.total)
  Order:
    count: 10M
    fields:
      oid: uuid, key
      user: User, as orders
      status: enum(open 10%, done 90%), default open
      total: int, default 0
      note: string(20), optional 10%
      tags: set(string(4), avg 2)
  Item:
    count: 30M
    key: [order, line]
    fields:
      order: Order, as items, max 5
      line: int
      product: Product, as sold
      qty: int, default 1
  Product:
    count: 1k
    fields:
      sku: string(4), key
      stock: int, default 0
      hits: int, default 0
      label: string(8), default 'x'
      sales: sum(sold.qty)
patterns:
  user: { find: User, where: "uid = :uid", rate: 100/s }
  by_email: { find: User, where: "email = :email", rate: 100/s }
  orders_of: { find: Order, where: "user = :uid", order: total desc, page: 10, rate: 100/s }
  open_orders: { find: Order, where: "status = 'open'", order: total, limit: 10, select: [oid, user.name], rate: 500/s }
  of_name: { find: Order, where: "user.name = :name", order: total, limit: 5, select: [oid, total], rate: 500/s }
  tagged: { find: Order, where: "contains(tags, :tag)", order: total, limit: 5, select: [oid], rate: 500/s }
  noted: { find: Order, where: "search(note, :words)", limit: 5, order: oid, select: [oid], rate: 100/s }
  order: { find: Order, where: "oid = :oid", with: [items, items.product.label], rate: 500/s }
  best: { find: User, order: spent desc, limit: 3, rate: 100/s }
  biggest: { find: User, where: "largest >= :total", order: largest, limit: 3, rate: 100/s }
  by_name: { count: Item, group: { label: product.label, status: order.status }, rate: 100/s }
  by_status: { count: Order, group: [status], rate: 100/s }
  best_orders: { find: User, where: "uid = :uid", with: { orders: { order: total desc, limit: 2 } }, rate: 2k/s }
  product: { find: Product, where: "sku = :sku", rate: 500/s }
writes:
  join: { upsert: User, rate: 1/s }
  email: { update: User, set: [email], where: "uid = :uid", rate: 1/s }
  rename: { update: User, set: [name], where: "uid = :uid", rate: 1/h }
  place: { create: Order, with: [items], rate: 5/s }
  change: { update: Order, set: [status, total, tags, note], where: "oid = :oid", rate: 1/s }
  give: { update: Order, set: [user], where: "oid = :oid", rate: 1/s }
  drop: { delete: Order, with: [items], where: "oid = :oid", rate: 1/s }
  hit: { update: Product, add: { hits: 1 }, where: "sku = :sku", rate: 10/s }
  take: { update: Product, add: { stock: "-:n" }, where: "sku = :sku", if: "stock >= :n", rate: 10/s }
  make: { create: Product, rate: 1/day }
  label: { update: Product, set: [label], where: "sku = :sku", rate: 1/h }
transactions:
  checkout: [place, take x1 max 2]
"""

USERS, PRODUCTS, STOCK = 5, 3, 60
KINDS = ["place", "checkout", "change", "change", "give", "drop", "hit", "take", "email", "rename", "label"]


@cache
def model() -> Model:
    return keyplan.parse_model(MODEL)


@cache
def designed(engine: str) -> Design:
    return keyplan.design(model(), engine, advise=False)


def prepare(url: str, design: Design | None = None) -> Model:
    """Applies the design, or another one, and puts the users and products there."""
    made = model()
    keyplan.apply(made, url, design=design or designed(keyplan.engine_of(url)))
    with keyplan.open(made, url) as store:
        fill(store)
    return made


def fill(store: Store) -> None:
    """Users and products, whom all writes are about."""
    store.load([("User", {"uid": number}) for number in range(USERS)])
    store.load([("Product", {"sku": f"p{number}", "stock": STOCK}) for number in range(PRODUCTS)])


def steps(store: Store, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Random writes without an end, mostly on the same few rows."""
    source = random.Random(seed)
    mine: list[Any] = []
    while True:
        uid, sku = source.randrange(USERS), f"p{source.randrange(PRODUCTS)}"
        kind = source.choice(KINDS)
        if kind in ("change", "give", "drop") and not mine:
            kind = "place"
        items = [{"line": line, "product": f"p{source.randrange(PRODUCTS)}"} for line in range(source.randrange(3))]
        placed = {
            "user": uid,
            "total": source.randrange(100),
            "tags": source.sample("abc", 2),
            "items": items,
            "oid": f"{source.getrandbits(128):032x}",
        }
        if kind == "place":
            mine.append(placed["oid"])
            yield kind, placed
        elif kind == "checkout":
            mine.append(placed["oid"])
            yield kind, {"place": placed, "take": [{"sku": sku, "n": 1}]}
        elif kind == "change":
            note = source.choice([None, "blue lamp", "red lamp"])
            status, tags = source.choice(["open", "done"]), source.sample("abcd", source.randrange(3))
            yield (
                kind,
                {
                    "oid": source.choice(mine),
                    "status": status,
                    "total": source.randrange(100),
                    "tags": tags,
                    "note": note,
                },
            )
        elif kind == "give":
            yield kind, {"oid": source.choice(mine), "user": uid}
        elif kind == "drop":
            yield kind, {"oid": mine.pop(source.randrange(len(mine)))}
        elif kind == "hit":
            yield kind, {"sku": sku}
        elif kind == "take":
            yield kind, {"sku": sku, "n": source.randrange(1, 4)}
        elif kind == "email":
            yield kind, {"uid": uid, "email": source.choice(["a", "b", None])}
        elif kind == "rename":
            yield kind, {"uid": uid, "name": source.choice(["ann", "bob", "cy"])}
        else:
            yield kind, {"sku": sku, "label": source.choice("xyz")}


def work(url: str, seed: int, count: int, log: str) -> None:
    """Does so many writes and logs those that were acknowledged; what is uncertain is logged as that."""
    with keyplan.open(model(), url) as store, Path(log).open("a", encoding="utf-8") as file:

        def say(*line: Any) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        say("ready")
        for _, (name, arguments) in zip(range(count), steps(store, seed), strict=False):
            say("begins", name, arguments)
            try:
                getattr(store, name)(**arguments)
            except ConflictError:
                say("refused", name, arguments)
            except UncertainError:
                say("uncertain", name, arguments)
            else:
                say("done", name, arguments)
        say("ended")


def start(url: str, seed: int, count: int, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.market", url, str(seed), str(count), str(log)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)


def lines(log: Path) -> list[list[Any]]:
    """What a worker logged; a line that a kill cut off was not acknowledged."""
    if not log.exists():
        return []
    return [
        json.loads(line) for line in log.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")
    ]


def check(url: str, logs: list[list[list[Any]]], repair: bool = False) -> None:
    """Every view is what its home rows imply, and nothing that was acknowledged is missing."""
    with keyplan.open(model(), url) as store:
        store.settle()
        found = store.verify(repair=repair)
        if repair:
            found = store.verify()
        assert found.ok, found.problems
        acknowledged = [line for log in logs for line in log if line[0] == "done"]
        unknown = [log[-1] for log in logs if log[-1][0] == "begins"]
        unknown += [line for log in logs for line in log if line[0] == "uncertain"]
        for number in range(PRODUCTS):
            sku = f"p{number}"
            row = store.product(sku=sku)
            assert row["stock"] >= 0
            hits = sum(1 for line in acknowledged if line[1] == "hit" and line[2]["sku"] == sku)
            maybe = sum(1 for line in unknown if line[1] == "hit" and line[2]["sku"] == sku)
            assert hits <= row["hits"] <= hits + maybe
            taken = sum(taken_by(line, sku) for line in acknowledged)
            maybe = sum(taken_by(line, sku) for line in unknown)
            assert taken <= STOCK - row["stock"] <= taken + maybe
        emails = [store.user(uid=uid)["email"] for uid in range(USERS)]
        given = [email for email in emails if email is not None]
        assert len(given) == len(set(given))
        for log in logs:
            orders_are_there(store, log)


def taken_by(line: list[Any], sku: str) -> int:
    """How much of a product a logged write takes."""
    if line[1] == "take":
        return int(line[2]["n"]) if line[2]["sku"] == sku else 0
    if line[1] == "checkout":
        return sum(int(one["n"]) for one in line[2]["take"] if one["sku"] == sku)
    return 0


def orders_are_there(store: Store, log: list[list[Any]]) -> None:
    """Only its own worker writes an order, so that its last acknowledged state is known."""
    wanted: dict[str, dict[str, Any] | None] = {}
    for what, name, arguments in (line for line in log if len(line) == 3):
        placed = arguments.get("place", arguments) if name in ("place", "checkout") else arguments
        oid = placed.get("oid")
        if oid is None:
            continue
        if what in ("begins", "uncertain"):
            wanted.setdefault(f"?{oid}", {})
        if what == "done":
            wanted.pop(f"?{oid}", None)
            if name in ("place", "checkout"):
                wanted[oid] = {"user": placed["user"], "total": placed["total"], "items": len(placed["items"])}
            elif name == "drop":
                wanted[oid] = None
            elif wanted.get(oid) is not None:
                kept: dict[str, Any] = wanted[oid] or {}
                kept |= {key: value for key, value in arguments.items() if key in kept}
        if what == "refused":
            wanted.pop(f"?{oid}", None)
    for oid, expected in wanted.items():
        if oid.startswith("?") or f"?{oid}" in wanted:
            continue  # its last write was cut off, and may or may not have happened
        row = store.order(oid=oid)
        if expected is None:
            assert row is None, f"{oid} was dropped"
        else:
            assert row is not None, f"{oid} is missing"
            assert {"user": row["user"], "total": row["total"], "items": len(row["items"])} == expected


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a worker at once, wherever it is."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
