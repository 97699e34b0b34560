"""A double of an engine for tests of the engine-free code: entries in plain dicts, every rule of spans and edits kept.

Replies are short (a few rows, then `more`), batches are split, and an index whose keys are composed refuses patches
that do not bring the whole entry, so that whatever the store forgets shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cmp_to_key
from typing import Any

from keyplan.engines.base import Kind
from keyplan.engines.changing import Catalog, Change
from keyplan.engines.codec import Answer, Ask, Codec, Reader, Span
from keyplan.engines.rounds import Proc, Reply, Row
from keyplan.errors import ConflictError, RangeError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.predicate import compile_condition
from keyplan.model.values import add, truncate
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit, Test
from keyplan.plan.intents import INTENT_MODEL, INTENT_VIEW, INTENTS
from keyplan.plan.steps import Search
from keyplan.plan.terms import plus
from keyplan.plan.view import COUNT, VERSION, View
from keyplan.store.reading.keys import Key, KeyPart, key_of

CHUNK = 3
"""Rows per reply."""

KINDS = {
    "table": Kind("table", measures=("count", "sum", "min", "max"), unique=True, embeds=True, packs=True, subsets=True),
    "sequence": Kind("sequence", partitioned=False),
    "index": Kind("index", kept_by_engine=True, holds_all=True, partitioned=False, unique=True),
    "composed": Kind("composed", kept_by_engine=True, composed=True),
}

Where = tuple[str, tuple[str, ...]]


@dataclass
class Read:
    """A request: some spans of one place, behind the entries of each that were seen before."""

    search: Search
    spans: Sequence[Span]
    limit: int | None
    seen: Sequence[list[tuple[Any, ...]]] = ()


@dataclass
class Written:
    """A request: edits, all or none."""

    edits: Sequence[Edit]


@dataclass
class Value:
    """All entries of one partition of a packed view, and how often they have been written."""

    entries: list[tuple[tuple[Any, ...], Row]]
    version: int


class MemoryReader(Reader):
    def __init__(self, codec: MemoryCodec, search: Search) -> None:
        self.codec = codec
        self.search = search

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: bool) -> list[Ask]:
        half = (len(spans) + 1) // 2
        parts = [range(half), range(half, len(spans))]
        return [Ask(Read(self.search, [spans[n] for n in part], limit), list(part)) for part in parts if part]

    def answer(self, ask: Ask, reply: Reply) -> Answer:
        if isinstance(reply, Exception):
            raise reply
        lists, more, seen = reply
        if not more:
            return Answer(lists)
        old: Read = ask.request
        return Answer(lists, Ask(Read(old.search, old.spans, old.limit, seen), ask.spans))


class MemoryCodec(Codec):
    def __init__(self, model: Model, design: Design, most: int | None = None) -> None:
        self.model = model
        self.views = {**design.views, INTENTS: INTENT_VIEW}
        self.atomic_edits = most

    def reader(self, search: Search) -> Reader:
        return MemoryReader(self, search)

    def write(self, edits: Sequence[Edit]) -> Written:
        places = [(edit.view, edit.at, edit.key) for edit in edits]
        assert len(set(places)) == len(places), "two edits of one entry"
        assert all(not self.views[edit.view].base for edit in edits), "an edit of a view that the engine keeps"
        assert self.atomic_edits is None or len(edits) <= self.atomic_edits, "more edits than are possible at once"
        return Written(list(edits))

    def wrote(self, request: Written, reply: Reply) -> list[Row | None]:
        if isinstance(reply, Exception):
            raise reply
        result: list[Row | None] = reply
        return result

    def bulk(self, edits: Sequence[Edit]) -> list[Written]:
        assert all(edit.do in ("put", "delete") for edit in edits)
        return [Written([edit]) for edit in edits]


@dataclass
class MemoryEngine:
    """What a store needs of an engine."""

    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)
    name: str = "memory"
    most: int | None = None
    """How many edits one request may have."""

    def codec(self, model: Model, design: Design) -> MemoryCodec:
        return MemoryCodec(model, design, self.most)

    def inspect(self, model: Model, design: Design) -> Proc[Catalog]:
        return Catalog(lock="a design")
        yield

    def changes(self, model: Model, design: Design, lock: str, found: Catalog) -> tuple[Change, ...]:
        return ()

    def stale(self, model: Model, design: Design) -> Proc[tuple[Change, ...]]:
        return ()
        yield


class MemoryPort:
    """The entries themselves."""

    def __init__(self, model: Model, design: Design) -> None:
        self.model = model
        self.design = design
        self.views = {**design.views, INTENTS: INTENT_VIEW}
        self.entries: dict[Where, dict[tuple[Any, ...], Row]] = {}
        self.values: dict[tuple[str, tuple[Any, ...]], Value] = {}
        """What packed views keep: one value per partition."""
        self.versions: dict[tuple[str, tuple[str, ...], tuple[Any, ...]], int] = {}
        """Per subset and parent: how often its children have been written."""
        self.rounds = 0
        self.faults: list[Callable[[Any], Reply | None]] = []
        """Each may answer a request in the port's place."""

    def send(self, round: Sequence[Any]) -> list[Reply]:
        self.rounds += 1
        replies: list[Reply] = []
        for request in round:
            answer = next((found for fault in list(self.faults) if (found := fault(request)) is not None), None)
            if answer is None:
                try:
                    answer = self.read(request) if isinstance(request, Read) else self.write(request)
                except (ConflictError, RangeError) as error:
                    answer = error
            replies.append(answer)
        return replies

    def close(self) -> None:
        pass

    def key(self, view: View, at: tuple[str, ...] = ()) -> Key:
        return key_of(INTENT_MODEL if view is INTENT_VIEW else self.model, view, at)

    # Reading

    def read(self, request: Read) -> tuple[list[list[Row]], bool, list[list[tuple[Any, ...]]]]:
        lists, more, seen = [], False, []
        for number, span in enumerate(request.spans):
            before = request.seen[number] if request.seen else []
            found = self.span(request.search, span)
            # Entries may have come and gone since: what comes next is behind the last one that was seen.
            start = max((place + 1 for place, (key, _) in enumerate(found) if key in before), default=0)
            found = found[start:]
            if request.limit is not None:
                found = found[: max(0, request.limit - len(before))]
            more = more or len(found) > CHUNK
            lists.append([self.row(request.search, key, entry) for key, entry in found[:CHUNK]])
            seen.append([*before, *(key for key, _ in found[:CHUNK])])
        return lists, more, seen

    def place(self, view: View, at: tuple[str, ...]) -> list[tuple[tuple[Any, ...], Row]]:
        """The entries of a place; those of an index follow from its base."""
        if view.packed:
            return [pair for (name, _), value in self.values.items() if name == view.name for pair in value.entries]
        if not view.base:
            return list(self.entries.get((view.name, at), {}).items())
        key = self.key(view)
        result = []
        for entry in self.entries.get((view.base, ()), {}).values():
            if all(holds(self.model, view.entity, condition, entry) for condition in view.where):
                result += [(one, entry) for one in key.of(entry)]
        return result

    def span(self, search: Search, span: Span) -> list[tuple[tuple[Any, ...], Row]]:
        view = self.views[search.view]
        key = self.key(view, search.at)
        fixed = (*span.partition, *span.prefix)
        if view.packed and span.partition:
            value = self.values.get((view.name, span.partition))
            stored = value.entries if value is not None else []
        else:
            stored = self.place(view, search.at)
        if KINDS[view.kind].partitioned:
            assert len(span.partition) in (0, len(key.partition)), "a partition that is not fixed"
            assert span.partition or not key.partition or not (span.prefix or span.low or span.high)
        rest = key.parts[len(fixed) :]
        found = []
        for one, entry in stored:
            after = one[len(fixed) :]
            if one[: len(fixed)] != fixed:
                continue
            if span.low is not None:
                side = compare(rest, after[: len(span.low)], span.low)
                if side < 0 or (side == 0 and span.low_open):
                    continue
            if span.high is not None:
                side = compare(rest, after[: len(span.high)], span.high)
                if side > 0 or (side == 0 and span.high_open):
                    continue
            if span.starts is not None and not after[0].startswith(span.starts):
                continue
            found.append((one, entry))
        parts = key.parts
        found.sort(key=cmp_to_key(lambda a, b: compare(parts, a[0], b[0])), reverse=search.descending)
        return found

    def row(self, search: Search, key: tuple[Any, ...], entry: Row) -> Row:
        view = self.views[search.view]
        row = {path: entry.get(path) for path in search.takes}
        if VERSION in row and not view.measures:
            row[VERSION] = self.versions.get((view.name, search.at, key[: len(view.parts)]))
        for part, value in zip(view.parts, key, strict=False):
            name = str(part).removesuffix(" desc")
            if name in search.takes and (view.measures or part.cut in ("each", "words")):
                row[name] = value
        for role, select in search.along.items():
            at = (*search.at, role)
            width = len(key)
            inner = Search(view.name, at, takes=select.columns, along=select.roles)
            children = [(k, e) for k, e in self.place(view, at) if k[:width] == key]
            parts = self.key(view, at).parts
            children.sort(key=cmp_to_key(lambda a, b, parts=parts: compare(parts, a[0], b[0])))
            row[role] = [self.row(inner, k, e) for k, e in children]
        return row

    # Writing

    def write(self, request: Written) -> list[Row | None]:
        for number, edit in enumerate(request.edits):
            if not self.allowed(edit):
                raise conflict(number, f"{edit.do} of {edit.view} {edit.key!r} refused: {edit.expect} {edit.tests}")
        undo = {where: dict(entries) for where, entries in self.entries.items()}
        values, versions = dict(self.values), dict(self.versions)
        try:
            result = []
            for number, edit in enumerate(request.edits):
                result.append(self.edit(number, edit))
                self.check_unique(number, edit)
        except (ConflictError, RangeError):
            self.entries, self.values, self.versions = undo, values, versions
            raise
        for edit in request.edits:
            self.cut(edit)
        return result

    def cut(self, edit: Edit) -> None:
        """Of a subset that was written, leaves the first ones of the parent, and counts the change."""
        view = self.views[edit.view]
        embed = view.embed_at(edit.at)
        if embed is None or embed.limit is None or edit.do == "check":
            return
        parent = edit.key[: len(view.parts)]
        here = self.entries[edit.view, edit.at]
        parts = self.key(view, edit.at).parts
        mine = [key for key in here if key[: len(parent)] == parent]
        mine.sort(key=cmp_to_key(lambda a, b: compare(parts, a, b)))
        for key in mine[embed.limit :]:
            del here[key]
        where = (edit.view, edit.at, parent)
        self.versions[where] = self.versions.get(where, 0) + 1

    def allowed(self, edit: Edit) -> bool:
        view = self.views[edit.view]
        embed = view.embed_at(edit.at)
        if embed is not None and embed.limit is not None:
            assert edit.expect == "any", "a subset does not know which rows there are"
            assert bool(edit.tests) == (edit.do == "check")
            version = self.versions.get((edit.view, edit.at, edit.key))
            return all(test.path == VERSION and test.value == version for test in edit.tests)
        entry = self.unpacked(view, edit.key).get(edit.key) if view.packed else None
        entry = entry or self.entries.get((edit.view, edit.at), {}).get(edit.key)
        if entry is not None and edit.alive_at is not None and is_gone(entry, edit.alive_at):
            if edit.fresh is not None:
                return False
            entry = None
        if (edit.expect == "present" and entry is None) or (edit.expect == "absent" and entry is not None):
            return False
        if not edit.tests:
            return True
        return entry is not None and all(self.passes(edit, test, entry) for test in edit.tests)

    def passes(self, edit: Edit, test: Test, entry: Row) -> bool:
        value = entry.get(test.path)
        if test.op == "=" and test.value is None:
            return value is None
        wanted = test.value if test.op == "between" else (test.value,)
        if test.cut is not None:
            value = None if value is None else truncate(value, test.cut)
        return compile_condition(None, test.op)(value, wanted)  # type: ignore[arg-type]

    def edit(self, number: int, edit: Edit) -> Row | None:
        view = self.views[edit.view]
        if view.packed:
            here = self.unpacked(view, edit.key)
            returned = self.change(number, edit, view, here)
            self.pack(view, edit.key, here)
            return returned
        return self.change(number, edit, view, self.entries.setdefault((edit.view, edit.at), {}))

    def unpacked(self, view: View, key: tuple[Any, ...]) -> dict[tuple[Any, ...], Row]:
        """The entries of the value that a key belongs to."""
        value = self.values.get((view.name, key[: len(view.partition)]))
        return {} if value is None else {one: dict(entry) for one, entry in value.entries}

    def pack(self, view: View, key: tuple[Any, ...], entries: dict[tuple[Any, ...], Row]) -> None:
        """Writes a value anew, or removes it with its last entry."""
        where = (view.name, key[: len(view.partition)])
        version = self.values[where].version if where in self.values else 0
        if entries:
            self.values[where] = Value(list(entries.items()), version + 1)
        else:
            self.values.pop(where, None)

    def change(self, number: int, edit: Edit, view: View, here: dict[tuple[Any, ...], Row]) -> Row | None:
        entry = here.get(edit.key)
        if edit.do == "put":
            assert view.measures or set(edit.values) == set(self.holds(view, edit.at)), (edit.view, edit.values)
            here[edit.key] = dict(edit.values)
        elif edit.do == "delete":
            here.pop(edit.key, None)
            return entry if edit.returning else None
        elif edit.do in ("patch", "add"):
            if view.measures:
                entry = entry or {COUNT: 0}
            if entry is None and edit.fresh is not None:
                assert set(edit.fresh) == set(self.holds(view, edit.at)), (edit.view, edit.fresh)
                entry = dict(edit.fresh)
            if entry is None:
                return None
            self.check_composed(view, edit)
            new = {**entry, **edit.values}
            for path, delta in edit.adds.items():
                new[path] = self.sum(view, edit, path, new.get(path), delta)
            here[edit.key] = new
        return dict(here[edit.key]) if edit.returning else None

    def sum(self, view: View, edit: Edit, path: str, value: Any, delta: Any) -> Any:
        if view.measures:
            how = next((one.how for one in view.measures if one.name == path), "count")
            if how in ("min", "max"):
                return delta if value is None else min(value, delta) if how == "min" else max(value, delta)
            return plus(value or 0, delta)
        try:
            entity = self.key(view, edit.at).entity
            return add(self.model.entities[entity].columns[path].type, value, delta)
        except OverflowError as error:
            raise RangeError(str(error)) from None

    def holds(self, view: View, at: tuple[str, ...]) -> tuple[str, ...]:
        embed = view.embed_at(at)
        return embed.holds if embed is not None else view.holds

    def check_composed(self, view: View, edit: Edit) -> None:
        changed = {*edit.values, *edit.adds}
        for other in self.design.views.values():
            if other.base == view.name and KINDS[other.kind].composed:
                paths = {part.path for part in other.parts} | {str(one.path) for one in other.where}
                known = edit.entry is not None or edit.fresh is not None
                assert not paths & changed or known, f"{other.name} cannot be composed"

    def check_unique(self, number: int, edit: Edit) -> None:
        for view in self.design.views.values():
            if view.unique and view.base == edit.view:
                keys = [key for key, _ in self.place(view, ())]
                if len(set(keys)) != len(keys):
                    raise conflict(number, "another row has the same values")


def conflict(number: int, message: str) -> ConflictError:
    error = ConflictError(message)
    error.edit = number  # type: ignore[attr-defined]
    return error


def is_gone(entry: Row, now: datetime) -> bool:
    return entry.get(EXPIRES) is not None and entry[EXPIRES] <= now


def compare(parts: Sequence[KeyPart], left: Sequence[Any], right: Sequence[Any]) -> int:
    for part, a, b in zip(parts, left, right, strict=False):
        if a != b:
            return (-1 if a < b else 1) * (-1 if part.descending else 1)
    return 0


def holds(model: Model, entity: str, condition: Any, entry: Row) -> bool:
    value = entry.get(condition.path.column)
    literals = tuple(operand.value for operand in condition.operands)
    wanted = (frozenset(literals),) if condition.op == "in" else literals
    return compile_condition(model.column(entity, condition.path).type, condition.op, condition.cut)(value, wanted)


__all__ = ["KINDS", "Key", "MemoryEngine", "MemoryPort", "conflict"]
