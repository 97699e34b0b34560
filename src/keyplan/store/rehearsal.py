"""A write as it would be sent, without a database: worked out by the store itself from made-up rows.

Every row that is looked for by its key is there, but those that are created; one row points at each that is changed, as
children and as what repeats its values. So the edits are those of a usual call, each of them once, with the tests that
the engine is asked to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from keyplan.data.dataset import NOW, Dataset
from keyplan.engines.base import Engine, Proc
from keyplan.errors import KeyplanError
from keyplan.model.model import Model
from keyplan.model.pattern import Literal, Operand, Param
from keyplan.model.types import Type
from keyplan.model.write import Children, Write
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.store.core import Core
from keyplan.store.jobs import Job, Put, Written
from keyplan.store.mutate import Mutator
from keyplan.store.places import Place
from keyplan.store.rows import Key, Row, RowReader
from keyplan.store.write import Writer


def rehearsed(model: Model, engine: Engine, design: Design, names: Sequence[str]) -> list[Edit]:
    """The edits of one call of these writes together; none where the store would have to know more than is made up."""
    try:
        return _Rehearsal(model, engine, design).edits([model.writes[name] for name in names])
    except (KeyplanError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return []  # a made-up row lacks something that it would have; then the write is told step by step


class _MadeUp(RowReader):
    """Reads rows from nowhere."""

    samples: Mapping[str, Row]
    created: set[tuple[str, Key]]

    def row(self, entity: str, columns: Iterable[str], values: Iterable[Any]) -> Row:
        row = {**self.samples[entity], **dict(zip(columns, values, strict=True))}
        carried = dict.fromkeys(self.places.carried(entity))
        return {**row, **carried, **{kept.column: _some(kept.type) for kept in self.places.kept[entity]}}

    def by_key(self, wanted: Iterable[tuple[str, Key]], now: datetime) -> Proc[dict[tuple[str, Key], Row | None]]:
        yield from ()
        return {
            (entity, key): None
            if (entity, key) in self.created
            else self.row(entity, self.model.entities[entity].key, key)
            for entity, key in wanted
        }

    def pointing_at(
        self, entity: str, role: str, keys: Sequence[Key], now: datetime, *, new: bool = False
    ) -> Proc[list[list[Row]]]:
        yield from ()
        columns = self.model.entities[entity].roles[role].columns
        return [[] if new else [self.row(entity, columns, key)] for key in keys]

    def entries(self, place: Place, keys: Sequence[Key], takes: Sequence[str]) -> Proc[list[Row | None]]:
        yield from ()
        return [dict.fromkeys(takes, _Beyond()) for _ in keys]

    def of_group(self, place: Place, key: Key, now: datetime) -> Proc[list[Row]]:
        yield from ()
        return []


class _Beyond:
    """A least or greatest value that no row extends."""

    def __le__(self, other: object) -> bool:
        return True

    def __ge__(self, other: object) -> bool:
        return True


class _Rehearsal:
    def __init__(self, model: Model, engine: Engine, design: Design) -> None:
        core = Core(model, design, engine)
        self.model = model
        self.reader = _MadeUp(model, design, core.executor, core.places)
        mutator = Mutator(model, core.places, self.reader)
        self.writer = Writer(model, design, core.executor, core.codec, mutator, self.reader)
        data = Dataset(model, counts=dict.fromkeys(model.entities, 2), now=NOW)
        self.given: dict[str, Row] = {}
        for name, row in data.all(as_arguments=True):
            self.given[name] = row
        self.reader.samples = {name: {**row} for name, row in data.all()}
        self.reader.created = set()

    def edits(self, writes: Sequence[Write]) -> list[Edit]:
        jobs: list[Job] = []
        written: set[tuple[str, Key]] = set()
        for write in writes:
            prepared = self.writer.prepare(write, write.name, self.arguments(write), NOW, written)
            found = prepared.jobs or [self.writer.job(write, write.name, prepared.call, self.key(write))]
            for job in found:
                if isinstance(job, Put) and not job.replace:
                    self.reader.created.add((job.entity.name, job.key))
                if isinstance(job, Written):
                    job.where = job.condition = None  # whether they hold is not for made-up rows to say
                jobs.append(job)
        proc = self.writer.commit(jobs, NOW)
        (request,) = next(proc)  # type: ignore[misc]
        return list(getattr(request, "edits", ()))

    def arguments(self, write: Write) -> dict[str, Any]:
        if write.kind in ("create", "upsert") and not (write.sets or write.adds):
            return self.new_row(write.entity, write.children)
        types: dict[str, tuple[Type, Any]] = {}
        columns = self.model.entities[write.entity].columns
        sample = self.reader.samples[write.entity]

        def note(operand: Operand, column: str) -> None:
            if isinstance(operand, Param):
                types.setdefault(operand.name, (columns[column].type, sample[column]))

        for condition in (*write.where, *write.condition):
            for operand in condition.operands:
                note(operand, condition.path.column)
        for column, operand in (*write.sets.items(), *write.adds.items()):
            note(operand, column)
            value = operand.value if isinstance(operand, Literal) else None
            if sample[column] == value or column in write.sets:
                sample[column] = _other(columns[column].type, sample[column], value)
        return {name: value for name, (_, value) in types.items()}

    def key(self, write: Write) -> Key:
        """The key of a row that a write finds."""
        return tuple(self.reader.samples[write.entity][column] for column in self.model.entities[write.entity].key)

    def new_row(self, entity: str, children: Children) -> dict[str, Any]:
        row = dict(self.given[entity])
        for role, deeper in children.items():
            step = self.model.entities[entity].roles[role]
            child = self.new_row(step.entity, deeper)
            row[role] = [{name: value for name, value in child.items() if name != step.field}]
        return row


def _some(type: Type) -> Any:
    """A value that something can be added to and taken from; only numbers are computed like that."""
    return {"int": 10, "decimal": Decimal(10), "float": 10.0}.get(type.kind)


def _other(type: Type, value: Any, taken: Any) -> Any:
    """Another value of a type than both."""
    match type.kind:
        case "enum":
            return next((name for name, _ in type.values if name not in (value, taken)), value)
        case "bool":
            return not (taken if taken is not None else value)
        case "string" | "text":
            return "x" if value is None else f"x{str(value)[1:]}"
        case "int" | "decimal" | "float":
            return (value or 0) + 1
    return None
