"""What a file holds against what the design wants, and the steps from one to the other.

The design that a file holds is recorded in the table `keyplan_design`, and with it which tables are ours. SQLite
changes schemas inside transactions, so all steps are sent together with the record, by the last one: a crash leaves the
file as it was. Only tables that come to a file with rows are made before it, and noted as ours, since they have to be
filled before the design is recorded: whoever applies a design next finds them. That tables are about to be filled is
noted first, so that nobody opens the file, or goes on writing to it, until a design is recorded (`guard.py`); a table
that will hold other rows under the same name is noted as `null`, and the file is not read either. Statements say
IF [NOT] EXISTS, and the record is compared first, so that two processes that apply the same design at once both
succeed, and of two that fill tables one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.base import GONE, LEFT_OUT, MAY_LACK, UNFINISHED, Catalog, Change, Proc, Reply
from keyplan.engines.sqlite.guard import CHANGING, TICK, UPKEEP
from keyplan.engines.sqlite.layout import Table, index_ddl, layout, table_ddl
from keyplan.engines.sqlite.pack import DESIGN_TABLE
from keyplan.engines.sqlite.sql import quote
from keyplan.engines.sqlite.statements import FOUND, NOT_FOUND, NOTHING
from keyplan.engines.sqlite.writes import Step, WriteRequest, conflict
from keyplan.errors import DesignMismatchError, KeyplanError
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
    batch = _Batch(found, model, lock, upkeep, {name: _is_home(design, table) for name, table in wanted.items()})
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
            step: SqliteChange = _NewTable(
                batch, f"create table {name}{emptied}", _if_missing(table_ddl(wanted_table)), name
            )
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
    """The statements of all steps that were run, until the last one sends them."""

    found: Catalog
    model: Model
    lock: str
    upkeep: str
    tables: dict[str, bool]
    statements: dict[str, None] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    noted: str = ""
    """What we have had the record say of tables since it was found."""


class SqliteChange(Change):
    """One statement; sent with the record."""

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


class _NewTable(SqliteChange):
    """A table; made at once where a design is recorded, since it may have to be filled before the next one is."""

    def __init__(self, batch: _Batch, summary: str, text: str, name: str) -> None:
        super().__init__(batch, summary, text)
        self._name = name

    def run(self) -> Proc[None]:
        batch = self._batch
        if batch.found.design_hash is None:
            yield from super().run()
            return
        yield from _note(batch, {self._name: batch.tables[self._name]}, [_step(self.text)])


class _Record(Change):
    """Sends everything else in one transaction, with the design's record."""

    destructive = False

    def __init__(self, batch: _Batch, names: Mapping[str, str]) -> None:
        """`names` are those of the tables, by view."""
        self.summary = f"record the design in {DESIGN_TABLE}"
        ours = batch.found.found.get("ours", {})
        self.doubted = tuple(view for view, name in names.items() if ours.get(name, True) is None)
        self._batch = batch
        self._names = names

    def unsettle(self, views: Sequence[str]) -> Proc[None]:
        about = {CHANGING: design_hash(self._batch.lock), **{self._names[view]: None for view in views}}
        yield from _note(self._batch, about, _TICK)

    def run(self) -> Proc[None]:
        batch = self._batch
        found = batch.found
        kept = {name: home for name, home in found.found["ours"].items() if name not in batch.dropped}
        tables = json.dumps({**kept, **batch.tables, UPKEEP: batch.upkeep}, sort_keys=True)
        steps = [_step(_RECORD_DDL)]
        mine = design_hash(batch.lock)
        if found.design_hash is None:
            steps.append(_step(f"SELECT 1 FROM {DESIGN_TABLE} WHERE hash <> ?", (mine,), NOT_FOUND))
        else:
            seen = (found.design_hash, batch.noted or found.found["noted"])
            faster = "" if mine == found.design_hash else mine  # somebody who applies the same design
            same = f"SELECT 1 FROM {DESIGN_TABLE} WHERE (hash = ? AND tables = ?) OR hash = ?"
            steps += [_step(same, (*seen, faster), FOUND), *_TICK]
        steps += [_step(text) for text in batch.statements]
        record = f"INSERT OR REPLACE INTO {DESIGN_TABLE} (only, model, hash, lock, tables) VALUES (1, ?, ?, ?, ?)"
        steps.append(_step(record, (batch.model.name, mine, batch.lock, tables)))
        _rows((yield [_Script(steps, (), ())])[0])


def _note(batch: _Batch, tables: Mapping[str, bool | str | None], steps: Sequence[Step] = ()) -> Proc[None]:
    """Has the record say more of tables, together with other steps, if nobody has written it since we looked."""
    seen = batch.noted or batch.found.found["noted"]
    told = json.dumps({**json.loads(seen), **tables}, sort_keys=True)
    same = f"SELECT 1 FROM {DESIGN_TABLE} WHERE hash = ? AND tables = ?"
    check = _step(same, (batch.found.design_hash, seen), FOUND)
    _rows((yield [_Script([check, *steps, _step(f"UPDATE {DESIGN_TABLE} SET tables = ?", (told,))], (), ())])[0])
    batch.noted = told


def _step(text: str, values: tuple[Any, ...] = (), check: int = NOTHING) -> Step:
    return Step(text, values, check, 0, False)


_TICK = [_step(text) for text in TICK]


class _Script(WriteRequest):
    """A WriteRequest without edits."""

    def failed(self, step: Step) -> KeyplanError:
        return conflict(0, "another process is applying a design to this file; wait for it, then look again")

    def refused(self, step: Step, message: str) -> KeyplanError:
        return DesignMismatchError(f"sqlite refused '{step.text}': {message}; the rows do not fit the design")
