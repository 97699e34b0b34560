"""MongoDB: collections of documents with embedded rows, and indexes that the server keeps, on a replica set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keyplan.engines.base import Access, Engine, Kind
from keyplan.engines.changing import Catalog, Change
from keyplan.engines.codec import Codec
from keyplan.engines.ports import AsyncPort, Port
from keyplan.engines.rounds import Proc, Request
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Design, Structure
from keyplan.plan.steps import Search, Touch
from keyplan.plan.view import View

if TYPE_CHECKING:
    from keyplan.engines.calibration import Calibration
    from keyplan.engines.lease import Held
    from keyplan.engines.work import CostModel

KINDS = {
    "collection": Kind(
        "collection",
        partitioned=False,
        embeds=True,
        one_value=True,
        packs=True,
        subsets=True,
        measures=("count", "sum", "min", "max"),
    ),
    # A collection that rows of one entity share with their children, documents of their own behind their parent's.
    "shared": Kind("shared", embeds=True, families=True, first_along=True),
    # Measures of the entries of a packed document, in fields beside them.
    "totals": Kind(
        "totals", kept_by_engine=True, totals=True, partitioned=False, measures=("count", "sum", "min", "max")
    ),
    "elements": Kind("elements", kept_by_engine=True, holds_all=True, inside=True),
    "index": Kind("index", kept_by_engine=True, holds_all=True, copies=True, partitioned=False, unique=True),
    # An index over the words of texts, which the documents carry as an array that we make.
    "words": Kind("words", kept_by_engine=True, composed=True, holds_all=True, copies=True, partitioned=False),
}


class MongoEngine(Engine):
    """The engine; modules are imported when they are needed, the driver at `connect`."""

    name = "mongodb"
    schemes = ("mongodb", "mongodb+srv")
    extra = "mongodb"
    kinds = KINDS
    formats = ("json-schema", "mongosh", "pipelines")
    leases = True

    def costs(self, model: Model) -> CostModel:
        from keyplan.engines.mongodb.cost import cost_model

        return cost_model(model)

    def pack(self, model: Model, views: Sequence[View], settings: Mapping[str, Any]) -> tuple[Structure, ...]:
        from keyplan.engines.mongodb.pack import pack

        return pack(model, views)

    def emit(self, model: Model, design: Design, to: str) -> Mapping[str, str]:
        from keyplan.engines.mongodb.emit import emit

        return emit(model, design, to)

    def codec(self, model: Model, design: Design) -> Codec:
        from keyplan.engines.mongodb.requests import MongoCodec

        return MongoCodec(model, design)

    def inspect(self, model: Model, design: Design) -> Proc[Catalog]:
        from keyplan.engines.mongodb.changes import inspect

        return inspect(model, design)

    def glance(self, model: Model, design: Design) -> Proc[Catalog]:
        from keyplan.engines.mongodb.changes import glance

        return glance(model, design)

    def changes(self, model: Model, design: Design, lock: str, found: Catalog) -> tuple[Change, ...]:
        from keyplan.engines.mongodb.changes import changes

        return changes(model, design, lock, self.upkeep(model, design), found)

    def lost(self, found: Catalog) -> str | None:
        from keyplan.engines.mongodb.changes import lost

        return lost(found)

    def look(self, upkeep: str) -> Proc[Held]:
        from keyplan.engines.mongodb.record import look

        return look(upkeep)

    def is_read(self, request: Request) -> bool:
        from keyplan.engines.mongodb.operations import is_read

        return is_read(request)

    def connect(self, url: str, model: Model, design: Design | None) -> Port:
        from keyplan.engines.mongodb.port import MongoPort

        return MongoPort(url)

    def connect_async(self, url: str, model: Model, design: Design | None) -> AsyncPort:
        from keyplan.engines.mongodb.port import MongoAsyncPort

        return MongoAsyncPort(url)

    def edit_words(self, model: Model, design: Design, write: Write, touch: Touch) -> str:
        from keyplan.engines.mongodb.edit_words import edit_words

        return edit_words(model, design, write, touch)

    def words(
        self, model: Model, design: Design, search: Search, first: int | None = None, *, strong: bool = False
    ) -> str:
        from keyplan.engines.mongodb.words import words

        return words(model, design, search, first)

    def access(self, model: Model, design: Design, search: Search, *, many: bool) -> Access | None:
        from keyplan.engines.mongodb.words import access

        return access(model, design, search, many=many)

    def calibrate(self, told: Callable[[float], None]) -> Proc[Calibration]:
        from keyplan.engines.mongodb.calibrate import calibrate

        return calibrate(told)


ENGINE = MongoEngine()
