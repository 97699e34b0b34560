"""Rows of a batch that only a scan finds by their keys: looked for all together, before any of them is written.

Nothing stands under the key of an entity whose keys are generated where no pattern and no write asks by it. Whether a
row that is loaded under a key of its own replaces one is then known only by reading all rows. That is done once for the
whole batch, and the rows are not kept: which ones are not there is remembered, and the others are read again as they
are replaced. Of keys that loads have worked out, a hash each is kept, so that all rows that lack one are looked for
once in a load.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from keyplan.engines.rounds import Proc
from keyplan.errors import KeyplanError
from keyplan.plan.steps import Search
from keyplan.store.bulk.blame import job_of
from keyplan.store.bulk.keys import Keys, is_derived
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
    new: Missing = {}
    derived: dict[str, array[int]] = {}
    for number, row in enumerate(batch, before + 1) if scanned else ():
        entity, fields = row
        if entity not in scanned:
            continue
        try:
            job = job_of(core, keys, number, row, now)
        except KeyplanError:
            continue  # told when it is its turn
        if job.new.is_new:
            new[entity, job.key] = None
        elif not keys.left_out(entity, fields):
            wanted[entity, job.key] = None
        elif entity not in keys.there:  # else it was seen to be there, when all rows were looked through
            wanted[entity, job.key] = None
            derived.setdefault(entity, array("q"))
    homes = [core.places.home(entity) for entity in sorted({entity for entity, _ in wanted})]
    if homes:

        def each(number: int, rows: list[Row]) -> Proc[None]:
            entity = homes[number].entity
            columns = core.model.entities[entity].key
            hashes = derived.get(entity)
            for row in rows:
                key = tuple([row[column] for column in columns])
                wanted.pop((entity, key), None)
                if hashes is not None and is_derived(key):
                    hashes.append(hash(key))
            yield from ()

        searches = [Search(home.view.name, home.at, takes=core.model.entities[home.entity].key) for home in homes]
        yield from core.codec.sweep(searches, each)
    for entity, hashes in derived.items():
        keys.has_seen(entity, hashes)
    return wanted | new


def is_scanned(core: Core, entity: str) -> bool:
    """Whether only a scan finds a row by its key."""
    plan = core.design.rows[entity]
    return isinstance(plan, Search) and not plan.given and core.places.exact(entity) is None
