"""The store against boto3, PynamoDB and aiodynamo on dynoxide, 32 in flight: `python -m tests.engines.dynamodb.bench`.

Sync sides run on 32 threads, async ones as 32 tasks. Every side has the same table, sends one request per operation and
returns equally typed rows. A bulk load is compared with batches sent through the store's own transport.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any
from uuid import UUID

import keyplan
from keyplan.engines.dynamodb.credentials import Address, resolve
from keyplan.engines.dynamodb.transport import Call, Transport
from tests.bench.harness import Compared, compare, comparison_table, failures, machine
from tests.bench.orders import MODEL, Row, new_id, orders
from tests.engines.dynamodb import rivals
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.software import DYNOXIDE

IN_FLIGHT = 32
TABLE = "bench"
CUSTOMERS, ORDERS = 100, 4000
OPERATIONS = 160
ROUNDS = 15
LOADED = 1000

Operation = Callable[[Any], object]


class World:
    """The table, and what to ask of it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.url = f"dynamodb://{TABLE}?region={rivals.REGION}&endpoint={endpoint}"
        self.source = random.Random(1)
        self.customers = [new_id(self.source) for _ in range(CUSTOMERS)]
        self.model = keyplan.load_model(MODEL)
        keyplan.apply(self.model, self.url)
        known = orders(self.source, self.customers, ORDERS)
        with keyplan.open(self.model, self.url) as store:
            store.load(known)
        self.ids: list[UUID] = [row["order_id"] for _, row in self.source.sample(known, OPERATIONS)]
        self.some = [self.source.choice(self.customers) for _ in range(OPERATIONS)]

    def rows(self, count: int) -> list[Row]:
        return [row for _, row in orders(self.source, self.customers, count)]


def chunks(items: Sequence[Any]) -> list[list[Any]]:
    """The items, dealt to as many workers as are in flight."""
    return [list(islice(items, start, None, IN_FLIGHT)) for start in range(IN_FLIGHT)]


def compared_sync(world: World) -> Iterator[Compared]:
    """Threads."""
    store = keyplan.open(world.model, world.url)
    with store, ThreadPoolExecutor(IN_FLIGHT) as pool:

        def block(operation: Operation, items: Sequence[Any]) -> Callable[[], object]:
            return lambda: list(pool.map(lambda some: [operation(one) for one in some], chunks(items)))

        def page(customer: UUID) -> object:
            return store.orders_of_customer(customer_id=customer).rows

        fresh: list[Row] = []

        def renew() -> None:
            fresh[:] = world.rows(OPERATIONS)

        for rival in (
            rivals.Boto3(world.endpoint, TABLE, IN_FLIGHT),
            rivals.Pynamo(world.endpoint, TABLE, IN_FLIGHT),
        ):
            kinds = [
                ("get", lambda one: store.order_by_id(order_id=one), rival.get, world.ids, None),
                ("create", lambda row: store.place_order(**row), rival.put, fresh, renew),
                (
                    "query of 20",
                    lambda one: store.orders_of_customer(customer_id=one).rows,
                    rival.query,
                    world.some,
                    None,
                ),
            ]
            for name, ours, theirs, items, before in kinds:
                if before is None:
                    assert ours(items[0]) == theirs(items[0]), f"{name}: {rival.name} answers otherwise"
                yield compare(
                    f"{name}, sync, against {rival.name}",
                    block(ours, items),
                    block(theirs, items),
                    operations=OPERATIONS,
                    bar=3.0,
                    rounds=ROUNDS,
                    before=before,
                )


def compared_async(world: World) -> Iterator[Compared]:
    """Tasks."""
    import aiohttp  # type: ignore[import-not-found,unused-ignore]

    with asyncio.Runner() as runner:

        async def start() -> tuple[Any, Any]:
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT))
            return await keyplan.open_async(world.model, world.url), session

        store, session = runner.run(start())
        rival = rivals.Aiodynamo(world.endpoint, TABLE, session)

        def block(operation: Callable[[Any], Awaitable[object]], items: Sequence[Any]) -> Callable[[], object]:
            async def worker(some: Sequence[Any]) -> None:
                for one in some:
                    await operation(one)

            async def run() -> None:
                await asyncio.gather(*[worker(some) for some in chunks(items)])

            return lambda: runner.run(run())

        fresh: list[Row] = []

        def renew() -> None:
            fresh[:] = world.rows(OPERATIONS)

        kinds = [
            ("get", lambda one: store.order_by_id(order_id=one), rival.get, world.ids, None),
            ("create", lambda row: store.place_order(**row), rival.put, fresh, renew),
            ("query of 20", lambda one: store.orders_of_customer(customer_id=one), rival.query, world.some, None),
        ]

        async def both(ours: Any, theirs: Any, one: Any) -> bool:
            found = await ours(one)
            return bool(getattr(found, "rows", found) == await theirs(one))

        try:
            for name, ours, theirs, items, before in kinds:
                if before is None:
                    assert runner.run(both(ours, theirs, items[0])), f"{name}: aiodynamo answers otherwise"
                yield compare(
                    f"{name}, async, against {rival.name}",
                    block(ours, items),
                    block(theirs, items),
                    operations=OPERATIONS,
                    bar=1.0,
                    rounds=4 * ROUNDS,
                    before=before,
                )
        finally:
            runner.run(store.close())
            runner.run(session.close())


def compared_load(world: World) -> Iterator[Compared]:
    """Whole batches, 32 in flight."""
    transport = Transport(resolve(Address(TABLE, endpoint=world.endpoint, region=rivals.REGION)))
    fresh: list[tuple[str, Row]] = []

    def raw() -> None:
        items = [{"PutRequest": {"Item": rivals.item(row)}} for _, row in fresh]
        batches = [items[start : start + 25] for start in range(0, len(items), 25)]
        for start in range(0, len(batches), IN_FLIGHT):
            calls = [
                Call("BatchWriteItem", {"RequestItems": {TABLE: batch}}) for batch in batches[start : start + IN_FLIGHT]
            ]
            for reply in transport.send_all(calls):
                if not isinstance(reply, dict) or reply.get("UnprocessedItems"):
                    raise SystemExit(f"the raw writer did not write everything: {reply}")

    def renew() -> None:
        fresh[:] = orders(world.source, world.customers, LOADED)

    with keyplan.open(world.model, world.url) as store:
        yield compare(
            "load, per row, against a raw batch writer",
            lambda: store.load(fresh),
            raw,
            operations=LOADED,
            bar=0.8,
            rounds=ROUNDS,
            before=renew,
        )
    transport.close()


def main() -> int:
    rivals.install()
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")
    print(f"dynoxide {DYNOXIDE}, {IN_FLIGHT} in flight; {', '.join(rivals.PACKAGES)}; {machine()}\n")
    with Server("dynoxide") as server:
        world = World(server.url)
        found = [*compared_sync(world), *compared_async(world), *compared_load(world)]
    print(comparison_table(found))
    return failures(found)


if __name__ == "__main__":
    sys.exit(main())
