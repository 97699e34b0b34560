"""SQLite: normalised tables and B-tree indexes in one file; the embedded default and the fast oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from keyplan.engines.base import Engine, Kind
from keyplan.engines.changing import Catalog, Change
from keyplan.engines.codec import Codec
from keyplan.engines.ports import AsyncPort, Port
from keyplan.engines.rounds import Proc
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Design, Structure
from keyplan.plan.steps import Search, Touch
from keyplan.plan.view import View

if TYPE_CHECKING:
    from keyplan.engines.calibration import Calibration
    from keyplan.engines.work import CostModel

KINDS = {
    "table": Kind("table", partitioned=False, measures=("count", "sum", "min", "max"), unique=True),
    "index": Kind("index", kept_by_engine=True, holds_all=True, covers=True, partitioned=False, unique=True),
}


class SqliteEngine(Engine):
    """The engine; modules are imported when they are needed, the driver at `connect`."""

    name = "sqlite"
    schemes = ("sqlite",)
    kinds = KINDS
    embedded = True
    formats = ("sql",)

    def costs(self, model: Model) -> CostModel:
        from keyplan.engines.sqlite.cost import cost_model

        return cost_model(model)

    def pack(self, model: Model, views: Sequence[View], settings: Mapping[str, Any]) -> tuple[Structure, ...]:
        from keyplan.engines.sqlite.pack import pack

        return pack(model, views)

    def emit(self, model: Model, design: Design, to: str) -> Mapping[str, str]:
        from keyplan.engines.sqlite.emit import emit

        return emit(model, design, to)

    def codec(self, model: Model, design: Design) -> Codec:
        from keyplan.engines.sqlite.requests import SqliteCodec

        return SqliteCodec(model, design)

    def inspect(self, model: Model, design: Design) -> Proc[Catalog]:
        from keyplan.engines.sqlite.changes import inspect

        return inspect(model, design)

    def changes(self, model: Model, design: Design, lock: str, found: Catalog) -> tuple[Change, ...]:
        from keyplan.engines.sqlite.changes import changes

        return changes(model, design, lock, self.upkeep(model, design), found)

    def lost(self, found: Catalog) -> str | None:
        from keyplan.engines.sqlite.changes import lost

        return lost(found)

    def stale(self, model: Model, design: Design) -> Proc[Sequence[Change]]:
        from keyplan.engines.sqlite.stale import stale_indexes

        return stale_indexes(model, design)

    def connect(self, url: str, model: Model, design: Design | None) -> Port:
        from keyplan.engines.sqlite.port import SqlitePort

        return SqlitePort(url)

    def connect_async(self, url: str, model: Model, design: Design | None) -> AsyncPort:
        from keyplan.engines.sqlite.port import SqliteAsyncPort

        return SqliteAsyncPort(url)

    def lacks(self, url: str) -> str | None:
        from keyplan.engines.sqlite.port import lacks

        return lacks(url)

    def scratch(self, url: str) -> AbstractContextManager[str]:
        from keyplan.engines.sqlite.port import scratch

        return scratch(url)

    def edit_words(self, model: Model, design: Design, write: Write, touch: Touch) -> str:
        from keyplan.engines.sqlite.edit_words import edit_words

        return edit_words(model, design, write, touch)

    def words(
        self, model: Model, design: Design, search: Search, first: int | None = None, *, strong: bool = False
    ) -> str:
        from keyplan.engines.sqlite.words import words

        return words(model, design, search, first)

    def calibrate(self, told: Callable[[float], None]) -> Proc[Calibration]:
        from keyplan.engines.sqlite.calibrate import calibrate

        return calibrate(told)


ENGINE = SqliteEngine()
