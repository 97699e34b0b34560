"""What a file holds against what the design wants, and the steps from one to the other.

The design that a file holds is recorded in the table `keyplan_design`, and with it which tables are ours. SQLite
changes schemas inside transactions, so that everything is done by the last step, in one of them: it looks at the file
again, changes tables and indexes, fills what is new and records the design. Whoever is killed before the commit leaves
the file as it was, and nobody sees anything in between: stores read on, and who wants to write waits. Of two processes
that apply designs at once, the second finds another file than it has looked at: it is refused before it has done
anything, or, if the file holds the very design by now, has nothing to do. If a store has written the first row of a
table that was to go, it is taken back, and begun anew with the look at what would be lost.

Earlier versions filled tables before the design was recorded, and noted in the record that they did so (`CHANGING`, and
`null` for a table that would hold other rows): what they have left is found, and finished or taken back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keyplan.engines.changing import GONE, LEFT_OUT, MAY_LACK, UNFINISHED, Catalog, Change, RowsCameError
from keyplan.engines.rounds import Proc, Reply, Then
from keyplan.engines.sqlite.guard import CHANGING, TICK, UPKEEP
from keyplan.engines.sqlite.layout import Table, index_ddl, layout, table_ddl
from keyplan.engines.sqlite.pack import DESIGN_TABLE
from keyplan.engines.sqlite.sql import quote
from keyplan.engines.sqlite.statements import NOTHING
from keyplan.engines.sqlite.writes import Step, WriteRequest
from keyplan.errors import ConflictError, DesignMismatchError, KeyplanError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import design_hash

_RECORD_DDL = f"""CREATE TABLE IF NOT EXISTS {DESIGN_TABLE} (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  model TEXT NOT NULL,
  hash TEXT NOT NULL,
  lock TEXT NOT NULL,
  tables TEXT NOT NULL
) STRICT"""
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_RECORD = f"SELECT model, hash, lock, tables FROM {DESIGN_TABLE}"


def inspect(model: Model, design: Design) -> Proc[Catalog]:
    """The tables and indexes there are, and the design on record."""
    schema = _rows((yield [(_SCHEMA, ())])[0])
    record = next((text for _, name, _, text in schema if name == DESIGN_TABLE), None)
    if record is not None and not _RECORD_DDL.endswith(record.partition(DESIGN_TABLE)[2]):
        raise DesignMismatchError(f"the file has a '{DESIGN_TABLE}' that keyplan did not make; name another file")
    tables = {name: text for kind, name, _, text in schema if kind == "table" and name != DESIGN_TABLE}
    indexes = {name: (table, text) for kind, name, table, text in schema if kind == "index"}
    views = [name for kind, name, _, _ in schema if kind == "view"]
    found: dict[str, Any] = {"tables": tables, "indexes": indexes, "views": views, "ours": {}, "model": None}
    found["empty"] = set()
    if record is None:
        return Catalog(found=found)
    recorded = _rows((yield [(_RECORD, ())])[0])
    if not recorded:
        return Catalog(found=found)
    name, recorded_hash, lock, ours = recorded[0]
    try:
        tables_of_ours = dict(json.loads(ours).items())
    except (ValueError, AttributeError):
        raise DesignMismatchError(
            f"the record of the design in '{DESIGN_TABLE}' is damaged; restore the file from a backup, or name another"
        ) from None
    changing = tables_of_ours.pop(CHANGING, None)
    tables_of_ours.pop(UPKEEP, None)
    found |= {"ours": tables_of_ours, "noted": ours, "model": name}
    wanted = {table.name for table in layout(model, design).tables.values()}
    going = [name for name, home in tables_of_ours.items() if home and name in tables and wanted and name not in wanted]
    for each in going:
        some = _rows((yield [(f"SELECT 1 FROM {quote(each)} LIMIT 1", ())])[0])
        found["empty"] |= set() if some else {each}
    return Catalog(recorded_hash, lock, found, UNFINISHED if changing or None in tables_of_ours.values() else "")


def _rows(reply: Reply) -> Any:
    if isinstance(reply, KeyplanError):
        raise reply
    return reply


def changes(model: Model, design: Design, lock: str, upkeep: str, found: Catalog) -> tuple[Change, ...]:
    """The steps that make the file hold the design; none if it does already."""
    places = layout(model, design)
    wanted = {table.name: table for table in places.tables.values()}
    indexes = {index.name: index for index in places.indexes.values()}
    ours: Mapping[str, bool | None] = found.found.get("ours", {})
    there: Mapping[str, str] = found.found.get("tables", {})
    there_indexes: Mapping[str, tuple[str, str]] = found.found.get("indexes", {})
    other = found.found.get("model")
    if other not in (None, model.name):
        raise DesignMismatchError(
            f"the file holds a design of the model '{other}', not of '{model.name}'; name another file"
        )
    known = {name.lower(): name for name in there}
    for name in wanted:
        _check_table(known.get(name.lower()), wanted[name], ours, there)
    _check_names([*wanted, *indexes], found, ours)
    tables = {name: _is_home(design, table) for name, table in wanted.items()}
    batch = _Batch(found, model, design, lock, upkeep, tables)
    steps: list[SqliteChange] = []
    for name, (table, text) in there_indexes.items():
        if table in ours and (name not in indexes or text != index_ddl(indexes[name])) and text is not None:
            steps.append(SqliteChange(batch, f"drop index {name}", f"DROP INDEX IF EXISTS {quote(name)}"))
    for name, home in ours.items():
        if name in there and name not in wanted:
            loses = bool(home) and name not in found.found["empty"]
            what = "with all its rows" if loses else "whose rows can be made again"
            text = f"DROP TABLE IF EXISTS {quote(name)}"
            steps.append(SqliteChange(batch, f"drop table {name}, {what}", text, destructive=loses, drops=name))
    for name, wanted_table in wanted.items():
        if name.lower() not in known:
            home = _is_home(design, wanted_table)
            emptied = "" if name not in ours else f", empty: {GONE if home else LEFT_OUT}"
            step = SqliteChange(batch, f"create table {name}{emptied}", _if_missing(table_ddl(wanted_table)))
            step.fault, step.is_place, step.is_home = f"table {name} is missing", True, home
            steps.append(step)
    for name, index in indexes.items():
        if there_indexes.get(name, ("", ""))[1] != index_ddl(index):
            step = SqliteChange(batch, f"create index {name}", _if_missing(index_ddl(index)))
            step.fault = f"index {name} is {'another' if name in there_indexes else 'missing'}"
            steps.append(step)
    if not steps and not found.unfinished and found.lock == lock and found.design_hash == design_hash(lock):
        return ()
    return (*steps, _Record(batch, {view: table.name for view, table in places.tables.items()}))


def lost(found: Catalog) -> str | None:
    """A table of rows that is on record, and gone."""
    gone = [name for name, home in found.found["ours"].items() if home and name not in found.found["tables"]]
    return f"table {gone[0]}" if gone else None


def _if_missing(text: str) -> str:
    for head in ("CREATE TABLE ", "CREATE UNIQUE INDEX ", "CREATE INDEX "):
        if text.startswith(head):
            return f"{head}IF NOT EXISTS {text[len(head) :]}"
    raise ValueError(text)


def _is_home(design: Design, table: Table) -> bool:
    return design.homes.get(table.view.entity, ("",))[0] == table.view.name


def _check_table(name: str | None, table: Table, ours: Mapping[str, bool | None], there: Mapping[str, str]) -> None:
    if name is None:
        return
    if name not in ours:
        raise DesignMismatchError(
            f"the file has a table '{name}' that keyplan did not make; name another file, or rename the table"
        )
    if there[name] != table_ddl(table):
        fresh = _newly_required(there[name], table)
        if fresh is not None:
            raise DesignMismatchError(
                MAY_LACK.format(rows=table.view.entity, field=fresh, remedy="load the rows into a new file")
            )
        raise DesignMismatchError(
            f"the table '{name}' is laid out for another design, and its rows are not moved; "
            "load the rows into a new file, or open this one with the model it was made for"
        )


def _newly_required(there: str, table: Table) -> str | None:
    """The field that rows of a table may lack, and not by the design, where nothing else is otherwise."""
    old, new = there.splitlines(), table_ddl(table).splitlines()
    if [line.replace(" NOT NULL", "") for line in old] != [line.replace(" NOT NULL", "") for line in new]:
        return None
    paths = list(table.slots)
    added = [
        paths[number - 1]
        for number, (had, has) in enumerate(zip(old, new, strict=True))
        if had != has and " NOT NULL" in has and 0 < number <= len(paths)
    ]
    return added[0] if added else None


def _check_names(wanted: Iterable[str], found: Catalog, ours: Mapping[str, bool | None]) -> None:
    """Tables, views and indexes share their names, and `IF NOT EXISTS` would take one for another."""
    indexes: Mapping[str, tuple[str, str]] = found.found.get("indexes", {})
    taken = {name.lower(): f"a table '{name}'" for name in found.found.get("tables", ()) if name not in ours}
    taken |= {name.lower(): f"a view '{name}'" for name in found.found.get("views", ())}
    taken |= {name.lower(): f"an index '{name}'" for name, (table, _) in indexes.items() if table not in ours}
    for name in wanted:
        if name.lower() in taken:
            raise DesignMismatchError(
                f"the file has {taken[name.lower()]} that keyplan did not make; name another file, or rename it"
            )


@dataclass
class _Batch:
    """What the last step does: the statements of all steps that were run, and what fills tables."""

    found: Catalog
    model: Model
    design: Design
    lock: str
    upkeep: str
    tables: dict[str, bool]
    statements: dict[str, None] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    fills: list[Then] = field(default_factory=list)


class SqliteChange(Change):
    """One statement; sent by the last step."""

    def __init__(
        self, batch: _Batch, summary: str, text: str, *, destructive: bool = False, drops: str | None = None
    ) -> None:
        self.summary = summary
        self.destructive = destructive
        self.text = text
        self._batch = batch
        self._drops = drops

    def run(self) -> Proc[None]:
        self._batch.statements[self.text] = None
        if self._drops:
            self._batch.dropped.add(self._drops)
        return
        yield


class _Record(Change):
    """Does everything in one transaction, with the design's record."""

    summary = f"record the design in {DESIGN_TABLE}"
    at_once = True

    def __init__(self, batch: _Batch, names: Mapping[str, str]) -> None:
        """`names` are those of the tables, by view."""
        ours = batch.found.found.get("ours", {})
        self.doubted = tuple(view for view, name in names.items() if ours.get(name, True) is None)
        self._batch = batch

    def filled(self, fill: Then) -> Proc[None]:
        self._batch.fills.append(fill)
        return
        yield

    def run(self) -> Proc[None]:
        _rows((yield [_Script([], (), (), then=self._within)])[0])

    def _within(self) -> Proc[None]:
        """What is done between the beginning of the transaction and its end."""
        batch = self._batch
        found = batch.found
        now = yield from inspect(batch.model, batch.design)
        if _without_rows(now) != _without_rows(found):
            if changes(batch.model, batch.design, batch.lock, batch.upkeep, now):
                raise ConflictError(
                    "another process has applied a design to this file, or changed its tables; look at it again"
                )
            return  # somebody who applies the same design was faster
        if found.found["empty"] - now.found["empty"]:
            raise RowsCameError("a table that is to be dropped")
        kept = {name: home for name, home in found.found["ours"].items() if name not in batch.dropped}
        tables = json.dumps({**kept, **batch.tables, UPKEEP: batch.upkeep}, sort_keys=True)
        ticks = [] if found.design_hash is None else TICK
        yield from _done([_step(text) for text in (_RECORD_DDL, *ticks, *batch.statements)])
        for fill in batch.fills:
            yield from fill()
        record = f"INSERT OR REPLACE INTO {DESIGN_TABLE} (only, model, hash, lock, tables) VALUES (1, ?, ?, ?, ?)"
        yield from _done([_step(record, (batch.model.name, design_hash(batch.lock), batch.lock, tables))])


def _without_rows(found: Catalog) -> Catalog:
    """What was seen, but for which tables have rows: stores write them, who apply no design."""
    return replace(found, found={**found.found, "empty": None})


def _done(steps: list[Step]) -> Proc[None]:
    _rows((yield [_Script(steps, (), ())])[0])


def _step(text: str, values: tuple[Any, ...] = ()) -> Step:
    return Step(text, values, NOTHING, 0, False)


class _Script(WriteRequest):
    """A WriteRequest without edits."""

    def refused(self, step: Step, message: str) -> KeyplanError:
        return DesignMismatchError(f"sqlite refused '{step.text}': {message}; the rows do not fit the design")
