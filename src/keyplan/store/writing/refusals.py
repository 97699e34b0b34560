"""Refusals: which of them are the write's own fault, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keyplan.errors import ConflictError, KeyplanError, row_named
from keyplan.plan.edits import Edit
from keyplan.store.writing.changes import Batch, RowChange
from keyplan.store.writing.jobs import Job, Put

if TYPE_CHECKING:
    from keyplan.store.writing.write import Writer


class Refusals:
    """Tells them apart, for one design."""

    def __init__(self, writer: Writer) -> None:
        self.design = writer.design
        self.places = writer.mutator.places

    def is_final(self, batch: Batch, number: int, jobs: Sequence[Job]) -> bool:
        """Whether a refusal is the write's own fault, so that trying again cannot help."""
        edit = batch.edits[number]
        change = batch.changes[edit.row]
        if edit.do != "put" or change.follows:
            return False
        if self.is_guard(edit, change):
            return True
        return any(
            isinstance(job, Put) and not job.replace and (job.entity.name, job.key) == (change.entity, change.key)
            for job in jobs
        )

    def is_guard(self, edit: Edit, change: RowChange) -> bool:
        """Whether an edit takes a unique value, other than the row's own key."""
        view = self.design.views[edit.view]
        exact = self.places.exact(change.entity)
        return view.unique and not (exact is not None and exact.view is view)

    def refusal(self, batch: Batch, number: int, reply: ConflictError) -> ConflictError:
        edit = batch.edits[number]
        change = batch.changes[edit.row]
        if self.is_guard(edit, change):
            listed = ", ".join(f"'{part.path}'" for part in self.design.views[edit.view].parts)
            return ConflictError(f"{change.label}: another {change.entity} has the same {listed}; give another value")
        ours = any(view.unique and view.base and view.entity == change.entity for view in self.design.views.values())
        if edit.expect == "absent" and not ours:
            named_row = row_named(change.entity, change.key)
            return ConflictError(f"{before(change)}{named_row} exists already; give another key")
        return ConflictError(f"{before(change)}{reply}")  # the engine knows which of its indexes refused


def named(error: Exception, batch: Batch) -> Exception:
    """An engine's error with the name of the write in front: that of the edit which it is about, if it says so."""
    number = getattr(error, "edit", None)
    about = isinstance(number, int) and number < len(batch.edits)
    change = batch.changes[batch.edits[number].row if isinstance(number, int) and about else 0]
    if str(error).startswith(change.label):
        return error
    made = type(error)(f"{before(change) if about else f'{change.label}: '}{error}")
    if about and isinstance(made, KeyplanError):
        made.place = (change.entity, change.key)
    return made


def before(change: RowChange) -> str:
    """The label of a change, before a message that begins with its row: a load need not name the entity twice."""
    return f"{change.label}: ".removesuffix(f"{change.entity}: ")
