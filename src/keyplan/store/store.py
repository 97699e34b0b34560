"""A live store: one method per pattern, write and transaction, sync and async, over the same procs."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from keyplan.engines.ports import AsyncPort, Port
from keyplan.engines.rounds import Proc, Reply, Round
from keyplan.errors import ArgumentError, UnavailableError, UnsupportedError, nearest
from keyplan.model.entity import Entity, Field
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.model.write import Transaction, Write
from keyplan.plan.design import Design
from keyplan.store.bulk.blame import BLAMABLE
from keyplan.store.bulk.load import Loading, load_rows
from keyplan.store.bulk.verify import Verification, verify
from keyplan.store.core import Core
from keyplan.store.naming import naming
from keyplan.store.pump import patient, persistent, run, run_async
from keyplan.store.reading.patterns import Read
from keyplan.store.reading.quick import NOT_QUICK, Quick, QuickAsync, quick_read, quick_read_async

T = TypeVar("T")
Progress = Callable[[int], None]

CALL = inspect.Parameter.KEYWORD_ONLY


class Method:
    """A pattern, write or transaction as something to be called; `start` makes its proc."""

    def __init__(self, name: str, signature: inspect.Signature, doc: str, run: Callable[[Proc[Any]], Any]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__signature__ = signature
        self.__doc__ = doc
        self._run = run

    def __repr__(self) -> str:
        return f"<{self.__name__}{self.__signature__}>"

    def _unnamed(self) -> ArgumentError:
        names = [f"'{name}'" for name in self.__signature__.parameters]
        return ArgumentError(
            f"{self.__name__}: arguments are given by name, as name=value; it takes {', '.join(names)}"
        )


class PatternMethod(Method):
    """A pattern."""

    def __init__(self, core: Core, read: Read, run: Callable[[Proc[Any]], Any]) -> None:
        super().__init__(read.pattern.name, pattern_signature(read.pattern), describe(read.pattern), run)
        self._core = core
        self._read = read

    def __call__(
        self,
        *unnamed: Any,
        cursor: str | None = None,
        consistency: str | None = None,
        explain: bool = False,
        **arguments: Any,
    ) -> Any:
        if unnamed:
            raise self._unnamed()
        return self._run(self._core.read(self._read, arguments, cursor, consistency, explain))

    def _iteration(self, arguments: Mapping[str, Any], cursor: str | None, consistency: str | None) -> tuple[Any, Any]:
        """The call that all chunks of an iteration share, and the position it starts from."""
        read = self._read
        call = read.call(arguments, self._core.clock(), consistency)
        if read.pattern.kind != "find" or read.pattern.one:
            raise ArgumentError(f"{read.pattern.name}: its answer is not a list of rows; call it without '.all'")
        if cursor is not None and not read.paged:
            raise read.unpaged()
        position = read.cursors.position(cursor, call.args) if cursor is not None else None
        return call, position


class SyncPatternMethod(PatternMethod):
    """A pattern, sync."""

    _quick: Quick | None = None

    def __call__(
        self,
        *unnamed: Any,
        cursor: str | None = None,
        consistency: str | None = None,
        explain: bool = False,
        **arguments: Any,
    ) -> Any:
        if unnamed:
            raise self._unnamed()
        if self._quick is not None and consistency is None and cursor is None and not explain:
            answer = self._quick(arguments)
            if answer is not NOT_QUICK:
                return answer
        return self._run(self._core.read(self._read, arguments, cursor, consistency, explain))

    def all(
        self, *unnamed: Any, cursor: str | None = None, consistency: str | None = None, **arguments: Any
    ) -> Iterator[dict[str, Any]]:
        """Every row, page after page, in bounded memory where the plan delivers the order by itself."""
        if unnamed:
            raise self._unnamed()
        call, position = self._iteration(arguments, cursor, consistency)
        return self._each(call, position)

    def _each(self, call: Any, position: Any) -> Iterator[dict[str, Any]]:
        while True:
            rows, position = self._run(patient(self._read.chunk(call, position)))
            yield from rows
            if position is None:
                return


class AsyncPatternMethod(PatternMethod):
    """A pattern, async."""

    _quick: QuickAsync | None = None

    def __call__(
        self,
        *unnamed: Any,
        cursor: str | None = None,
        consistency: str | None = None,
        explain: bool = False,
        **arguments: Any,
    ) -> Any:
        if unnamed:
            raise self._unnamed()
        if self._quick is not None and consistency is None and cursor is None and not explain:
            return self._quickly(self._quick, arguments)
        return self._run(self._core.read(self._read, arguments, cursor, consistency, explain))

    async def _quickly(self, quick: QuickAsync, arguments: Mapping[str, Any]) -> Any:
        answer = await quick(arguments)
        if answer is not NOT_QUICK:
            return answer
        return await self._run(self._core.read(self._read, arguments, None, None, False))

    def all(
        self, *unnamed: Any, cursor: str | None = None, consistency: str | None = None, **arguments: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Every row, page after page, in bounded memory where the plan delivers the order by itself."""
        if unnamed:
            raise self._unnamed()
        call, position = self._iteration(arguments, cursor, consistency)
        return self._each(call, position)

    async def _each(self, call: Any, position: Any) -> AsyncIterator[dict[str, Any]]:
        while True:
            rows, position = await self._run(patient(self._read.chunk(call, position)))
            for row in rows:
                yield row
            if position is None:
                return


class WriteMethod(Method):
    """A write."""

    def __init__(self, core: Core, write: Write, run: Callable[[Proc[Any]], Any]) -> None:
        super().__init__(write.name, write_signature(core.model, write), describe(write), run)
        self._core = core
        self._write = write

    def __call__(self, *unnamed: Any, explain: bool = False, **arguments: Any) -> Any:
        if unnamed:
            raise self._unnamed()
        return self._run(self._core.write(self._write, arguments, explain))


class TransactionMethod(Method):
    """A transaction."""

    def __init__(self, core: Core, transaction: Transaction, run: Callable[[Proc[Any]], Any]) -> None:
        names = [
            inspect.Parameter(repeat.write, CALL, default=() if repeat.many else inspect.Parameter.empty)
            for repeat in transaction.parts
        ]
        names.append(inspect.Parameter("explain", CALL, default=False, annotation="bool"))
        doc = f"{', '.join(repeat.write for repeat in transaction.parts)}: all of them or none."
        super().__init__(transaction.name, inspect.Signature(names), doc, run)
        self._core = core
        self._transaction = transaction

    def __call__(self, *unnamed: Any, explain: bool = False, **arguments: Any) -> Any:
        if unnamed:
            raise self._unnamed()
        return self._run(self._core.transact(self._transaction, arguments, explain))


P = TypeVar("P")


class _Common(Generic[P]):
    """What stores of both colours have."""

    _pattern_method: type[PatternMethod]

    def __init__(self, core: Core, port: P) -> None:
        self._core = core
        self._port: P = port
        self._closed = False
        for name, read in core.reads.items():
            setattr(self, name, self._pattern_method(core, read, self._run))
        for name, write in core.model.writes.items():
            setattr(self, name, WriteMethod(core, write, self._run))
        for name, transaction in core.model.transactions.items():
            setattr(self, name, TransactionMethod(core, transaction, self._run))

    @property
    def model(self) -> Model:
        """The model that the store runs."""
        return self._core.model

    @property
    def design(self) -> Design:
        """The design that the store runs."""
        return self._core.design

    def _other(self, options: Mapping[str, Any]) -> Self:
        """The store on the same connection, with other options."""
        if self._closed:
            raise UnavailableError("the store is closed; open it again")
        other = getattr(self._port, "using", None)
        if other is None:
            raise UnsupportedError(
                f"{self.design.engine}: there is nothing that calls could ask for; leave out 'using'"
            )
        return type(self)(self._core, other(options))

    def _run(self, proc: Proc[Any]) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        known = [*self.__dict__.get("_core").model.calls] if "_core" in self.__dict__ else []  # type: ignore[union-attr]
        raise AttributeError(f"the store has no pattern, write or transaction '{name}'{nearest(name, known)}")

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *self._core.model.calls})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model.name} on {self.design.engine}{', closed' * self._closed}>"


class _ClosedPort:
    """What a store has in place of its port after `close`."""

    def send(self, round: Round) -> Sequence[Reply]:
        raise UnavailableError("the store is closed; open it again")

    def close(self) -> None:
        pass


class _ClosedAsyncPort:
    """The same for asyncio."""

    async def send(self, round: Round) -> Sequence[Reply]:
        raise UnavailableError("the store is closed; open it again")

    async def close(self) -> None:
        pass


class Store(_Common[Port]):
    """A live connection that runs a design, sync. Made by `keyplan.open`."""

    _pattern_method = SyncPatternMethod

    def __init__(self, core: Core, port: Port) -> None:
        super().__init__(core, port)
        for name, read in core.reads.items():
            self.__dict__[name]._quick = quick_read(read, port)

    def _run(self, proc: Proc[Any]) -> Any:
        return run(proc, self._port)

    def load(
        self,
        rows: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        progress: Progress | None = None,
        done: int | None = None,
    ) -> int:
        """Upserts rows, given as (entity, fields), in batches, and returns how many.

        `progress` is called with the number of rows that are safe; a load that was interrupted goes on with the same
        rows and `done` set to the last such number, 0 if there was none. For that, with either of the two, keys that
        are left out are worked out from the rows, and the same rows loaded again are the same; else they are new ones.
        """
        loading = Loading(self._core, rows, done, progress is not None)
        for count in loading.batches():
            try:
                run(persistent(load_rows(loading)), self._port)
            except BLAMABLE as error:
                loading.blame(error)
                raise
            if progress is not None:
                progress(count)
        return loading.done - (done or 0)

    def verify(self, *, repair: bool = False, progress: Progress | None = None) -> Verification:
        """Compares every view with what its home rows imply, and repairs it if asked to."""
        with naming(self._port):
            return run(persistent(verify(self._core, repair, progress)), self._port)

    def settle(self) -> None:
        """Waits until every write that has returned shows in every view."""
        run(persistent(self._core.settle()), self._port)

    def using(self, **options: Any) -> Store:
        """The same store and connection, whose calls ask the engine for something else than the URL does.

        The options are the engine's own: on MongoDB `w`, `journal`, `wtimeoutMS`, `readPreference` and
        `readConcernLevel`. It is over with the store that it was made of; closing it closes nothing.
        """
        return self._other(options)

    def close(self) -> None:
        """Closes the connection."""
        if not self._closed:
            self._closed = True
            port, self._port = self._port, _ClosedPort()
            for name in self._core.reads:
                self.__dict__[name]._quick = None
            port.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncStore(_Common[AsyncPort]):
    """A live connection that runs a design, async. Made by `keyplan.open_async`."""

    _pattern_method = AsyncPatternMethod

    def __init__(self, core: Core, port: AsyncPort) -> None:
        super().__init__(core, port)
        if getattr(port, "call", None) is None:
            for name, read in core.reads.items():
                self.__dict__[name]._quick = quick_read_async(read, port)

    def _run(self, proc: Proc[T]) -> Any:
        call = getattr(self._port, "call", None)
        if call is not None:  # a port that runs whole procs on a worker of its own
            return call(lambda port: run(proc, port))
        return run_async(proc, self._port)

    async def load(
        self,
        rows: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        progress: Progress | None = None,
        done: int | None = None,
    ) -> int:
        """Upserts rows, given as (entity, fields), in batches, and returns how many."""
        loading = Loading(self._core, rows, done, progress is not None)
        for count in loading.batches():
            try:
                await self._run(persistent(load_rows(loading)))
            except BLAMABLE as error:
                loading.blame(error)
                raise
            if progress is not None:
                progress(count)
        return loading.done - (done or 0)

    async def verify(self, *, repair: bool = False, progress: Progress | None = None) -> Verification:
        """Compares every view with what its home rows imply, and repairs it if asked to."""
        with naming(self._port):
            found: Verification = await self._run(persistent(verify(self._core, repair, progress)))
        return found

    async def settle(self) -> None:
        """Waits until every write that has returned shows in every view."""
        await self._run(persistent(self._core.settle()))

    def using(self, **options: Any) -> AsyncStore:
        """The same store and connection, whose calls ask the engine for something else; see `Store.using`."""
        return self._other(options)

    async def close(self) -> None:
        """Closes the connection."""
        if not self._closed:
            self._closed = True
            port, self._port = self._port, _ClosedAsyncPort()
            for name in self._core.reads:
                self.__dict__[name]._quick = None
            await port.close()

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def pattern_signature(pattern: Pattern) -> inspect.Signature:
    """The arguments of a pattern, all by name."""
    names = dict.fromkeys(name.partition(".")[0] for name in pattern.params)
    parameters = [inspect.Parameter(name, CALL) for name in names]
    if pattern.kind == "find" and not pattern.one and pattern.limit is None:
        parameters.append(inspect.Parameter("cursor", CALL, default=None, annotation="str | None"))
    parameters.append(inspect.Parameter("consistency", CALL, default=None, annotation="str | None"))
    parameters.append(inspect.Parameter("explain", CALL, default=False, annotation="bool"))
    return inspect.Signature(parameters)


def write_signature(model: Model, write: Write) -> inspect.Signature:
    """The arguments of a write, all by name; those that may be left out have a default."""
    entity = model.entities[write.entity]
    parameters = []
    if write.kind in ("create", "upsert"):
        for field in entity.fields.values():
            if field.computed is not None:
                continue
            parameters.append(inspect.Parameter(field.name, CALL, default=_left_out(entity, field)))
        for role in write.children:
            none = None if entity.roles[role].most == 1 else ()
            parameters.append(inspect.Parameter(role, CALL, default=none))
    else:
        names = dict.fromkeys(name.partition(".")[0] for name in write.params)
        parameters += [inspect.Parameter(name, CALL) for name in names]
    parameters.append(inspect.Parameter("explain", CALL, default=False, annotation="bool"))
    return inspect.Signature(parameters)


def _left_out(entity: Entity, field: Field) -> Any:
    """What a field of a new row is if it is left out; `...` for what is only made at the call."""
    kind = field.type.kind if field.type is not None else ""
    if field.default is not None:
        return field.default
    if field.now or field.source is not None or (kind in ("uuid", "ulid") and field.name in entity.key):
        return ...
    if kind in ("set", "list"):
        return ()
    return None if field.optional is not None else inspect.Parameter.empty


def describe(call: Pattern | Write) -> str:
    """The docstring of a method: the model's own note, or what it does."""
    if call.note:
        return call.note
    where = " and ".join(str(condition) for condition in call.where)
    tail = f" where {where}" if where else ""
    return f"{call.kind} {call.entity}{tail}"
