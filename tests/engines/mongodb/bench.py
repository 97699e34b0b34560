"""The store against pymongo, MongoEngine and Beanie on one mongod: `python -m tests.engines.mongodb.bench`.

One call at a time: a replica set of one node, so that the server does as little else as possible. Every side reads the
same documents; pymongo's are made into rows with the same types by hand.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import pymongo

import keyplan
from tests.bench.harness import Compared, compare, comparison_table, failures, machine
from tests.bench.orders import MODEL, Row, new_id, orders
from tests.engines.mongodb import rivals
from tests.engines.mongodb.server import Server
from tests.engines.mongodb.software import MONGOD

CUSTOMERS, ORDERS = 100, 4000
OPERATIONS = 40
ROUNDS = 40
LOADED = 1000


class World:
    """The collection, and what to ask of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.source = random.Random(1)
        self.customers = [new_id(self.source) for _ in range(CUSTOMERS)]
        self.model = keyplan.load_model(MODEL)
        keyplan.apply(self.model, self.url)
        known = orders(self.source, self.customers, ORDERS)
        with keyplan.open(self.model, self.url) as store:
            store.load(known)
        self.ids: list[UUID] = [row["order_id"] for _, row in self.source.sample(known, OPERATIONS)]
        self.some = [self.source.choice(self.customers) for _ in range(OPERATIONS)]


def block(operation: Callable[[Any], object], items: Sequence[Any]) -> Callable[[], object]:
    def run() -> None:
        for one in items:
            operation(one)

    return run


def compared_sync(world: World) -> Iterator[Compared]:
    with keyplan.open(world.model, world.url) as store:

        def get(key: UUID) -> Any:
            return store.order_by_id(order_id=key)

        def page(customer: UUID) -> Any:
            return store.orders_of_customer(customer_id=customer).rows

        raw, engine = rivals.Raw(world.url), rivals.Engine(world.url)
        assert get(world.ids[0]) == raw.get(world.ids[0]) == rivals.plain(engine.get(world.ids[0]))
        assert page(world.some[0]) == raw.page(world.some[0])
        assert page(world.some[0]) == [rivals.plain(each) for each in engine.page(world.some[0])]
        for rival, bar in ((raw, 0.85), (engine, 1.5)):
            for name, ours, theirs, items in (
                ("find by key", get, rival.get, world.ids),
                ("page of 20", page, rival.page, world.some),
            ):
                yield compare(
                    f"{name}, sync, against {rival.name}",
                    block(ours, items),
                    block(theirs, items),
                    operations=OPERATIONS,
                    bar=bar,
                    rounds=ROUNDS,
                )
        fresh: list[tuple[str, Row]] = []

        def renew() -> None:
            fresh[:] = orders(world.source, world.customers, LOADED)

        yield compare(
            "load, per row, against insert_many",
            lambda: store.load(fresh),
            lambda: raw.load([row for _, row in fresh]),
            operations=LOADED,
            bar=0.8,
            rounds=ROUNDS // 2,
            before=renew,
        )
        raw.client.close()


def compared_async(world: World) -> Iterator[Compared]:
    with asyncio.Runner() as runner:
        rival = rivals.Beanie()

        async def start() -> Any:
            await rival.start(world.url)
            return await keyplan.open_async(world.model, world.url)

        store = runner.run(start())

        async def get(key: UUID) -> Any:
            return await store.order_by_id(order_id=key)

        async def page(customer: UUID) -> Any:
            return (await store.orders_of_customer(customer_id=customer)).rows

        def block_of(operation: Callable[[Any], Awaitable[object]], items: Sequence[Any]) -> Callable[[], object]:
            async def run() -> None:
                for one in items:
                    await operation(one)

            return lambda: runner.run(run())

        assert runner.run(get(world.ids[0])) == rivals.plain(runner.run(rival.get(world.ids[0])))
        found = runner.run(rival.page(world.some[0]))
        assert runner.run(page(world.some[0])) == [rivals.plain(each) for each in found]
        for name, ours, theirs, items in (
            ("find by key", get, rival.get, world.ids),
            ("page of 20", page, rival.page, world.some),
        ):
            yield compare(
                f"{name}, async, against {rival.name}",
                block_of(ours, items),
                block_of(theirs, items),
                operations=OPERATIONS,
                bar=1.5,
                rounds=ROUNDS,
            )
        runner.run(store.close())
        runner.run(rival.client.close())


def main() -> int:
    rivals.install()
    packages = ", ".join((f"pymongo=={pymongo.version}", *rivals.PACKAGES))
    print(f"mongod {MONGOD}, one at a time; {packages}; {machine()}\n")
    with Server(nodes=1) as server:
        world = World(server.url_of("bench"))
        found = [*compared_sync(world), *compared_async(world)]
    print(comparison_table(found))
    return failures(found)


if __name__ == "__main__":
    sys.exit(main())
