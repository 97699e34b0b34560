"""Verify: every structure against the design, every entry of every view that keyplan keeps against its home rows.

Homes are streamed in chunks. For each row the entries it ought to have are read by their keys and compared; then each
view is streamed for entries that no row accounts for; groups of measures are counted anew. What an engine keeps by keys
that we write into entries is compared last. A repair makes the views equal to the homes, and should run while nobody
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import compress, product
from typing import Any
from uuid import UUID

from keyplan.engines.base import Ask, Proc, Reader, Sighting, Span
from keyplan.errors import DesignMismatchError, EngineError, StorageError
from keyplan.model.entity import EXPIRES
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.terms import plus
from keyplan.plan.view import COUNT, FIRST_EXPIRES, VERSION
from keyplan.store.bulk.apply import all_lost, drift
from keyplan.store.bulk.unread import Unread
from keyplan.store.bulk.verify_subsets import SubsetCheck
from keyplan.store.core import Core
from keyplan.store.reading.expiry import compile_alive, is_gone
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row, World, differs, entries_at

MOST_LISTED = 100
TOGETHER = 500
"""Rows whose entries are looked up at once."""


@dataclass
class ViewReport:
    """What was found in one view."""

    entries: int = 0
    missing: int = 0
    wrong: int = 0
    extra: int = 0


@dataclass
class Verification:
    """The outcome of `verify`."""

    views: dict[str, ViewReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """The first of them, in words."""
    structures: list[str] = field(default_factory=list)
    """What the design has and the server has not or otherwise, in words."""
    unreadable: int = 0
    """Rows, and entries of views, with values that are not what the model says; they are named among the problems, and
    nothing that depends on them is compared or repaired."""
    compared: bool = True
    """Whether the views were compared at all: not while a place of theirs, or an index that this takes, is missing."""
    rows: int = 0
    repaired: int = 0

    @property
    def ok(self) -> bool:
        """Whether every structure was there, and every view what its home rows imply."""
        if self.structures or self.unreadable:
            return False
        return not any(one.missing or one.wrong or one.extra for one in self.views.values())

    def unread(self, view: str, what: str, key: Key | None) -> None:
        self.unreadable += 1
        if len(self.problems) < MOST_LISTED:
            self.problems.append(f"{view}: unreadable entry{'' if key is None else f' ({_listed(key)})'}: {what}")

    def note(self, view: str, what: str, key: Key) -> None:
        report = self.views[view]
        setattr(report, what, getattr(report, what) + 1)
        if len(self.problems) < MOST_LISTED:
            self.problems.append(f"{view}: {what} entry ({_listed(key)})")


def verify(core: Core, repair: bool = False, progress: Callable[[int], None] | None = None) -> Proc[Verification]:
    """Compares all views with the homes; repairs them if asked to."""
    yield from core.writer.intents.finish_all(core.clock())
    work = Verifier(core, repair, progress)
    yield from work.structures()
    try:
        for entity in _children_first(core) if work.result.compared else ():
            yield from work.entity(entity)
        if work.result.compared:
            yield from work.kept_by_engine()
    except EngineError:
        if repair or not work.result.structures:
            raise
        # What is computed of a row is read through an index: it may be the one that is missing.
        return Verification(
            views={name: ViewReport() for name in work.result.views},
            structures=work.result.structures,
            compared=False,
        )
    return work.result


def fill(core: Core, views: frozenset[str], progress: Callable[[int], None] | None = None) -> Proc[None]:
    """Makes the entries of some views, and the copies in homes among them, from the rows.

    What writers left behind is finished when all that they would change is there."""
    work = Verifier(core, True, progress, views)
    for entity in _children_first(core):
        if any(work.is_concerned(place) for place in core.places.of[entity]):
            yield from work.entity(entity)
    yield from core.writer.intents.finish_all(core.clock())


def _children_first(core: Core) -> list[str]:
    """The entities, those before that others have values computed of: these are worked out from views of them."""
    found: dict[str, None] = {}
    begun: set[str] = set()

    def visit(name: str) -> None:
        if name not in begun:
            begun.add(name)
            for kept in core.places.kept[name]:
                visit(kept.child)
            found[name] = None

    for name in core.model.entities:
        visit(name)
    return list(found)


class Verifier:
    """A comparison under way."""

    def __init__(
        self,
        core: Core,
        repair: bool,
        progress: Callable[[int], None] | None,
        only: frozenset[str] | None = None,
    ) -> None:
        """`only`: the views to look at, which are about to be filled: then every row has to be readable."""
        self.result = Verification()
        self.unread = Unread(core.model, self.result.unread)
        self.core = core = self.unread.passing(core) if only is None else core
        self.only = only
        self.now: datetime = core.clock()
        self.repair = repair
        self.progress = progress
        for places in core.places.of.values():
            for place in places:
                self.result.views.setdefault(place.view.name, ViewReport())

    def structures(self) -> Proc[None]:
        """What somebody has dropped or made otherwise; a home without its rows is beyond repair."""
        steps = yield from drift(self.core.model, self.core.engine, self.core.design)
        lost = next((step.fault for step in steps if step.is_home), None)
        if lost is not None:
            raise all_lost(lost.removesuffix(" is missing"))
        if not any(step.is_place for step in steps):
            steps = [*steps, *(yield from self.core.engine.stale(self.core.model, self.core.design))]
        self.result.structures = [step.fault for step in steps if step.fault]
        if not self.repair or not self.result.structures:
            self.result.compared = not any(step.is_place for step in steps)
            return
        for step in steps:
            if step.destructive:  # more than the recorded design explains: not to be done by the way
                raise DesignMismatchError(f"{self.result.structures[0]}; look at it with 'keyplan apply'")
        for step in steps:
            yield from step.run()
        self.result.repaired += len(self.result.structures)

    def is_concerned(self, place: Place) -> bool:
        return self.only is None or place.view.name in self.only

    def entity(self, name: str) -> Proc[None]:
        places = [place for place in self.core.places.of[name] if self.is_concerned(place)]
        home = self.core.places.home(name)
        subsets = {id(place): SubsetCheck(self, place) for place in places if place.limit is not None}
        groups: dict[str, dict[Key, dict[str, Any]]] = {place.view.name: {} for place in places if place.measures}
        columns = self.core.model.entities[name].stored

        def check(rows: list[Row]) -> Proc[None]:
            alive = [row for row in rows if not is_gone(row, self.now) and self.has_key(name, home, row)]
            self.result.rows += len(alive)
            own = [{column: row[column] for column in columns} for row in alive]
            if self.core.places.kept[name]:
                key = self.core.model.entities[name].key
                keys = [tuple(row[column] for column in key) for row in own]
                computed = yield from self.core.mutator.computed.values(name, keys, self.now)
                for kept in self.core.places.kept[name]:
                    if self.is_doubtful(kept.child):
                        computed = [
                            {**more, kept.column: row[kept.column]} for row, more in zip(alive, computed, strict=True)
                        ]
                own = [{**row, **more} for row, more in zip(own, computed, strict=True)]
            world = World(self.core.model, self.core.reader, self.now)
            yield from world.fetch(
                (name, row, path.roles, True) for place in places for path in place.copies for row in own
            )
            for place in places:
                full = [world.full(name, row, place.copies, True) for row in own]
                stored = alive
                certain = self.unread.certain(place, full)
                if not all(certain):
                    full, stored = list(compress(full, certain)), list(compress(alive, certain))
                if place.measures:
                    count(place, full, groups[place.view.name])
                elif place is home:
                    yield from self.check_home(place, full, stored)
                elif place.limit is not None:
                    subsets[id(place)].add(full)
                else:
                    yield from self.check_entries(place, full)
            if self.progress is not None:
                self.progress(self.result.rows)

        yield from self.scan(home, home.holds, check)
        for place in places:
            unsure = bool(self.unread.unsure(place))
            if unsure or (self.unread.is_any(name) and (place.measures or place.limit is not None)):
                continue  # what it ought to hold depends on rows that cannot be read
            if place.measures:
                yield from self.check_groups(place, groups[place.view.name])
            elif place.limit is not None:
                yield from subsets[id(place)].run()
            elif place is not home:
                yield from self.check_extra(place)

    def has_key(self, name: str, home: Place, row: Row) -> bool:
        """Whether a row has its own key; another is none that we have written."""
        for column in self.core.model.entities[name].key:
            if row.get(column) is None:
                what = (
                    f"a row of '{name}' has no '{column}', which is part of its key; something else wrote it, or it is "
                    "damaged: put it right or restore a backup"
                )
                if self.only is not None:
                    raise StorageError(what)
                self.unread.lost(name, home.view.name, what)
                return False
        return True

    def is_doubtful(self, child: str) -> bool:
        """Whether views of an entity are wrong and stay so: what is computed of its rows cannot be told by them."""
        if self.unread.is_any(child):
            return True
        reports = (self.result.views[place.view.name] for place in self.core.places.of[child] if not place.home)
        return not self.repair and any(report.missing or report.wrong or report.extra for report in reports)

    def kept_by_engine(self) -> Proc[None]:
        """What the engine keeps by itself, as far as it does so by something that we write beside the values."""

        def note(seen: Sighting) -> None:
            report = self.result.views.setdefault(seen.view, ViewReport())
            report.entries += seen.is_entry
            if seen.what:
                self.result.note(seen.view, seen.what, seen.key)
                self.result.repaired += self.repair

        yield from self.core.codec.check(note, repair=self.repair)

    # Reading

    def reader(self, place: Place, takes: Sequence[str]) -> Reader:
        return self.core.codec.reader(Search(place.view.name, place.at, takes=tuple(takes)))

    def scan(self, place: Place, takes: Sequence[str], each: Callable[[list[Row]], Proc[None]]) -> Proc[None]:
        """Streams all entries of a place."""
        reader = self.reader(place, takes)
        asks: list[Ask] = reader.ask([Span(())], None, strong=True)
        while asks:
            ask = asks.pop(0)
            (reply,) = yield [ask.request]
            if isinstance(reply, Exception):
                raise reply
            answer = reader.answer(ask, reply)
            if answer.more is not None:
                asks.insert(0, answer.more)
            for rows in answer.rows:
                for start in range(0, len(rows), TOGETHER):
                    yield from each(rows[start : start + TOGETHER])

    def entries(self, place: Place, keys: Sequence[Key]) -> Proc[list[Row | None]]:
        """The entries with these keys, copies of expired rows cleared."""
        found = yield from entries_at(self.core.codec, place, keys, place.holds)
        alive = compile_alive(self.core.model, place.entity, place.holds, (), {})
        return [row if row is None or alive is None or alive(row, self.now) else None for row in found]

    # Comparing

    def check_home(self, place: Place, full: list[Row], stored: list[Row]) -> Proc[None]:
        """A home is right by definition, except for what it copies."""
        alive = compile_alive(self.core.model, place.entity, place.holds, (), {})
        edits = []
        self.result.views[place.view.name].entries += len(full)
        for wanted, row in zip(full, stored, strict=True):
            if alive is not None:
                alive(row, self.now)
            values = {str(path): wanted[str(path)] for path in place.copies if str(path) in place.holds}
            values |= {kept.column: wanted[kept.column] for kept in self.core.places.kept[place.entity]}
            wrong = {path: value for path, value in values.items() if differs(row.get(path), value)}
            if wrong:
                (key,) = place.keys(wanted)
                self.result.note(place.view.name, "wrong", key)
                edits.append(
                    Edit(place.view.name, "patch", key, place.at, wrong, entry=place.entry(wanted), expect="present")
                )
        for edit in edits if self.repair else ():
            yield from self.send(edit)

    def check_entries(self, place: Place, full: list[Row]) -> Proc[None]:
        expected: dict[Key, Row] = {}
        for row in full:
            for key in place.keys(row):
                if self.only is not None and place.view.unique and key in expected:
                    raise self.two_rows(place, key)
                expected[key] = place.entry(row)
        found = yield from self.entries(place, list(expected))
        self.result.views[place.view.name].entries += len(expected)
        edits: list[Edit] = []
        for (key, entry), actual in zip(expected.items(), found, strict=True):
            if actual is None:
                self.result.note(place.view.name, "missing", key)
            elif self.only is not None and place.view.unique and self.is_another(place, actual, entry):
                raise self.two_rows(place, key)
            elif any(differs(actual.get(path), value) for path, value in entry.items()):
                self.result.note(place.view.name, "wrong", key)
            else:
                continue
            edits.append(Edit(place.view.name, "put", key, place.at, entry))
        yield from self.mend(edits)

    def is_another(self, place: Place, actual: Row, entry: Row) -> bool:
        """Whether an entry is of another row than this one."""
        return any(actual.get(column) != entry.get(column) for column in self.core.model.entities[place.entity].key)

    def two_rows(self, place: Place, key: Key) -> DesignMismatchError:
        """The error for a value that a design wants once, and that several rows have."""
        parts = ", ".join(str(part) for part in place.view.parts)
        return DesignMismatchError(
            f"rows of '{place.entity}' have the same {parts} ({', '.join(map(_shown, key))}), and this design wants "
            "each once; apply the design that was there again, mend the rows, then apply this one"
        )

    def check_extra(self, place: Place) -> Proc[None]:
        """Entries that no row accounts for; those of rows that pointed at nothing and went may have stayed behind."""
        entity = self.core.model.entities[place.entity]
        if not set(entity.key) <= set(place.holds):
            return
        parts = [(str(part).removesuffix(" desc"), part) for part in place.view.parts if part.cut in ("each", "words")]

        def check(rows: list[Row]) -> Proc[None]:
            present = [row for row in rows if not is_gone(row, self.now)]
            keys = [tuple(row[column] for column in entity.key) for row in present]
            homes = yield from self.core.reader.by_key([(entity.name, key) for key in keys], self.now)
            world = World(self.core.model, self.core.reader, self.now)
            yield from world.fetch(
                (entity.name, row, path.roles, True)
                for row in homes.values()
                if row is not None
                for path in place.copies
            )
            edits: list[Edit] = []
            for entry, key in zip(present, keys, strict=True):
                row = homes[entity.name, key]
                if row is None and self.unread.has(entity.name, key):
                    continue
                wanted = place.keys(world.full(entity.name, row, place.copies, True)) if row is not None else []
                for stands in _keys_of(place, entry):
                    if stands not in wanted and not self.is_behind_expired(entry):
                        if place.dangling is None:
                            self.result.note(place.view.name, "extra", stands)
                        edits.append(Edit(place.view.name, "delete", stands, place.at))
            yield from self.mend(edits)

        yield from self.scan(place, (*place.holds, *(name for name, _ in parts)), check)

    def is_behind_expired(self, entry: Mapping[str, Any]) -> bool:
        """Entries under a value of a row that has expired are not seen by any read."""
        return any(
            path.endswith("." + EXPIRES) and value is not None and value <= self.now for path, value in entry.items()
        )

    def check_groups(self, place: Place, groups: dict[Key, dict[str, Any]]) -> Proc[None]:
        names = [str(part).removesuffix(" desc") for part in place.view.parts]
        kept = list(dict.fromkeys((COUNT, *(measure.name for measure, _ in place.measures))))
        compared = [name for name in kept if name not in (VERSION, FIRST_EXPIRES, EXPIRES)]
        extremes = {measure.name for measure, _ in place.measures if measure.how in ("min", "max")}
        # A row that expires is not taken off a count: a directory of buckets may name some that are empty by now.
        # But what is about to be filled has nothing to lose, and may be left from an attempt that rows went after.
        lasting = self.core.model.entities[place.entity].ttl is not None and self.only is None
        seen: set[Key] = set()
        report = self.result.views[place.view.name]

        def check(rows: list[Row]) -> Proc[None]:
            edits: list[Edit] = []
            renewed: list[Edit] = []
            for row in rows:
                key = tuple(row[name] for name in names)
                seen.add(key)
                report.entries += 1
                wanted = groups.get(key)
                first = row[FIRST_EXPIRES] if FIRST_EXPIRES in kept else None
                doubted = first is not None and first <= self.now
                if wanted is None:
                    if row[COUNT] and not lasting:
                        self.result.note(place.view.name, "extra", key)
                        edits.append(Edit(place.view.name, "delete", key, place.at))
                elif lasting and (FIRST_EXPIRES not in kept or doubted) and row[COUNT] > wanted[COUNT]:
                    continue  # rows that have expired still count; nobody believes it any more
                elif (FIRST_EXPIRES in kept and not _covers(row, wanted)) or any(
                    not _equal(row[name], wanted.get(name), name in extremes) for name in compared
                ):
                    self.result.note(place.view.name, "wrong", key)
                    edits.append(_put_group(place, key, wanted, kept))
                elif doubted:
                    # The row that was to expire first has been deleted, or the moment was damaged: nobody can tell, and
                    # answers are right, but of the rows. None of those that count has expired, so it can be believed.
                    renewed.append(_put_group(place, key, wanted, kept))
            yield from self.mend(edits)
            yield from self.mend(renewed, told=False)

        yield from self.scan(place, [*names, *kept], check)
        missing = [key for key in groups if key not in seen]
        for key in missing:
            self.result.note(place.view.name, "missing", key)
        yield from self.mend([_put_group(place, key, groups[key], kept) for key in missing])

    # Repairing

    def mend(self, edits: list[Edit], *, told: bool = True) -> Proc[None]:
        if not self.repair or not edits:
            return
        for request in self.core.codec.bulk(edits):
            (reply,) = yield [request]
            if isinstance(reply, Exception):
                raise reply
        self.result.repaired += len(edits) if told else 0

    def send(self, edit: Edit) -> Proc[None]:
        (reply,) = yield [self.core.codec.write([edit])]
        if isinstance(reply, Exception):
            raise reply
        self.result.repaired += 1


def _listed(key: Key) -> str:
    return ", ".join(map(_shown, key))


def _shown(value: Any) -> str:
    """A part of a key as people write it."""
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID | Decimal) else repr(value)


def _keys_of(place: Place, entry: Row) -> list[Key]:
    """Where an entry stands: under the one element or word that its key names, not under all that its row has."""
    values: list[list[Any]] = []
    for part, shown in zip(place.key.parts, place.view.parts, strict=False):
        if part.cut in ("each", "words"):
            value = entry.get(str(shown).removesuffix(" desc"))
            values.append([] if value is None else [value])
        else:
            values.append(part.values(entry))
    values += [part.values(entry) for part in place.key.parts[len(values) :]]
    return list(product(*values))


def count(place: Place, rows: list[Row], groups: dict[Key, dict[str, Any]]) -> None:
    """Adds rows to the groups of a view with measures."""
    hows = {measure.name: measure.how for measure, _ in place.measures}
    for row in rows:
        for key in place.keys(row):
            group = groups.setdefault(key, {})
            for name, amount in place.amounts(row).items():
                how = hows.get(name, "count")
                if name not in group:
                    group[name] = amount
                elif how in ("count", "sum"):
                    group[name] = plus(group[name], amount)
                else:
                    group[name] = min(group[name], amount) if how == "min" else max(group[name], amount)


def _equal(actual: Any, wanted: Any, extreme: bool) -> bool:
    if not extreme:  # a sum of nothing may be kept as 0 or not at all
        actual, wanted = actual or 0, wanted or 0
    if isinstance(actual, float) and wanted is not None:
        return abs(actual - float(wanted)) <= 1e-9 * max(1.0, abs(actual), abs(float(wanted)))
    return bool(actual == wanted)


def _covers(group: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a group is doubted and taken away no later and no sooner than its rows expire."""
    first, last = group[FIRST_EXPIRES], group[EXPIRES]
    return first is not None and first <= wanted[FIRST_EXPIRES] and last is not None and last >= wanted[EXPIRES]


def _put_group(place: Place, key: Key, wanted: Mapping[str, Any], kept: Sequence[str]) -> Edit:
    return Edit(place.view.name, "put", key, place.at, {name: wanted.get(name) for name in kept})
