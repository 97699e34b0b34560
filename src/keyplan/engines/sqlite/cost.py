"""What work costs on SQLite: milliseconds of the processor per second of the model's traffic."""

from __future__ import annotations

from dataclasses import dataclass

from keyplan.engines.calibration import check_options, checked, given
from keyplan.engines.sqlite.fit import fit
from keyplan.engines.sqlite.limits import BATCH
from keyplan.engines.work import Cost, CostModel, Rejection, TouchWork, ViewFacts, Work
from keyplan.model.model import Model
from keyplan.plan.view import View

SCAN_ROWS = 20_000
"""A table of at most so many rows may be read whole for a pattern: some 20 ms."""


@dataclass(frozen=True)
class Coefficients:
    """Microseconds, by `keyplan calibrate` on one core of a small cloud machine, November 2026."""

    statement: float = 4.6
    """Binding, stepping and resetting a prepared statement."""
    seek: float = 2.1
    """Descending a B-tree."""
    entry: float = 0.37
    """Stepping to the next entry of an index or table."""
    lookup: float = 1.0
    """From an index entry to the table's row."""
    byte: float = 0.004
    """Copying a byte out of a row."""
    insert: float = 8.3
    """A table row inserted, replaced or deleted."""
    index_insert: float = 6.4
    """An index entry inserted or deleted."""
    commit: float = 28.0
    """Appending to the write-ahead log and its commit record."""
    keep_gb_ms: float = 0.01
    """Cache that a stored gigabyte takes away from the rest, as milliseconds per second."""


class SQLiteCosts(CostModel):
    """Prices work in processor time."""

    unit = "server ms/s"
    per_second = 1.0

    def __init__(self, model: Model, coefficients: Coefficients) -> None:
        self.model = model
        self.coefficients = coefficients

    def fit(self, view: View, facts: ViewFacts) -> View | Rejection:
        return fit(self.model, view, facts)

    def entry_bytes(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        if view.kind == "index":
            return facts.key_bytes + 8
        return sum(facts.value_bytes.values()) + 8 + (facts.key_bytes if view.measures else 0)

    def read(self, work: Work) -> Cost:
        c = self.coefficients
        entries = work.entries * work.requests
        # SQLite takes single columns out of a row; the rest of it costs next to nothing.
        per_entry = c.entry + work.taken_bytes * c.byte
        if work.view.kind == "index" and not work.covered:
            per_entry += c.lookup
        # Several keys, or first parts of keys, are looked up by one statement.
        statements = max(1.0, work.requests / BATCH) if work.get or work.fixed else work.requests
        micros = statements * c.statement + work.requests * c.seek + entries * per_entry
        worst = micros + max(0.0, work.most_entries - work.entries) * per_entry
        return Cost(micros / 1000, {"entries": entries}, worst / 1000, statements)

    def touch(self, work: TouchWork) -> Cost:
        c = self.coefficients
        if work.view.kind == "index":
            # An entry whose key stays is not rewritten.
            changed = work.puts + 2 * work.moves + work.deletes
            return Cost(changed * c.index_insert / 1000, {"entries": changed})
        changed = work.puts + work.patches + 2 * work.moves + work.deletes + work.adds
        micros = changed * (c.insert + c.statement + work.entry_bytes * c.byte) + (c.commit if changed else 0)
        return Cost(micros / 1000, {"entries": changed}, micros / 1000)

    def keep(self, view: View, facts: ViewFacts) -> float:
        size = facts.rows * self.entry_bytes(view, facts) + facts.carried_bytes
        return size / 1e9 * self.coefficients.keep_gb_ms

    def round_ms(self, kind: str) -> float:
        return 0.05

    def scans(self, facts: ViewFacts, entries: float) -> bool:
        return entries <= SCAN_ROWS


def cost_model(model: Model) -> SQLiteCosts:
    """The cost model, with the coefficients that the model's `targets` may name."""
    checked(
        model,
        lambda: check_options(model, "sqlite", ("coefficients",)),
        lambda: given(model, "sqlite", "coefficients", Coefficients),
    )
    return SQLiteCosts(model, Coefficients(**given(model, "sqlite", "coefficients", Coefficients)))
