"""What a store is made of, apart from its colour: everything compiled once at open, every operation a proc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keyplan.engines.base import Engine
from keyplan.engines.codec import Codec
from keyplan.engines.rounds import Proc
from keyplan.model.arguments import transaction_parts
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, generate
from keyplan.model.write import Transaction, Write
from keyplan.plan.design import Design
from keyplan.store.pump import Tally, counted, patient
from keyplan.store.reading.execute import Executor
from keyplan.store.reading.patterns import Read
from keyplan.store.steps import Steps, noting
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.places import find_places
from keyplan.store.writing.rows import RowReader
from keyplan.store.writing.write import Writer, prepare_parts

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The present in UTC, in whole milliseconds."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass(frozen=True)
class Executed:
    """What a call did: its steps in order, and what they came to."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    """Each with op (get, query, scan, write), view, requests and rows; a write that has read within its transaction
    says in how many rounds (`inside`)."""
    rounds: int = 0
    requests: int = 0
    rows: int = 0


class Core:
    """A model and a design on an engine, compiled."""

    def __init__(
        self,
        model: Model,
        design: Design,
        engine: Engine,
        clock: Clock | None = None,
        new_id: NewId | None = None,
        codec: Codec | None = None,
    ) -> None:
        self.model = model
        self.design = design
        self.engine = engine
        self.clock = clock or system_clock
        self.codec = codec or engine.codec(model, design)
        self.executor = Executor(model, design, engine.kinds, self.codec)
        self.places = find_places(model, design, engine.kinds)
        self.reader = RowReader(model, design, self.executor, self.places)
        self.mutator = Mutator(model, self.places, self.reader)
        self.writer = Writer(model, design, self.executor, self.codec, self.mutator, self.reader, new_id or generate)
        self.reads = {
            name: Read(model, design, engine.kinds, self.executor, pattern) for name, pattern in model.patterns.items()
        }

    def read(
        self,
        read: Read,
        arguments: Mapping[str, Any],
        cursor: object = None,
        consistency: str | None = None,
        explain: bool = False,
    ) -> Proc[Any]:
        """One call of a pattern, its arguments checked at once."""
        proc = read.proc(read.call(arguments, self.clock(), consistency), cursor)
        return self.explained(proc) if explain else patient(proc)

    def write(self, write: Write, arguments: Mapping[str, Any], explain: bool = False) -> Proc[Any]:
        """One call of a write."""
        prepared = self.writer.prepare(write, write.name, arguments, self.clock(), set())
        proc = self.writer.run(prepared)
        return self.explained(proc) if explain else patient(proc)

    def transact(self, transaction: Transaction, arguments: Mapping[str, Any], explain: bool = False) -> Proc[Any]:
        """One call of a transaction."""
        parts = transaction_parts(self.model, transaction, arguments)
        prepared = prepare_parts(self.writer, parts, self.clock())

        def run() -> Proc[dict[str, Any]]:
            answers: dict[str, Any] = {repeat.write: [] for repeat in transaction.parts if repeat.many}
            found = (yield from self.writer.run_all(prepared)) if prepared else []
            for part, answer in zip(parts, found, strict=True):
                if part.many:
                    answers[part.write.name].append(answer)
                else:
                    answers[part.write.name] = answer
            return answers

        return self.explained(run()) if explain else patient(run())

    def explained(self, proc: Proc[Any]) -> Proc[tuple[Any, Executed]]:
        """The same, with what was done."""
        tally, steps = Tally(), Steps()
        answer = yield from counted(noting(patient(proc), steps), tally)
        rows = sum(step["rows"] for step in steps)
        within = [step for step in steps if "inside" in step]
        rounds = tally.rounds + sum(step["inside"] for step in within)
        requests = tally.requests + sum(step["requests"] - 1 for step in within)
        return answer, Executed(steps, rounds, requests, rows)

    def settle(self) -> Proc[None]:
        """Finishes what others have left half done, and waits for engines that follow their writes by themselves."""
        yield from self.writer.intents.finish_for_good(self.clock())
        settle = getattr(self.codec, "settle", None)
        if settle is not None:
            yield from settle()
