"""Views that a changed design keeps besides: filled from the rows that were there before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from keyplan.engines.base import Change, Engine, Proc
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import read_lock
from keyplan.plan.view import View


class Fill(Change):
    """Writes the entries of new views; the homes, which are right, say which these are."""

    def __init__(self, model: Model, engine: Engine, design: Design, views: Iterable[str]) -> None:
        self._views = frozenset(views)
        named = ", ".join(f"'{name}'" for name in views)
        self.summary = f"fill {named} from the rows that are there; until then, patterns answer in part"
        self._model, self._engine, self._design = model, engine, design

    def run(self) -> Proc[None]:
        from keyplan.store.bulk.verify import fill
        from keyplan.store.core import Core  # here, since what verifies a database also asks how it differs

        core = Core(self._model, self._design, self._engine)
        yield from fill(core, self._views, lambda rows: self.told(f"{self.summary}: {rows:,} rows"))


def unfilled(design: Design, recorded: str | None) -> list[str]:
    """The views that we keep beside homes, and that the design recorded on a server did not have."""
    if recorded is None:
        return []
    try:
        before = read_lock(recorded)
    except DesignError:
        return []  # whoever applies a design over it is told
    known = {_unnamed(view) for view in before.views.values()}
    homes = {name for name, _ in design.homes.values()}
    return [
        name
        for name, view in design.views.items()
        if not view.base and name not in homes and _unnamed(view) not in known
    ]


def _unnamed(view: View) -> View:
    return replace(view, name="", base="")
