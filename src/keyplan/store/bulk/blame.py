"""Which row of a load is to blame: asked only after a batch has failed, so that loading itself keeps no count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyplan.errors import ArgumentError, ConflictError, KeyplanError
from keyplan.model.entity import EXPIRES
from keyplan.model.interchange import no_entity
from keyplan.model.new_row import NewRow, row_from_arguments
from keyplan.store.bulk.keys import Keys
from keyplan.store.core import Core
from keyplan.store.writing.jobs import Put

BLAMABLE = (ArgumentError, ConflictError, TypeError, ValueError, LookupError, AttributeError)
"""What a row that does not fit can raise; rows that are no rows at all raise Python's own errors."""


def job_of(core: Core, keys: Keys, number: int, row: tuple[Any, Any], now: Any) -> Put:
    """A row to be put, checked; `number` counts the rows of the load from 1."""
    entity, fields = row
    about = core.model.entities.get(entity) if isinstance(entity, str) else None
    if about is None:
        raise ArgumentError(f"load: {no_entity(core.model, str(entity))}")
    if not isinstance(fields, Mapping):
        raise ArgumentError(f"load: {entity}: expected a mapping of fields, got {fields.__class__.__name__}")
    new_id = keys.of(number, entity, fields)
    new = row_from_arguments(core.model, f"load: {entity}", entity, fields, now=now, new_id=new_id)
    key = new.key(about)
    new.is_new = new.is_new and keys.is_new(entity, key)
    return Put(core.model, about, new.label, key, new, True)


def started(rows: Iterable[Any], done: int) -> Iterable[Any]:
    """The rows of a load, seen to be some, and `done` seen to be a number of them."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise ArgumentError(f"load: expected rows, each as (entity, fields), got {rows.__class__.__name__}")
    if not isinstance(done, int) or done < 0:
        raise ArgumentError(f"load: 'done' is a number of rows, not {done!r}")
    return rows


def blame(core: Core, keys: Keys, batch: Sequence[Any], before: int, error: Exception) -> None:
    """Raises the error with the number of its row in it, counted from 1, if there is a row to blame."""
    place = getattr(error, "place", None)
    for number, row in enumerate(batch, before + 1):
        try:
            if not isinstance(row, tuple | list) or len(row) != 2:
                raise ArgumentError(f"load: expected (entity, fields), got {_shown(row)}")
            job = job_of(core, keys, number, (row[0], row[1]), core.clock())
            if place == (job.entity.name, job.key) and _is_version(job.new, getattr(error, "version", None)):
                raise error
        except KeyplanError as found:
            raise _numbered(found, number) from error


def _is_version(new: NewRow, values: Mapping[str, object] | None) -> bool:
    """Whether values are those of a row, but for what is filled in."""
    later = {*new.filled, *new.sources, EXPIRES}
    return values is None or all(values[name] == value for name, value in new.values.items() if name not in later)


def _numbered(error: KeyplanError, number: int) -> KeyplanError:
    made = error.__class__(f"load: row {number}: {str(error).removeprefix('load: ')}")
    made.row = number
    return made


def _shown(row: object) -> str:
    text = repr(row)
    return text if len(text) <= 60 else f"{text[:60]}…"
