"""A write as it would be sent, without a database: worked out by the store itself from made-up rows.

Every row that is looked for by its key is there, but those that are created; one row points at each that is changed, as
children and as what repeats its values. So the edits are those of a usual call, each of them once, with the tests that
the engine is asked to make. Of a write that converges, there are more rows than one request can change as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from keyplan.data.dataset import NOW, Dataset
from keyplan.engines.base import Engine
from keyplan.engines.rounds import Pause, Proc
from keyplan.errors import KeyplanError
from keyplan.model.identifiers import ulid_text
from keyplan.model.model import Model
from keyplan.model.pattern import Literal, Operand, Param
from keyplan.model.types import Type
from keyplan.model.write import Children, Write
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.store.core import Core
from keyplan.store.writing.jobs import Job, Put, Written
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row, RowReader
from keyplan.store.writing.write import Writer

MOST_TOLD = 12
"""Requests of one call that are looked at; by then they repeat themselves."""


def rehearsed(model: Model, engine: Engine, design: Design, names: Sequence[str]) -> list[Edit]:
    """The edits of one call of these writes together; none where made-up values are no values that could be written."""
    try:
        sent = _Rehearsal(model, engine, design).requests([model.writes[name] for name in names], 1)
    except KeyplanError:
        return []  # a made-up value is too long for a key, say; then the write is told step by step
    return sent[0] if sent else []


def rehearsed_with_many(model: Model, engine: Engine, design: Design, name: str) -> list[list[Edit]]:
    """The edits of the requests, one after the other, of a call that more rows follow than one request can change."""
    rehearsal = _Rehearsal(model, engine, design)
    most = rehearsal.writer.codec.atomic_edits
    try:
        return rehearsal.requests([model.writes[name]], most + most // 5) if most is not None else []
    except KeyplanError:
        return []


class _MadeUp(RowReader):
    """Reads rows from nowhere."""

    samples: Mapping[str, Row]
    created: set[tuple[str, Key]]
    many: int
    """How many rows point at each."""

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
        about = self.model.entities[entity]
        step = about.roles[role]
        many = 0 if new else min(self.many, step.most or self.many)
        telling = [column for column in about.key if column not in step.columns]
        kinds = [about.columns[column].type for column in telling]
        sample = [self.samples[entity][column] for column in telling]
        found: list[list[Row]] = []
        for key in keys:
            rows: dict[Key, Row] = {}
            for number in range(many):
                values = [_nth(kind, value, number) for kind, value in zip(kinds, sample, strict=True)]
                row = self.row(entity, (*telling, *step.columns), (*values, *key))
                rows.setdefault(tuple(row[column] for column in about.key), row)
            found.append(list(rows.values()))
        return found

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

    def requests(self, writes: Sequence[Write], many: int) -> list[list[Edit]]:
        """The edits of each request, as far as all are done."""
        self.reader.many = many
        jobs = self.jobs(writes)
        found = self.sent(jobs, many)
        if not found:  # the rows that are there are as the write would have them: then they are not
            self.reader.created |= {(job.entity.name, job.key) for job in jobs}
            found = self.sent(jobs, many)
        return found

    def jobs(self, writes: Sequence[Write]) -> list[Job]:
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
        return jobs

    def sent(self, jobs: Sequence[Job], many: int) -> list[list[Edit]]:
        found: list[list[Edit]] = []
        proc = self.writer.commit(jobs, NOW)
        replies: Any = None
        try:
            while len(found) < (MOST_TOLD if many > 1 else 1):
                step = proc.send(replies)
                requests = () if isinstance(step, Pause) else step
                found += [list(request.edits) for request in requests if getattr(request, "edits", ())]
                replies = [{} for _ in requests]
                if _is_cascade(jobs, found):
                    self.reader.many = 0  # the last of the rows below went with this request
        except StopIteration:
            pass
        finally:
            proc.close()
        return found

    def arguments(self, write: Write) -> dict[str, Any]:
        if write.kind in ("create", "upsert") and not (write.sets or write.adds):
            return self.new_row(write.entity, write.children)
        columns = self.model.entities[write.entity].columns
        sample, given = self.reader.samples[write.entity], self.given[write.entity]
        found: dict[str, Any] = {}

        def note(operand: Operand, column: str) -> None:
            if not isinstance(operand, Param):
                return
            field = columns[column].field
            if operand.name == column != field:  # a reference of several columns is given as a whole
                found.setdefault(
                    field, given.get(field) or tuple(_value(columns[c].type) for c in self.parts(write, field))
                )
                return
            kind = columns[column].type
            value = sample[column] if sample[column] is not None else _value(kind)
            wanted = write.params.get(operand.name)
            if wanted is not None and wanted.is_collection != kind.is_collection:  # one of several, or one of them
                value = [value] if wanted.is_collection else next(iter(value), _value(wanted))
            found.setdefault(operand.name, value)

        for condition in (*write.where, *write.condition):
            for operand in condition.operands:
                note(operand, condition.path.column)
        for column, operand in (*write.sets.items(), *write.adds.items()):
            note(operand, column)
            value = operand.value if isinstance(operand, Literal) else None
            if sample[column] == value or column in write.sets:
                sample[column] = _other(columns[column].type, sample[column], value)
        return found

    def parts(self, write: Write, field: str) -> list[str]:
        """The columns of a field."""
        columns = self.model.entities[write.entity].columns
        return [name for name, column in columns.items() if column.field == field]

    def key(self, write: Write) -> Key:
        """The key of a row that a write finds."""
        return tuple(self.reader.samples[write.entity][column] for column in self.model.entities[write.entity].key)

    def new_row(self, entity: str, children: Children) -> dict[str, Any]:
        fields = self.model.entities[entity].fields
        # What has a default is left out: the design takes new rows to have it, and sparse entries may depend on it.
        row = {name: value for name, value in self.given[entity].items() if fields[name].default is None}
        for role, deeper in children.items():
            step = self.model.entities[entity].roles[role]
            child = self.new_row(step.entity, deeper)
            about = self.model.entities[step.entity]
            for column in about.key if step.entity == entity else ():
                if column in child:  # a row is no child of its own
                    child[column] = _nth(about.columns[column].type, child[column], 1)
            row[role] = [{name: value for name, value in child.items() if name != step.field}]
        return row


def _is_cascade(jobs: Sequence[Job], sent: Sequence[Sequence[Edit]]) -> bool:
    """Whether rows below a row that is to go have gone so far, in one request of those that it takes."""
    return bool(sent) and all(isinstance(job, Written) and job.write.kind == "delete" for job in jobs)


def _nth(type: Type, value: Any, number: int) -> Any:
    """One of many values of a type, the first of them the one given."""
    if number == 0 or value is None:
        return value
    match type.kind:
        case "int" | "decimal" | "float":
            return value + number
        case "uuid":
            return UUID(int=(value.int + number) % 2**128)
        case "ulid":
            return ulid_text(number)
        case "timestamp":
            return value + timedelta(milliseconds=number)
        case "date":
            return value + timedelta(days=number)
        case "string" | "text":
            return f"{number}{value[len(str(number)) :]}"
        case "bytes":
            return number.to_bytes(2, "big") + value[2:]
    return value


def _some(type: Type) -> Any:
    """A value that something can be added to and taken from; only numbers are computed like that."""
    return {"int": 10, "decimal": Decimal(10), "float": 10.0}.get(type.kind)


def _value(type: Type) -> Any:
    """A value of a type, for fields that the made-up row lacks."""
    match type.kind:
        case "int" | "decimal" | "float":
            return _some(type)
        case "string" | "text":
            return "x"
        case "bool":
            return True
        case "enum":
            return type.values[0][0]
        case "timestamp":
            return NOW
        case "date":
            return NOW.date()
        case "uuid":
            return UUID(int=1)
        case "ulid":
            return ulid_text(1)
        case "bytes":
            return b"x"
        case "set":
            return frozenset()
    return []


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
