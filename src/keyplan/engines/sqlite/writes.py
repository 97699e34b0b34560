"""Writes as requests, and how their refusals read.

A `WriteRequest` is a list of steps. The port runs a single step as it is, several in one BEGIN IMMEDIATE ... COMMIT,
and stops at the first whose check fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from keyplan.engines.rounds import Reply, Row, Then
from keyplan.engines.sqlite.layout import Layout, Table
from keyplan.engines.sqlite.limits import BULK_ROWS
from keyplan.engines.sqlite.statements import Raw, Template, delete_text, insert_text, shape_of, templates, upsert_text
from keyplan.engines.sqlite.values import encoder, entry_encoder, row_decoder, rows_encoder
from keyplan.errors import ConflictError, EngineError, KeyplanError, RangeError, UnsupportedError, row_named
from keyplan.plan.edits import Edit, Puts

_OUT_OF_RANGE = re.compile(r"CHECK constraint failed: (.+) out of range$")
_BECAME_REAL = re.compile(r"cannot store REAL value in INTEGER column (.+)$")


@dataclass(slots=True)
class Step:
    """One statement of a write."""

    text: str
    values: Raw
    check: int
    edit: int
    returns: bool


@dataclass(slots=True)
class WriteRequest:
    """Statements that are done together or not at all."""

    steps: list[Step]
    edits: Sequence[Edit]
    tables: Sequence[Table]
    returns: bool = False
    batches: Sequence[tuple[Table, str, list[Raw]]] = ()
    """Statements with the parameters of many rows, done before the steps."""
    then: Then | None = None
    """What is done behind the steps, before the commit."""

    @property
    def is_single(self) -> bool:
        """Whether one statement does it all, which is a transaction by itself."""
        return len(self.steps) == 1 and not self.batches and self.then is None

    def failed(self, step: Step) -> KeyplanError:
        """The error for a check that failed."""
        edit, table = self.edits[step.edit], self.tables[step.edit]
        if edit.expect == "absent":
            return conflict(step.edit, f"{_row(table, edit)} exists already; give another key")
        if edit.tests:
            return conflict(
                step.edit, f"{_row(table, edit)} is missing, or the condition of the write does not hold; read it again"
            )
        return conflict(step.edit, f"{_row(table, edit)} does not exist; check its key")

    def refused(self, step: Step, message: str) -> KeyplanError:
        """The error for a constraint that SQLite found violated."""
        edit, table = self.edits[step.edit], self.tables[step.edit]
        return refusal(table, message, step.edit, _row(table, edit))


@dataclass(slots=True)
class BulkRequest:
    """Statements, each with the parameters of many rows, done in one transaction."""

    batches: list[tuple[Table, str, list[Raw]]]


def _is_alike(one: Edit, other: Edit) -> bool:
    """Whether two edits are plain puts of one shape, which is quickly said, and common where there are many."""
    return (
        one.do == other.do == "put"
        and one.view == other.view
        and one.expect == other.expect
        and one.alive_at is other.alive_at
        and not (one.tests or other.tests or one.returning or other.returning or one.entry or other.entry)
    )


def refusal(table: Table, message: str, edit: int | None, row: str) -> KeyplanError:
    """What a violated constraint means."""
    found = _OUT_OF_RANGE.search(message)
    real = _BECAME_REAL.search(message)
    if found or real:
        name = found[1] if found else _path(real[1] if real else "", table)
        return RangeError(f"{row}: '{name}' would leave the range of its type; nothing was written", edit=edit)
    if message.startswith("UNIQUE constraint failed"):
        fields = _unique_fields(message, table)
        if fields is None:
            return conflict(edit, f"{row} exists already; give another key")
        named = ", ".join(f"'{name}'" for name in fields)
        return conflict(edit, f"{row}: another row has the same {named}; give another value")
    return EngineError(f"{row}: sqlite refused it: {message}")


def conflict(edit: int | None, message: str) -> ConflictError:
    """A ConflictError that knows the number of its edit."""
    error = ConflictError(message)
    error.edit = edit  # type: ignore[attr-defined]
    return error


def _row(table: Table, edit: Edit) -> str:
    return row_named(table.view.entity, edit.key)


def _path(column: str, table: Table) -> str:
    """The path of a column that SQLite calls `Table.column`."""
    return column.removeprefix(f"{table.name}.")


def _unique_fields(message: str, table: Table) -> list[str] | None:
    """The fields of the index that a message speaks of; None: the primary key."""
    listed = message.partition(": ")[2]
    for index in table.indexes:
        if index.view.unique:
            columns = [f"{table.name}.{part.column}" for part in index.parts if part.column]
            if listed in (", ".join(columns), f"index '{index.name}'"):
                return [part.path for part in index.parts]
    return None


@dataclass(slots=True)
class _Bulk:
    """The statements for whole entries of one table."""

    table: Table
    put: str
    put_values: Callable[[Raw, Mapping[str, Any]], Raw]
    delete: str
    delete_values: Callable[[Raw], Raw]


class Writer:
    """Edits to requests, for one layout."""

    def __init__(self, layout: Layout) -> None:
        self._tables = layout.tables
        self._templates: dict[tuple[Any, ...], list[Template]] = {}
        self._bulks: dict[str, _Bulk] = {}
        self._decoders: dict[str, Callable[[Any], list[Row]]] = {}
        self._encoders: dict[str, Callable[[Iterable[Any]], list[Raw]]] = {}

    def write(self, edits: Sequence[Edit]) -> WriteRequest:
        steps = []
        tables = []
        returns = False
        last: Edit | None = None
        prepared: list[Template] = []
        for number, edit in enumerate(edits):
            tables.append(self._table(edit))
            returns = returns or edit.returning
            if last is None or not _is_alike(last, edit):
                prepared, last = self._prepared(edit), edit
            for template in prepared:
                steps.append(Step(template.text, template.values(edit), template.check, number, template.returns))
        return WriteRequest(steps, edits, tables, returns)

    def write_many(self, puts: Sequence[Puts], edits: Sequence[Edit]) -> WriteRequest:
        """Whole entries go in table by table, in the order of their keys."""
        batches = []
        rest: list[Edit] = []
        for some in puts:
            table = self._tables.get(some.view)
            if table is None or some.at or not table.parts or (some.alive_at is not None and table.expires):
                rest += some.edits()  # each needs a look at what is there
                continue
            if some.keys is None:
                values = self._many(table)(some.rows)
            else:
                encode = self._bulk(some.view).put_values
                values = [encode(key, row) for key, row in zip(some.keys, some.rows, strict=True)]
            values.sort(key=itemgetter(*range(len(table.parts))))
            batches.append((table, insert_text(table) if some.expect == "absent" else upsert_text(table), values))
        request = self.write([*rest, *edits])
        request.batches = batches
        return request

    def wrote(self, request: WriteRequest, reply: Reply) -> list[Row | None]:
        if isinstance(reply, Exception):
            raise reply
        outcome: list[Row | None] = [None] * len(request.edits)
        if not request.returns:
            return outcome
        for step, rows in zip(request.steps, reply, strict=True):
            if step.returns and rows:
                outcome[step.edit] = self._decoder(request.tables[step.edit])(rows)[0]
        return outcome

    def bulk(self, edits: Sequence[Edit]) -> list[BulkRequest]:
        """Upserts and deletes, grouped by table; rows go in by key, which keeps B-tree pages in the cache."""
        requests = []
        for start in range(0, len(edits), BULK_ROWS):
            by_view: dict[str, list[Edit]] = {}
            for edit in edits[start : start + BULK_ROWS]:
                by_view.setdefault(edit.view, []).append(edit)
            batches = [batch for view, here in by_view.items() for batch in self._batches(view, here)]
            requests.append(BulkRequest(batches))
        return requests

    def _batches(self, view: str, edits: list[Edit]) -> list[tuple[Table, str, list[Raw]]]:
        bulk = self._bulk(view)
        width = len(bulk.table.parts)
        batches = []
        for do, group in groupby(edits, key=lambda edit: edit.do):
            if do == "put":
                put = bulk.put_values
                values = [put(edit.key, edit.values) for edit in group]
                values.sort(key=lambda row: row[:width])
                batches.append((bulk.table, bulk.put, values))
            elif do == "delete":
                batches.append((bulk.table, bulk.delete, [bulk.delete_values(edit.key) for edit in group]))
            else:
                raise UnsupportedError(f"sqlite: no '{do}' in bulk")
        return batches

    def putter(self, view: str) -> Callable[[Sequence[Row]], list[BulkRequest]] | None:
        """A function from whole rows to requests. They go in by key, and where keys are equal in the order given; but
        all in the order given where values are unique, which one row may take only after another has given them up."""
        table = self._tables.get(view)
        if table is None or not table.parts:
            return None
        encode, text = self._many(table), upsert_text(table)
        by_key = itemgetter(*range(len(table.parts)))
        is_sorted = not any(index.view.unique for index in table.indexes)

        def put(rows: Sequence[Row]) -> list[BulkRequest]:
            values = sorted(encode(rows), key=by_key) if is_sorted else list(encode(rows))
            chunks = [values[start : start + BULK_ROWS] for start in range(0, len(values), BULK_ROWS)]
            return [BulkRequest([(table, text, chunk)]) for chunk in chunks]

        return put

    def _table(self, edit: Edit) -> Table:
        if edit.at or edit.view not in self._tables:
            raise UnsupportedError(f"view '{edit.view}': not a table of its own on sqlite")
        return self._tables[edit.view]

    def _prepared(self, edit: Edit) -> list[Template]:
        shape = shape_of(edit)
        found = self._templates.get(shape)
        if found is None:
            found = self._templates[shape] = templates(self._table(edit), edit)
        return found

    def _bulk(self, view: str) -> _Bulk:
        if view not in self._bulks:
            table = self._tables[view]
            places = {part.path: place for place, part in enumerate(table.parts)}
            self._bulks[view] = _Bulk(
                table,
                upsert_text(table),
                entry_encoder(table.entry, places),
                delete_text(table),
                encoder([part.slot for part in table.parts]),
            )
        return self._bulks[view]

    def _many(self, table: Table) -> Callable[[Iterable[Any]], list[Raw]]:
        """From rows to the parameters of each."""
        if table.name not in self._encoders:
            self._encoders[table.name] = rows_encoder(table.entry)
        return self._encoders[table.name]

    def _decoder(self, table: Table) -> Callable[[Any], list[Row]]:
        if table.name not in self._decoders:
            self._decoders[table.name] = row_decoder(table.name, table.entry)
        return self._decoders[table.name]
