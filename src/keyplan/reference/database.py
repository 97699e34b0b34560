"""A database in memory that does exactly what the model means: `read`, `write`, `transact`, `load`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from keyplan.errors import ArgumentError, nearest
from keyplan.model.arguments import bind_params, transaction_parts
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, generate
from keyplan.reference.apply import Writer
from keyplan.reference.evaluate import Page, evaluate
from keyplan.reference.tables import Key, Row, Tables

__all__ = ["Database", "Page", "system_clock"]

Clock = Callable[[], datetime]
T = TypeVar("T")


def system_clock() -> datetime:
    """The present in UTC, in whole milliseconds."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class Database:
    """Plain rows, and the patterns and writes of a model on them.

    Every call reads the clock once, and either succeeds or leaves no trace.
    """

    def __init__(self, model: Model, clock: Clock = system_clock, new_id: NewId = generate) -> None:
        self.model = model
        self.clock = clock
        self.new_id = new_id
        self.tables = Tables(model)

    @property
    def rows(self) -> dict[str, dict[Key, Row]]:
        """Entity to key to row; `$expires` is among the columns, computed fields are not."""
        return self.tables.rows

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Whatever has that name: a pattern, a write or a transaction."""
        if name in self.model.patterns:
            return self.read(name, **arguments)
        return self.write(name, **arguments) if name in self.model.writes else self.transact(name, **arguments)

    def read(self, name: str, /, *, cursor: Any = None, **arguments: Any) -> Any:
        """The answer of a pattern: a row or None, a list, a Page, a value or a rank."""
        pattern = _named(self.model.patterns, name, "pattern")
        if cursor is not None and (pattern.kind != "find" or pattern.one or pattern.limit is not None):
            raise ArgumentError(f"{name}: unknown argument 'cursor'; its answer does not come in pages")
        values = bind_params(self.model, pattern, arguments)
        return evaluate(self.tables, pattern, values, self._begin(), cursor)

    def write(self, name: str, /, **arguments: Any) -> Any:
        """Does a write and returns what it returns."""
        write = _named(self.model.writes, name, "write")
        return self._all_or_nothing(lambda writer: writer.run(writer.prepare(write, name, arguments)))

    def transact(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Does all writes of a transaction, in order, each seeing those before it; or none of them.

        Returns what each returns under its name; a list of them where it repeats.
        """
        transaction = _named(self.model.transactions, name, "transaction")
        parts = transaction_parts(self.model, transaction, arguments)

        def run(writer: Writer) -> dict[str, Any]:
            prepared = [(part, writer.prepare(part.write, part.label, part.arguments)) for part in parts]
            answers: dict[str, Any] = {repeat.write: [] for repeat in transaction.parts if repeat.many}
            for part, ready in prepared:
                answer = writer.run(ready)
                if part.many:
                    answers[part.write.name].append(answer)
                else:
                    answers[part.write.name] = answer
            return answers

        return self._all_or_nothing(run)

    def load(self, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
        """Upserts rows of any entities, given as (entity, fields), and returns how many."""

        def run(writer: Writer) -> int:
            count = 0
            for entity, arguments in rows:
                _named(self.model.entities, entity, "entity")
                writer.upsert_row(entity, f"load: {entity}", arguments)
                count += 1
            return count

        return self._all_or_nothing(run)

    def _begin(self) -> datetime:
        now = self.clock()
        self.tables.forget_expired(now)
        self.tables.commit()
        return now

    def _all_or_nothing(self, run: Callable[[Writer], T]) -> T:
        writer = Writer(self.tables, self._begin(), self.new_id)
        try:
            answer = run(writer)
        except BaseException:
            self.tables.roll_back()
            raise
        self.tables.commit()
        return answer


def _named(known: Mapping[str, T], name: str, what: str) -> T:
    if name not in known:
        raise ArgumentError(f"no {what} '{name}'{nearest(name, list(known))}")
    return known[name]
