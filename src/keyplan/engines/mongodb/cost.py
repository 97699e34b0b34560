"""What work costs on MongoDB: milliseconds of the server per second of the model's traffic.

A read examines index keys and documents and returns bytes; a write rewrites a whole document, whatever it changes of
it, and one entry per index whose fields change. So a child embedded in its parent's document is read for a few bytes,
and written for a walk over all its siblings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from keyplan.engines.calibration import check_options, checked, given
from keyplan.engines.mongodb.fit import TIMES, document_bytes, elements, entry_bytes, fit, target
from keyplan.engines.mongodb.limits import BATCH, CHUNK, LATENCIES, LIMITS, MB, PACKED_CHUNK, Latencies
from keyplan.engines.work import Cost, CostModel, Couplings, LinearRow, Rejection, TouchWork, ViewFacts, Work
from keyplan.model.model import Model
from keyplan.plan.view import View

OPTIONS = ("array_elements", "coefficients", "document_bytes", "latencies", "packed_bytes")
"""What a model may say under `targets: mongodb:`."""
DOCUMENTS = ("collection", "shared")
"""The kinds of views whose entries are documents, or stand in them."""
SCAN_ROWS = 5_000
"""A collection of at most so many documents may be read whole for a pattern: some 10 ms."""


@dataclass(frozen=True)
class Coefficients:
    """Microseconds, by `keyplan calibrate` on mongod 6.0.5, two cores of a small cloud machine, November 2026."""

    command: float = 68.8
    """A find: parsing it, choosing the plan, the reply."""
    plan: float = 20.8
    """What a find through an index takes more than one by `_id`."""
    seek: float = 7.0
    """Each further key that a find looks up."""
    key: float = 0.62
    """An index key examined."""
    document: float = 0.93
    """A document examined."""
    byte: float = 0.00034
    """A byte returned."""
    pick: float = 0.2
    """An element of an array in a document that is read, of which fields are picked out."""
    write: float = 68.4
    """An insert, update or delete command, its entry in the oplog included."""
    insert: float = 5.9
    """A document inserted."""
    update: float = 23.6
    """A document found and changed, or deleted."""
    rewrite: float = 0.00077
    """A byte of a document that is written."""
    element: float = 0.2
    """An element of an array in a document that is written: all of them are walked over."""
    grow: float = 0.2
    """An element of an array that another one is added to or taken from."""
    sort: float = 5.0
    """An element of an array that a pipeline sorts and cuts. Measured apart from the rest (mongod 6.0.5, 2026-11-16),
    against plain updates of the same documents: 4.6 with 50 elements of 300 B, 6.5 with 200; later fits: 3.8 to 7.2."""
    total: float = 0.2
    """An entry of a document of which a pipeline works out one total. Measured apart from the rest (mongod 6.0.5,
    2026-11-16) in proportion to plain updates of the same documents: 0.25 with 60 entries and six totals, 0.17 with
    300. What a new entry adds to six totals, in the update that pushes it, made no difference that could be seen."""
    index_entry: float = 3.6
    """An index entry inserted or removed."""
    transaction: float = 100.0
    """Half of what beginning and committing a transaction takes; it has two documents at least."""
    keep_gb_ms: float = 0.01
    """Cache that a stored gigabyte takes away from the rest, as milliseconds per second; an assumption."""


class MongoCosts(CostModel):
    """Prices work in server time."""

    unit = "server ms/s"
    per_second = 1.0
    transactional = True
    goes_on = True
    carries = True

    def __init__(self, model: Model, coefficients: Coefficients, latencies: Latencies = LATENCIES) -> None:
        self.model = model
        self.coefficients = coefficients
        self.latencies = latencies
        self.packed_bytes = target(model, "packed_bytes", LIMITS.packed_bytes)

    def fit(self, view: View, facts: ViewFacts) -> View | Rejection:
        return fit(self.model, view, facts)

    def entry_bytes(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        return entry_bytes(view, facts, at)

    def read(self, work: Work) -> Cost:
        together = self._together(work.view) if work.view.kind == "elements" else 1.0
        amounts, worst = examined(work, together), examined(work, together, most=True)
        prices = vars(self.coefficients)
        micros = sum(prices[name] * amount for name, amount in amounts.items())
        trips = 1.0 if work.get else max(1.0, ceil(work.most_entries / CHUNK))
        if work.view.kind == "shared" and work.along:
            trips = max(1.0, ceil(worst["document"] / max(1.0, work.requests) / CHUNK))
        if work.view.packed:
            trips = max(1.0, ceil(min(work.requests, BATCH) / PACKED_CHUNK))
        p99 = self.latencies.find_ms * trips + worst.get("byte", 0.0) / MB * self.latencies.ms_per_mb
        p99 += sum(prices[name] * amount for name, amount in worst.items()) / 1000
        units = {"documents": amounts.get("document", 0.0), "keys": amounts.get("key", 0.0)}
        if work.view.packed:  # many documents are looked up at once, and come a chunk at a time
            return Cost(micros / 1000, units, p99, max(1.0, ceil(work.requests / PACKED_CHUNK)), int(trips))
        return Cost(micros / 1000, units, p99, amounts["command"])

    def _together(self, view: View) -> float:
        """How many rows of an entity its parents have on average: what comes along with each that is found inside."""
        here = self.model.entities[view.entity]
        owners = (role for role in here.roles.values() if not role.many and set(role.columns) <= set(here.key))
        parents = [self.model.entities[role.entity].count for role in owners]
        return max(1.0, here.count / min(max(count, 1.0) for count in parents)) if parents else 1.0

    def touch(self, work: TouchWork) -> Cost:
        if work.view.kind == "totals":
            amounts = _totals_written(work, self.model.entities[work.view.entity].count / max(1.0, work.facts.rows))
        else:
            amounts = written(work)
        prices = vars(self.coefficients)
        micros = sum(prices[name] * amount for name, amount in amounts.items())
        units = {
            "documents written": amounts.get("write", 0.0),
            "index entries": amounts.get("index_entry", 0.0),
        }
        p99 = self.latencies.write_ms + micros / 1000 if amounts.get("write") else 0.0
        return Cost(micros / 1000, {name: amount for name, amount in units.items() if amount}, p99)

    def premium(self, work: TouchWork, cost: Cost) -> Cost:
        later = self.latencies.transaction_ms - self.latencies.write_ms if cost.p99_ms else 0.0
        return Cost(self.coefficients.transaction / 1000, p99_ms=max(0.0, later))

    def keep(self, view: View, facts: ViewFacts) -> float:
        each = document_bytes(view, facts) if view.kind in DOCUMENTS else entry_bytes(view, facts)
        count = facts.partitions if view.packed else facts.rows
        return (count * each + facts.carried_bytes) / 1e9 * self.coefficients.keep_gb_ms

    def round_ms(self, kind: str) -> float:
        return self.latencies.find_ms

    def scans(self, facts: ViewFacts, entries: float) -> bool:
        return entries <= SCAN_ROWS

    def couplings(self, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Couplings:
        """At most 64 indexes on a collection; all but those over elements are over documents of their own entity, so
        that rows which are embedded in others or packed have none unless they have a collection besides."""
        rows = []
        kinds = ("index", "words")
        for name in dict.fromkeys(view.entity for view in views if view.kind in kinds):
            indexes = [view.name for view in views if view.kind in kinds and view.entity == name]
            if len(indexes) > LIMITS.indexes - 2:
                rows.append(LinearRow(dict.fromkeys(indexes, 1.0), high=float(LIMITS.indexes - 2)))
            embedding = [view.name for view in views if view.kind != "shared" and _has_children(view, name)]
            embedding += [view.name for view in views if view.packed and view.entity == name]
            own = dict.fromkeys((view.name for view in views if self._is_own(view, name)), -1.0)
            rows += [LinearRow({index: 1.0, other: 1.0, **own}, high=1.0) for index in indexes for other in embedding]
        for name in dict.fromkeys(view.entity for view in views if view.embeds):
            # Indexes are over one of them, through which the children come along.
            documents = [view.name for view in views if view.entity == name and view.embeds]
            rows.append(LinearRow(dict.fromkeys(documents, 1.0), high=1.0))
        for name in dict.fromkeys(view.embeds[0].entity for view in views if view.kind == "shared"):
            # Indexes of children are over their documents, which stand in one collection.
            beside = [view.name for view in views if view.kind == "shared" and _has_children(view, name)]
            inside = [view.name for view in views if view.kind != "shared" and _has_children(view, name)]
            inside += [view.name for view in views if view.packed and view.entity == name]
            rows.append(LinearRow(dict.fromkeys(beside, 1.0), high=1.0))
            rows += [LinearRow({**dict.fromkeys(beside, 1.0), other: 1.0}, high=1.0) for other in inside]
        return Couplings(rows=rows)

    def _is_own(self, view: View, entity: str) -> bool:
        """A collection of the entity under its key."""
        here = self.model.entities[entity]
        whole = view.entity == entity and view.kind == "collection" and set(here.stored) <= set(view.holds)
        plain = not (view.measures or view.where or view.unique or view.packed)
        return whole and plain and {part.path for part in view.parts} == set(here.key)

    def warnings(self, view: View, facts: ViewFacts) -> Sequence[str]:
        """Arrays that are long on average: the rare long one is what `max` and the targets are for."""
        inside = {} if view.kind == "shared" else facts.embeds
        many = {chain: embed.per_parent for chain, embed in inside.items() if embed.per_parent >= 250}
        return [f"'{view.name}' embeds {count:.0f} '{chain}' on average" for chain, count in many.items()]


def _has_children(view: View, entity: str) -> bool:
    return any(embed.entity == entity for embed in view.embeds)


def examined(work: Work, together: float = 1.0, *, most: bool = False) -> dict[str, float]:
    """What a search does on the server, in units of the coefficients; `most`: the slowest call.

    `together`: the rows that come along with each one, because they are in the same document.
    """
    view, facts = work.view, work.facts
    if view.packed:
        return _packed_read(work, most=most)
    per_request = work.most_entries if most else work.entries
    if view.kind == "shared":
        return _shared_read(work, per_request, most=most)
    if work.at:
        # Rows inside documents: each request brings one document, or what its array has of them.
        entries = per_request * work.requests
        commands = max(1.0, ceil(work.requests / BATCH))
        inside = {"document": work.requests, "pick": elements(facts) * work.requests}
        further = max(0.0, work.requests - commands)
        return {"command": commands, "seek": further, **inside, "byte": entries * work.entry_bytes}
    entries = per_request * work.requests
    commands = max(1.0, ceil(work.requests / BATCH)) if _is_batched(work) else work.requests
    found = {"command": commands, "seek": max(0.0, work.requests - commands)}
    # What an index leads to is in the documents, but for its own key; and so has the index of the `_id`s theirs.
    by_id = view.kind == "collection" and not (work.get or view.embeds)
    fetched = not (work.keyed and (by_id or view.kind == "index"))
    if view.kind not in ("collection", "totals") or not work.get:
        found["plan"] = commands
        found["key"] = entries
    returned = work.taken_bytes or work.entry_bytes
    for chain in work.along:
        embed = facts.embeds[chain]
        many = min(embed.most_per_parent, 10 * max(1.0, embed.per_parent)) if most else embed.per_parent
        returned += entry_bytes(view, facts, tuple(chain.split("."))) * many
    if fetched:
        found["document"] = entries
    if together > 1:
        found["pick"] = entries * together
    found["byte"] = entries * returned * together
    return found


def _is_batched(work: Work) -> bool:
    """Whether one find looks up several keys, or all documents under several values of an index's first field."""
    return work.get or (work.fixed == 1 and work.view.kind in ("collection", "index", "shared"))


def _shared_read(work: Work, per_request: float, *, most: bool) -> dict[str, float]:
    """Rows or children by their `_id`s; or each row and its children behind it, by a range of `_id`s."""
    commands = max(1.0, ceil(work.requests / BATCH)) if _is_batched(work) and not work.along else work.requests
    found = {"command": commands, "seek": max(0.0, work.requests - commands)}
    entries = per_request * work.requests
    size = entries * (work.taken_bytes or work.entry_bytes)
    for role in work.along:
        embed = work.facts.embeds[role]
        many = embed.most_per_parent if most else embed.per_parent
        behind = (many if work.along_first is None else min(many, work.along_first)) * work.requests
        entries += behind
        size += behind * entry_bytes(work.view, work.facts, (role,))
    if not work.get or work.along:
        found |= {"plan": commands, "key": entries}
    return {**found, "document": entries, "byte": size}


def _packed_read(work: Work, *, most: bool) -> dict[str, float]:
    """Each request is for a document with all its entries; so many are looked up by one find."""
    entries = (work.most_entries if most else work.entries) * work.requests
    commands = max(1.0, ceil(work.requests / BATCH))
    found = {"command": commands, "seek": max(0.0, work.requests - commands), "document": work.requests}
    whole = sum(work.facts.value_bytes.values())
    if 0 < work.taken_bytes < whole:  # fields are picked out of every element
        return {**found, "pick": entries, "byte": entries * work.entry_bytes * work.taken_bytes / whole}
    return {**found, "byte": entries * work.entry_bytes}


def written(work: TouchWork) -> dict[str, float]:
    """What one view's part of a write does on the server, in units of the coefficients."""
    view, facts = work.view, work.facts
    if view.kind not in DOCUMENTS:
        found = {"index_entry": work.puts + 2 * work.moves + work.deletes}
        copies = sum(size for path, size in facts.value_bytes.items() if "." in path)
        if copies and view.kind != "elements":  # which have their owner's fields from its document
            # Copies that are read through an index stand in its documents, which are rewritten when they change.
            size = copies + facts.row_bytes
            found["rewrite"] = (work.puts + work.moves) * copies + work.patches * size
            # Rows that they are copied from are touched in the same transaction, so that none is out of date at once.
            changed = work.patches + work.checks
            found |= {"write": changed, "update": changed}
        return found
    if view.packed:
        return _packed_written(work)
    changed = work.puts + work.patches + 2 * work.moves + work.deletes + work.adds + work.checks
    if work.inside:
        return {"rewrite": changed * work.entry_bytes, "element": changed}
    if work.at and view.kind != "shared":
        size = document_bytes(view, facts)
        found = {
            "write": changed,
            "update": changed,
            "rewrite": changed * size,
            "element": changed * elements(facts),
            "grow": (work.puts + work.deletes + 2 * work.moves) * elements(facts),
        }
        embed = view.embed_at(work.at)
        if embed is not None and embed.limit is not None:
            found["sort"] = changed * facts.embeds[".".join(work.at)].per_parent
        return found
    new = work.puts + work.moves
    changed_in_place = work.patches + work.adds + work.checks
    gone = work.deletes + work.moves
    shared = view.kind == "shared"
    return {
        "write": new + changed_in_place + gone,
        "insert": new,
        "update": changed_in_place + gone,
        "rewrite": new * work.entry_bytes
        + changed_in_place * (entry_bytes(view, facts, work.at) if shared else document_bytes(view, facts)),
        "element": 0.0 if shared else changed_in_place * elements(facts),
    }


def _totals_written(work: TouchWork, entries: float) -> dict[str, float]:
    """Totals beside so many entries of a document that is written anyway: some more bytes of it. Where they are made
    anew, all entries are walked over once for each of them."""
    return {
        "rewrite": (work.adds + work.patches) * work.entry_bytes,
        "total": work.patches * entries * len(work.view.measures),
    }


def _packed_written(work: TouchWork) -> dict[str, float]:
    """Each entry is a change of a document, which is looked at by more than its `_id`, and walked over.

    A document that holds a span of time is half full on average when an entry comes.
    """
    many = work.facts.per_partition
    timed = any(part.cut in TIMES for part in work.view.partition)
    new, gone = work.puts + work.moves, work.deletes + work.moves
    changed = new + gone + work.patches + work.checks
    walked = new * many * (0.5 if timed else 1.0)
    rest = (gone + work.patches + work.checks) * many
    return {
        "write": changed,
        "plan": changed,
        "update": changed,
        "rewrite": (walked + rest) * work.entry_bytes,
        "element": walked + rest,
        "grow": walked + gone * many,
    }


def cost_model(model: Model) -> MongoCosts:
    """The cost model, with the coefficients and latencies that the model's `targets` may name."""
    checked(
        model,
        lambda: check_options(model, "mongodb", OPTIONS),
        *(partial(target, model, name, 0.0) for name in OPTIONS if name not in ("coefficients", "latencies")),
        lambda: given(model, "mongodb", "coefficients", Coefficients),
        lambda: given(model, "mongodb", "latencies", Latencies),
    )
    coefficients = Coefficients(**given(model, "mongodb", "coefficients", Coefficients))
    return MongoCosts(model, coefficients, Latencies(**given(model, "mongodb", "latencies", Latencies)))
