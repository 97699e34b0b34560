"""Verify: every structure against the design, every entry of every view that keyplan keeps against its home rows.

Homes are streamed in chunks, those of all entities in one pass where none is worked out from what another pass mends.
For each row the entries it ought to have are read by their keys and compared; then the views are streamed, again in one
pass, for entries that no row accounts for; groups of measures are counted anew. What an engine keeps by keys that we
write into entries is compared last. A repair makes the views equal to the homes, and should run while nobody writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import compress, product
from typing import Any
from uuid import UUID

from keyplan.engines.codec import Sighting
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignMismatchError, EngineError, StorageError
from keyplan.model.entity import EXPIRES
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.store.bulk.apply import all_lost, drift
from keyplan.store.bulk.unread import Unread
from keyplan.store.bulk.verify_groups import GroupCheck
from keyplan.store.bulk.verify_stages import stages
from keyplan.store.bulk.verify_subsets import SubsetCheck
from keyplan.store.core import Core
from keyplan.store.reading.expiry import compile_alive, is_gone
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row, World, differs, entries_at

MOST_LISTED = 100
TOGETHER = 500
"""Rows whose entries are looked up at once."""

Check = Callable[[list[Row]], Proc[None]]
Task = tuple[Place, Sequence[str], Check]
"""A place to be read, what of its entries, and who looks at them."""


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
    """Compares all views with the homes; repairs them if asked to.

    What writers left behind is finished before, as far as that is possible. A repair makes it needless.
    """
    intents = core.writer.intents
    left = yield from intents.finish_what_can_be(core.clock())
    if repair and left:
        yield from intents.sums.forget(core.design.views)  # they are counted anew
    work = Verifier(core, repair, progress)
    yield from work.structures()
    try:
        yield from work.passes(stages(core, work.result.views) if work.result.compared else ())
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
    if repair and left and not work.result.unreadable:
        yield from intents.forget((yield from intents.finish_what_can_be(core.clock())))
    return work.result


def fill(
    core: Core, views: Collection[str], fresh: Collection[str] = (), progress: Callable[[int], None] | None = None
) -> Proc[None]:
    """Makes the entries of some views, and the copies in homes among them, from the rows; `fresh` ones have none yet.

    What writers left behind is finished when all that they would change is there."""
    work = Verifier(core, True, progress, frozenset(views))
    work.fresh = set(fresh)
    yield from core.writer.intents.sums.forget(views)
    yield from work.passes(stages(core, views))
    yield from core.writer.intents.finish_for_good(core.clock())


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
        self.fresh: set[str] = set()
        """Those of them that nothing stands in yet."""
        self.now: datetime = core.clock()
        self.repair = repair
        self.progress = progress
        self.mended: set[str] = set()
        """Entities whose homes held something computed that was wrong, and is copied by others."""
        self.rows_of: dict[str, int] = {}
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

    def entities(self, names: Sequence[str]) -> Proc[None]:
        """Compares the views of some entities with their rows, which are read in one go."""
        for name in names:
            self.begin(name)
        works = [EntityCheck(self, name) for name in names]
        yield from self.sweep([(work.home, work.home.holds, work.check) for work in works])
        yield from self.sweep([tail for work in works for tail in work.tails()])
        for work in works:
            yield from work.end()
        self.fresh -= {place.view.name for work in works for place in work.places}

    def passes(self, stages: Iterable[Sequence[str]]) -> Proc[None]:
        """Compares entities in passes; what copies something that was mended behind it, once more."""
        seen: dict[str, None] = {}
        for stage in stages:
            names = [name for name in stage if self.repair or name not in seen]
            yield from self.entities(names)
            seen |= dict.fromkeys(names)
            mended = self.mended.intersection(names)
            watching = {watch.entity for name in mended for watch in self.core.places.watches[name]}
            yield from self.entities([name for name in seen if name in watching])

    def begin(self, name: str) -> None:
        """What was counted of an entity before is counted anew."""
        self.mended.discard(name)
        if name in self.rows_of:
            self.result.rows -= self.rows_of.pop(name)
            for place in self.core.places.of[name]:
                if not place.at:  # rows inside others do not begin what these have counted anew
                    self.result.views[place.view.name].entries = 0

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

    def scan(self, place: Place, takes: Sequence[str], each: Check) -> Proc[None]:
        """Streams all entries of a place."""
        yield from self.sweep([(place, takes, each)])

    def sweep(self, tasks: Sequence[Task]) -> Proc[None]:
        """Streams all entries of some places, each to its own check."""

        def each(number: int, rows: list[Row]) -> Proc[None]:
            for start in range(0, len(rows), TOGETHER):
                yield from tasks[number][2](rows[start : start + TOGETHER])

        if tasks:
            found = [Search(place.view.name, place.at, takes=tuple(takes)) for place, takes, _ in tasks]
            yield from self.core.codec.sweep(found, each, self.unread.add if self.only is None else None)

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
                if self.repair and any(kept.column in wrong for kept in self.core.places.copied[place.entity]):
                    self.mended.add(place.entity)
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
        if place.view.name in self.fresh and not place.view.unique:
            found: list[Row | None] = [None] * len(expected)
        else:
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

    def extras(self, place: Place) -> Task | None:
        """The check for entries that no row accounts for, if they can be told; those of rows that pointed at nothing
        and went may have stayed behind."""
        entity = self.core.model.entities[place.entity]
        if not set(entity.key) <= set(place.holds):
            return None
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

        return place, (*place.holds, *(name for name, _ in parts)), check

    def is_behind_expired(self, entry: Mapping[str, Any]) -> bool:
        """Entries under a value of a row that has expired are not seen by any read."""
        return any(
            path.endswith("." + EXPIRES) and value is not None and value <= self.now for path, value in entry.items()
        )

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


class EntityCheck:
    """The views of one entity against its rows."""

    def __init__(self, verifier: Verifier, name: str) -> None:
        self.verifier, self.core, self.name = verifier, verifier.core, name
        self.home = self.core.places.home(name)
        self.places = [place for place in self.core.places.of[name] if verifier.is_concerned(place)]
        self.subsets = {id(place): SubsetCheck(verifier, place) for place in self.places if place.limit is not None}
        self.groups = {id(place): GroupCheck(verifier, place) for place in self.places if place.measures}

    def check(self, rows: list[Row]) -> Proc[None]:
        """Compares the entries of some rows, and counts these."""
        verifier, core, name = self.verifier, self.core, self.name
        alive = [row for row in rows if not is_gone(row, verifier.now) and verifier.has_key(name, self.home, row)]
        verifier.result.rows += len(alive)
        verifier.rows_of[name] = verifier.rows_of.get(name, 0) + len(alive)
        own = [{column: row[column] for column in core.model.entities[name].stored} for row in alive]
        if core.places.kept[name]:
            key = core.model.entities[name].key
            keys = [tuple(row[column] for column in key) for row in own]
            computed = yield from core.mutator.computed.values(name, keys, verifier.now)
            for kept in core.places.kept[name]:
                if verifier.is_doubtful(kept.child):
                    computed = [
                        {**more, kept.column: row[kept.column]} for row, more in zip(alive, computed, strict=True)
                    ]
            own = [{**row, **more} for row, more in zip(own, computed, strict=True)]
        world = World(core.model, core.reader, verifier.now)
        yield from world.fetch(
            (name, row, path.roles, True) for place in self.places for path in place.copies for row in own
        )
        for place in self.places:
            full, stored = [world.full(name, row, place.copies, True) for row in own], alive
            certain = verifier.unread.certain(place, full)
            if not all(certain):
                full, stored = list(compress(full, certain)), list(compress(alive, certain))
            if place.measures:
                self.groups[id(place)].add(full)
            elif place is self.home:
                yield from verifier.check_home(place, full, stored)
            elif place.limit is not None:
                self.subsets[id(place)].add(full)
            else:
                yield from verifier.check_entries(place, full)
        if verifier.progress is not None:
            verifier.progress(verifier.result.rows)

    def tails(self) -> Iterator[Task]:
        """What is left to be looked at when all rows were: what stands there that none of them accounts for."""
        for place in self.places:
            if place.view.name in self.verifier.fresh or self.is_unsure(place):
                continue
            if place.measures:
                groups = self.groups[id(place)]
                yield place, groups.takes, groups.check
            elif place is not self.home and place.limit is None:
                task = self.verifier.extras(place)
                yield from [task] if task is not None else []

    def is_unsure(self, place: Place) -> bool:
        """Whether what a place ought to hold depends on rows that cannot be read."""
        unread = self.verifier.unread
        of_all = bool(place.measures) or place.limit is not None
        return bool(unread.unsure(place)) or (of_all and unread.is_any(self.name))

    def end(self) -> Proc[None]:
        """Looks at what depends on all rows together."""
        for place in self.places:
            if self.is_unsure(place):
                continue
            if place.measures:
                yield from self.groups[id(place)].end()
            elif place.limit is not None:
                yield from self.subsets[id(place)].run()


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
