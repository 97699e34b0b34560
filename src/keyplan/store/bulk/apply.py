"""Apply: what a server holds against what a design wants, and the steps from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from keyplan.engines.base import Engine
from keyplan.engines.changing import Catalog, Change, RowsCameError
from keyplan.engines.lease import until_noticed
from keyplan.engines.rounds import Proc
from keyplan.errors import (
    ConflictError,
    DesignMismatchError,
    KeyplanError,
    UnavailableError,
    UncertainError,
)
from keyplan.model.model import Model
from keyplan.plan.design import Design, Objective
from keyplan.plan.lockfile import design_hash, lock_text
from keyplan.store.bulk.fill import Fill, Notice, unfilled

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Difference:
    """What would have to be done."""

    catalog: Catalog
    changes: Sequence[Change]

    @property
    def is_destructive(self) -> bool:
        return any(change.destructive for change in self.changes)


def blank(model: Model, engine: Engine) -> Design:
    """A design with nothing in it, to ask a server what it holds."""
    return Design(model.name, engine.name, {}, (), {}, {}, {}, {}, {}, Objective("", 0.0, 0.0, 0.0, 0))


def glance(model: Model, engine: Engine, design: Design | None = None) -> Proc[Catalog]:
    """Which design a server holds."""
    return (yield from engine.glance(model, design or blank(model, engine)))


def difference(model: Model, engine: Engine, design: Design, lock: str | None = None) -> Proc[Difference]:
    """The steps that would make the server hold the design."""
    catalog = yield from engine.inspect(model, design)
    return _difference(model, engine, design, catalog, lock)


def drift(model: Model, engine: Engine, design: Design) -> Proc[Sequence[Change]]:
    """The steps back to the design that is recorded on the server, where something was changed there by other hands."""
    catalog = yield from engine.inspect(model, design)
    return engine.changes(model, design, catalog.lock or lock_text(model, design), catalog)


def from_nothing(model: Model, engine: Engine, design: Design) -> Difference:
    """The steps that would make an embedded database that is not there yet."""
    return _difference(model, engine, design, Catalog())


def _difference(model: Model, engine: Engine, design: Design, catalog: Catalog, lock: str | None = None) -> Difference:
    changes = engine.changes(model, design, lock or lock_text(model, design), catalog)
    if all(change.only_said for change in changes):
        return Difference(catalog, changes)
    last = changes[-1]
    new = unfilled(design, catalog.lock) if last.fills is None else dict.fromkeys(last.fills, False)
    views = dict.fromkeys((*last.doubted, *new))
    steps: list[Change] = [*changes]
    if views:
        steps.insert(-1, Fill(model, engine, design, views, last))
    told = last.at_once or any(one.announces for one in changes)
    if (views or any(one.takes_away for one in changes)) and not told:
        notice = Notice(last, [name for name, replaces in new.items() if replaces])
        steps = [notice, *(one for one in steps if not one.claims)]
    return Difference(catalog, steps)


def apply(
    model: Model,
    engine: Engine,
    design: Design,
    lock: str | None = None,
    *,
    destroy: bool = False,
    wait: bool = True,
    progress: Progress | None = None,
) -> Proc[Difference]:
    """Makes the server hold the design, and records it there; refuses to destroy anything unless told to.

    Open stores are waited for, until they have noticed that something is about to change."""
    return (yield from _Applying(model, engine, design, lock, destroy, wait, progress).run(None))


@dataclass(frozen=True)
class _Applying:
    """What is applied, and how."""

    model: Model
    engine: Engine
    design: Design
    lock: str | None
    destroy: bool
    wait: bool
    progress: Progress | None

    def run(self, claimed: Change | None) -> Proc[Difference]:
        """`claimed`: the last one of a look before, by which the database was claimed, if nothing was done since."""
        try:
            found = now = yield from self._look()
        except DesignMismatchError:
            yield from _taken_back(claimed)
            raise
        if claimed is not None and found.changes:
            found.changes[-1].resumes(claimed)
        try:
            claim = next((change for change in found.changes if change.claims), None)
            if claim is not None:
                yield from self._do(claim)
                claimed = claimed or found.changes[-1]
                now = yield from self._again(found, claimed)
            for change in now.changes:
                if not change.claims:
                    claimed = yield from self._step(change, claimed)
        except RowsCameError:  # a store has written them; whether they may be lost is for whoever applies the design
            return (yield from self.run(claimed))
        except ConflictError:
            there = yield from self.engine.inspect(self.model, self.design)
            is_done = not there.unfinished and is_same(there, self.lock or lock_text(self.model, self.design))
            if not (is_done or now.changes[-1].is_behind(there)):
                raise
            # Others apply the same design, or have done so; a step outside of transactions may have come too late.
            yield from self.run(None)
        return found

    def _look(self) -> Proc[Difference]:
        found = yield from difference(self.model, self.engine, self.design, self.lock)
        _refuse_to_destroy(found, self.destroy)
        return found

    def _again(self, before: Difference, claimed: Change) -> Proc[Difference]:
        """Looks at a database again that was claimed; rows that have come since may be a reason not to go on."""
        try:
            found = yield from self._look()
        except DesignMismatchError:
            yield from _taken_back(claimed)
            raise
        if not all(change.only_said for change in found.changes):
            found.changes[-1].follows(before.changes[-1])
        return found

    def _step(self, change: Change, claimed: Change | None) -> Proc[Change | None]:
        """Does a step; what was claimed is taken back if the server refuses the first one that would change anything.
        Says whether that could still be."""
        try:
            yield from self._do(change)
        except (ConflictError, UncertainError, UnavailableError):  # somebody else has a say, or nobody knows
            raise
        except KeyplanError:
            if change.all_or_nothing:
                yield from _taken_back(claimed)
            raise
        return claimed if change.only_looks or change.only_said else None

    def _do(self, change: Change) -> Proc[None]:
        if self.progress is not None and not change.only_said:
            self.progress(change.summary)
            change.hears = self.progress
        change.waits = self.wait
        yield from change.run()
        if change.announces and self.engine.leases and self.wait:
            yield from until_noticed(self.progress or (lambda told: None))


def _taken_back(claimed: Change | None) -> Proc[None]:
    """Has the record say what it did before, for stores of the design there to go on; whoever applies a design next
    does so where that cannot be done."""
    if claimed is not None:
        with suppress(KeyplanError):  # the reason why it came to this is the better one to tell
            yield from claimed.withdraw()


def _refuse_to_destroy(found: Difference, destroy: bool) -> None:
    if found.is_destructive and not destroy:
        listed = ", ".join(change.summary for change in found.changes if change.destructive)
        raise DesignMismatchError(
            f"applying this design would destroy data: {listed}; say so to go on, with --destroy or destroy=True"
        )


def all_lost(what: str) -> DesignMismatchError:
    """The error for a home that is not there, and with it its rows."""
    return DesignMismatchError(
        f"{what} is missing, with all its rows; restore it from a backup, or make it anew with 'keyplan apply' and "
        "load the rows again"
    )


def is_same(catalog: Catalog, lock: str) -> bool:
    """Whether the server's record is this lock."""
    return catalog.design_hash == design_hash(lock)
