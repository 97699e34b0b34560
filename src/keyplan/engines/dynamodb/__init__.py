"""DynamoDB: one table with overloaded keys and indexes, on AWS or any server that speaks its protocol."""

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
from keyplan.plan.design import Design, Finding, Structure
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search, Touch
from keyplan.plan.view import View

if TYPE_CHECKING:
    from keyplan.engines.calibration import Calibration
    from keyplan.engines.lease import Held
    from keyplan.engines.work import CostModel, Share

KINDS = {
    "table": Kind("table", embeds=True, first_along=True, measures=("count", "sum", "min", "max"), unique=True),
    "gsi": Kind("gsi", kept_by_engine=True, composed=True, strong=False, gets=False),
    "lsi": Kind("lsi", kept_by_engine=True, composed=True, local=True, gets=False),
}


class DynamoDBEngine(Engine):
    """The engine; modules are imported when they are needed, botocore at most at `connect`."""

    name = "dynamodb"
    leases = True
    schemes = ("dynamodb",)
    extra = "dynamodb"
    kinds = KINDS
    tells_requests = True
    formats = ("cloudformation", "terraform", "createtable", "workbench")

    def costs(self, model: Model) -> CostModel:
        from keyplan.engines.dynamodb.cost import cost_model

        return cost_model(model)

    def pack(self, model: Model, views: Sequence[View], settings: Mapping[str, Any]) -> tuple[Structure, ...]:
        from keyplan.engines.dynamodb.pack import pack

        return pack(model, views)

    def kept_apart(
        self,
        model: Model,
        views: Mapping[str, View],
        structures: Sequence[Structure],
        shares: Mapping[str, Share],
        before: Mapping[str, tuple[Structure, str]],
    ) -> tuple[tuple[Structure, ...], tuple[Finding, ...]]:
        from keyplan.engines.dynamodb.apart import kept_apart
        from keyplan.engines.dynamodb.naming import named_as_before

        return kept_apart(model, views, named_as_before(structures, before), shares, before)

    def findings(self, model: Model, design: Design) -> tuple[Finding, ...]:
        from keyplan.engines.dynamodb.capacity import findings

        return findings(model, design)

    def emit(self, model: Model, design: Design, to: str) -> Mapping[str, str]:
        from keyplan.engines.dynamodb.emit import emit

        return emit(model, design, to)

    def codec(self, model: Model, design: Design) -> Codec:
        from keyplan.engines.dynamodb.requests import DynamoDBCodec

        return DynamoDBCodec(model, design)

    def inspect(self, model: Model, design: Design) -> Proc[Catalog]:
        from keyplan.engines.dynamodb.changes import inspect

        return inspect(model, design)

    def glance(self, model: Model, design: Design) -> Proc[Catalog]:
        from keyplan.engines.dynamodb.changes import glance

        return glance(model, design)

    def changes(self, model: Model, design: Design, lock: str, found: Catalog) -> tuple[Change, ...]:
        from keyplan.engines.dynamodb.changes import changes

        return changes(model, design, lock, self.upkeep(model, design), found)

    def absent(self, found: Catalog) -> str | None:
        return "there is no such table in this account and region" if found.found.get("table") is None else None

    def look(self, upkeep: str) -> Proc[Held]:
        from keyplan.engines.dynamodb.record import look

        return look(upkeep)

    def is_read(self, request: Request) -> bool:
        from keyplan.engines.dynamodb.operations import is_read

        return is_read(request)

    def connect(self, url: str, model: Model, design: Design | None) -> Port:
        from keyplan.engines.dynamodb.port import DynamoDBPort

        return DynamoDBPort(url)

    def connect_async(self, url: str, model: Model, design: Design | None) -> AsyncPort:
        from keyplan.engines.dynamodb.port import DynamoDBAsyncPort

        return DynamoDBAsyncPort(url)

    def stored_keys(self, model: Model, design: Design) -> Mapping[tuple[str, tuple[str, ...]], tuple[str, str]]:
        from keyplan.engines.dynamodb.templates import stored_keys

        return stored_keys(model, design)

    def edit_words(self, model: Model, design: Design, write: Write, touch: Touch) -> str:
        from keyplan.engines.dynamodb.edit_words import edit_words

        return edit_words(model, design, touch)

    def request_words(self, model: Model, design: Design, writes: Sequence[Write], edits: Sequence[Edit]) -> str:
        from keyplan.engines.dynamodb.request_words import request_words

        return request_words(model, design, writes, edits)

    def words(
        self, model: Model, design: Design, search: Search, first: int | None = None, *, strong: bool = False
    ) -> str:
        from keyplan.engines.dynamodb.words import words

        return words(model, design, search, first, strong=strong)

    def access(self, model: Model, design: Design, search: Search, *, many: bool) -> Access | None:
        from keyplan.engines.dynamodb.words import access

        return access(model, design, search, many=many)

    def calibrate(self, told: Callable[[float], None]) -> Proc[Calibration]:
        from keyplan.engines.dynamodb.calibrate import calibrate

        return calibrate(told)


ENGINE = DynamoDBEngine()
