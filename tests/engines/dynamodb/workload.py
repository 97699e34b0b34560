"""Every pattern and write of a model at a small scale, measured: requests, rounds and units of each call.

The counts of a model are made smaller, it is designed and filled with generated rows of that size, and every pattern
and write is called many times. What a call took is then compared with what the plan says it takes on average.
Run as a module, it prints the table of `docs/dynamodb.md`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any
from uuid import UUID

import keyplan
from keyplan.data import generate
from keyplan.model.entity import Entity
from keyplan.model.load import load_model
from keyplan.model.model import Model
from keyplan.model.pattern import Param
from keyplan.model.types import Type
from keyplan.model.write import Write
from keyplan.plan.steps import Figures
from keyplan.reference import Database
from keyplan.store.store import Store
from tests.engines.dynamodb.meter import Metered, Taken
from tests.examples_data.calls import Caller, Row, row_arguments
from tests.examples_data.compare import outcome_of
from tests.examples_data.rows import NOW, Clock

ROOT = Path(__file__).parents[3] / "examples"
MOST_ROWS = 1000
READS, WRITES = 30, 10


def smaller(model: Model) -> Model:
    """The model with counts divided by the same number, so that the largest entity has so many rows."""
    factor = min(1.0, MOST_ROWS / max(entity.count for entity in model.entities.values()))

    def shrunk(entity: Entity) -> Entity:
        return replace(entity, count=max(5, round(entity.count * factor)))

    entities = {name: shrunk(entity) for name, entity in model.entities.items()}
    # What is said of the rows that a pattern or write finds is true of the large database.
    patterns = {name: replace(pattern, rows=None) for name, pattern in model.patterns.items()}
    writes = {name: replace(write, rows=None) for name, write in model.writes.items()}
    targets = {**model.targets, "dynamodb": {**model.targets.get("dynamodb", {}), "billing": "on_demand"}}
    # Each write is called by itself here, and planned so.
    return replace(model, entities=entities, patterns=patterns, writes=writes, targets=targets, transactions={})


def counted(model: Model, rows: Iterable[tuple[str, Any]]) -> Model:
    """The model with the counts that its rows have: keys made of few values cannot be as many as they should."""
    counts = Counter(name for name, _ in rows)
    entities = {name: replace(entity, count=max(1, counts[name])) for name, entity in model.entities.items()}
    return replace(model, entities=entities)


class Ids:
    """Ids of new rows: the same for whoever counts from the same number."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, type: Type, now: datetime) -> Any:
        self.made += 1
        return UUID(int=self.made) if type.kind == "uuid" else f"{self.made:026}"


class Finder(Caller):
    """Draws calls that find what they ask for."""

    def pick(self, entity: str, conditions: Any) -> tuple[Database, Row]:
        if not self.there.rows[entity]:
            return self.pick_from(self.strangers, entity, ())
        return self.pick_from(self.there, entity, conditions)

    def write(self, write: Write) -> dict[str, Any]:
        """Arguments that change something: no value that is missing already."""
        found = super().write(write)
        for column, operand in write.sets.items():
            if isinstance(operand, Param) and found[operand.name] is None:
                rows = self.strangers.rows[write.entity].values()
                some = [row[column] for row in rows if row[column] is not None]
                text = self.model.entities[write.entity].columns[column].type.kind in ("string", "text")
                found[operand.name] = self.random.choice(some) if some else "some" if text else None
        return found

    def new(self, entity: Entity, children: Any, parent: str | None = None, row: Row | None = None) -> dict[str, Any]:
        """A new row whose key the store makes up where it can, and which it copies values into, as usual."""
        found = super().new(entity, children, parent, row)
        for item in entity.fields.values():
            if item.source is not None:
                found.pop(item.name, None)
            elif item.target is not None and found.get(item.name) is not None and self.there.rows[item.target]:
                key = self.random.choice(list(self.there.rows[item.target]))
                found[item.name] = key[0] if len(key) == 1 else key
        for column in entity.key:
            item = entity.fields[entity.columns[column].field]
            if item.type is not None and item.type.kind in ("uuid", "ulid"):
                found.pop(item.name, None)
        return found


@dataclass
class Measured:
    """One pattern or write: what its plan says, and what its calls took."""

    name: str
    plan: Figures
    calls: list[Taken] = field(default_factory=list)

    @property
    def requests(self) -> float:
        return fmean(taken.requests for taken in self.calls)

    @property
    def rounds(self) -> float:
        return fmean(taken.rounds for taken in self.calls)

    def units(self, unit: str) -> float:
        return fmean(sum((taken.read if unit == "read units" else taken.write).values()) for taken in self.calls)


class Workload:
    """A small database of one model on a server."""

    def __init__(self, model: Model, url: str, *, first: str = "") -> None:
        """With `first`, the rows of that entity are loaded before all others. It makes the same database: what is
        computed of them, and copied from there, is then written once instead of with each of them."""
        self.model = smaller(model)
        counts = {name: int(entity.count) for name, entity in self.model.entities.items()}
        rows = list(generate(self.model, counts=counts, seed=1, now=NOW))
        self.model = counted(self.model, rows)
        loaded = [(name, row_arguments(self.model.entities[name], row)) for name, row in rows]
        self.clock = Clock()
        self.database = Database(self.model, clock=self.clock, new_id=Ids())
        self.database.load(loaded)
        strangers = Database(self.model, clock=self.clock)
        strangers.load(
            (name, row_arguments(self.model.entities[name], row))
            for name, row in generate(self.model, counts=counts, seed=2, now=NOW)
        )
        self.caller = Finder(self.database, strangers, seed=3)
        self.design = keyplan.design(self.model, "dynamodb", advise=False)
        keyplan.apply(self.model, url, design=self.design)
        self.store: Store = keyplan.open(self.model, url, design=self.design, clock=self.clock, new_id=Ids())
        self.store.load(sorted(loaded, key=lambda row: row[0] != first))
        self.store.settle()
        self.meter = Metered(self.store._port, self.model, self.design)

    def reads(self) -> Iterator[Measured]:
        for name, plan in self.design.plans.items():
            pattern = self.model.patterns[name]
            found = Measured(name, plan.figures)
            seen = set()
            for _ in range(10 * READS):
                arguments = self.caller.read(pattern)
                if repr(arguments) not in seen:  # every key as often as any other, however many rows are behind it
                    seen.add(repr(arguments))
                    self.meter.reset()
                    getattr(self.store, name)(**arguments)
                    found.calls.append(self.meter.reset())
                if len(seen) == READS:
                    break
            yield found

    def writes(self) -> Iterator[Measured]:
        """Writes that do something; refused ones are called again with other arguments.

        They take rows that were there at first where they can: new ones have nothing that points at them.
        """
        first = {(entity, key) for entity, rows in self.database.rows.items() for key in rows}
        for name, plan in self.design.writes.items():
            found = Measured(name, plan.figures)
            for _ in range(3 * WRITES):
                now = {(entity, key) for entity, rows in self.database.rows.items() for key in rows}
                self.caller.used = now - first
                self.clock.now += self.clock.now.resolution * 1000
                arguments = self.caller.write(self.model.writes[name])
                before = {entity: dict(rows) for entity, rows in self.database.rows.items()}
                expected = outcome_of(partial(self.database.call, name), arguments)
                self.meter.reset()
                outcome = outcome_of(getattr(self.store, name), arguments)
                assert outcome[0] == expected[0], (name, arguments, outcome, expected)
                if outcome[0] == "answered" and self.database.rows != before:
                    found.calls.append(self.meter.reset())
                if len(found.calls) == WRITES:
                    break
            yield found

    def close(self) -> None:
        self.store.close()


def main(endpoint: str, names: list[str]) -> None:
    for name in names or sorted(path.stem for path in ROOT.glob("*.yaml")):
        model = load_model(ROOT / f"{name}.yaml")
        workload = Workload(model, f"dynamodb://w-{name}-{time.time_ns()}?region=us-east-1&endpoint={endpoint}")
        for found in (*workload.reads(), *workload.writes()):
            if not found.calls:
                print(f"{name:16} {found.name:24} no calls")
                continue
            figures = found.plan
            cells = [
                f"requests {figures.requests:8.2f} {found.requests:8.2f}",
                f"trips {figures.trips:3} {found.rounds:6.2f}",
                f"read {figures.units.get('read units', 0):8.2f} {found.units('read units'):8.2f}",
                f"write {figures.units.get('write units', 0):8.2f} {found.units('write units'):8.2f}",
            ]
            print(f"{name:16} {found.name:24} {'  '.join(cells)}")
        workload.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
