"""Rows of a batch that only a scan finds by their keys: looked for all together, before any of them is written.

Nothing stands under the key of an entity whose keys are generated where no pattern and no write asks by it. Whether a
row that is loaded under a key of its own replaces one is then known only by reading all rows. That is done once for the
whole batch, and the rows are not kept: which ones are not there is remembered, and the others are read again as they
are replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from keyplan.engines.rounds import Proc
from keyplan.errors import KeyplanError
from keyplan.plan.steps import Search
from keyplan.store.bulk.blame import job_of
from keyplan.store.bulk.keys import Keys
from keyplan.store.core import Core

Row = dict[str, Any]
Key = tuple[Any, ...]
Missing = dict[tuple[str, Key], None]


def looked_for(
    core: Core,
    keys: Keys,
    batch: Sequence[tuple[str, Mapping[str, Any]]],
    before: int,
    scanned: Collection[str],
    now: datetime,
) -> Proc[Missing]:
    """The rows of a batch that are not there, of entities whose rows only a scan finds; `before` it come so many."""
    wanted: Missing = {}
    derived: Missing = {}
    for number, row in enumerate(batch, before + 1) if scanned else ():
        entity, fields = row
        generated = entity in scanned and bool(keys.left_out(entity, fields))
        if entity in scanned and not (generated and keys.is_new(entity)):
            try:
                job = job_of(core, keys, number, row, now)
            except KeyplanError:
                continue  # told when it is its turn
            wanted[entity, job.key] = None
            if generated:
                derived[entity, job.key] = None
    homes = [core.places.home(entity) for entity in sorted({entity for entity, _ in wanted})]
    if homes:

        def each(number: int, rows: list[Row]) -> Proc[None]:
            entity = homes[number].entity
            columns = core.model.entities[entity].key
            for row in rows:
                wanted.pop((entity, tuple([row[column] for column in columns])), None)
            yield from ()

        searches = [Search(home.view.name, home.at, takes=core.model.entities[home.entity].key) for home in homes]
        yield from core.codec.sweep(searches, each)
    # Batches are written one after the other: where none of this one's rows is there, none of a later one's is.
    keys.beyond.update({entity for entity, _ in derived} - {entity for entity, _ in derived.keys() - wanted.keys()})
    return wanted


def is_scanned(core: Core, entity: str) -> bool:
    """Whether only a scan finds a row by its key."""
    plan = core.design.rows[entity]
    return isinstance(plan, Search) and not plan.given and core.places.exact(entity) is None
