"""What a write returns: the rows that were written, as the engine returns them or as they were worked out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from keyplan.plan.edits import Edit, Test
from keyplan.store.writing.changes import Batch
from keyplan.store.writing.jobs import Job, Written
from keyplan.store.writing.rows import Key, Row

if TYPE_CHECKING:
    from keyplan.store.writing.write import Writer

Rows = dict[tuple[str, Key], Row | None]


class Returned:
    """Says what the rows are that were written, for one design."""

    def __init__(self, writer: Writer) -> None:
        self.model = writer.model
        self.codec = writer.codec
        self.places = writer.mutator.places

    def is_unknown(self, batch: Batch) -> bool:
        """Whether a row is to be returned that neither was read nor can be returned by the engine."""
        return (
            not self.codec.returns_together
            and len(batch.edits) > 1
            and any(change.returning and change.blind for change in batch.changes)
        )

    def told(self, batch: Batch, jobs: Sequence[Job]) -> list[Edit]:
        """The edits, such that what is returned is known here: the old values it comes from are tested by the write."""
        edits = list(batch.edits)
        returns = {
            (job.entity.name, job.key): set(job.write.returns)
            for job in jobs
            if isinstance(job, Written) and job.returning
        }
        for number, place in batch.homes.items():
            change, edit = batch.changes[number], edits[place]
            if edit.do == "put" or change.old is None:
                continue
            home = self.places.home(change.entity)
            tested = {test.path for test in edit.tests if test.op == "="}
            wanted = returns.get((change.entity, change.key), set()) - set(self.model.entities[change.entity].key)
            more = [
                Test(column, "=", change.old[column])
                for column in sorted(wanted - tested)
                if column in home.holds and column in change.old
            ]
            edits[place] = replace(edit, tests=(*edit.tests, *more), returning=False)
        return edits

    def outcome(self, batch: Batch, entries: Sequence[Row | None]) -> Rows:
        rows: Rows = {}
        for number, change in enumerate(batch.changes):
            if change.follows or change.derived:
                continue
            row = change.new if change.new is not None else change.old
            if number in batch.homes:
                row = entries[batch.homes[number]] or row
            rows[change.entity, change.key] = row
        return rows
