"""Views that a changed design keeps besides: filled from the rows that were there before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from keyplan.engines.base import Engine
from keyplan.engines.changing import Change
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import read_lock
from keyplan.plan.view import View


class Notice(Change):
    """Comes first: has the record say that something will no longer be as the design there has it."""

    summary = "note in the record that the database is being changed, so that nobody opens it meanwhile"
    announces = claims = True

    def __init__(self, last: Change, views: Sequence[str]) -> None:
        """`last` records the design; `views` are those whose structures have others on record."""
        self._last, self._of = last, views

    def run(self) -> Proc[None]:
        yield from self._last.unsettle(self._of)


class Fill(Change):
    """Writes the entries of new views; the homes, which are right, say which these are."""

    def __init__(self, model: Model, engine: Engine, design: Design, views: Iterable[str], last: Change) -> None:
        """`last` records the design."""
        self._views = frozenset(views)
        named = ", ".join(f"'{name}'" for name in views)
        self.summary = f"fill {named} from the rows that are there; until then, patterns answer in part"
        self._model, self._engine, self._design = model, engine, design
        self._last = last

    def run(self) -> Proc[None]:
        yield from self._last.filled(self._fill)

    def _fill(self) -> Proc[None]:
        from keyplan.store.bulk.verify import fill
        from keyplan.store.core import Core  # here, since what verifies a database also asks how it differs

        codec = self._last.guarded(self._engine.codec(self._model, self._design))
        core = Core(self._model, self._design, self._engine, codec=codec)
        yield from fill(core, self._views, self._last.fresh, lambda rows: self.told(f"{self.summary}: {rows:,} rows"))


def unfilled(design: Design, recorded: str | None) -> dict[str, bool]:
    """The views that we keep beside homes, and that the design recorded on a server did not have, or had elsewhere;
    and whether the structure of each has another view there."""
    if recorded is None:
        return {}
    try:
        before = read_lock(recorded)
    except DesignError:
        return {}  # whoever applies a design over it is told
    known = {name: _unnamed(before.views[view]) for view, name in _structures(before).items()}
    homes = {name for name, _ in design.homes.values()}
    # Under the same name and with the same columns, other rows may be kept: those of other conditions.
    return {
        view: name in known
        for view, name in _structures(design).items()
        if view not in homes and known.get(name) != _unnamed(design.views[view])
    }


def _structures(design: Design) -> dict[str, str]:
    """Where each view is that we keep."""
    return {view: one.name for one in design.structures for view in one.views if not design.views[view].base}


def _unnamed(view: View) -> View:
    return replace(view, name="", base="")
