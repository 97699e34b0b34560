"""Opening a store: find the model, the engine and the design, see that the server holds it, connect."""

from __future__ import annotations

from collections.abc import Generator
from os import PathLike
from typing import Any

from keyplan.engines import engine_for_url
from keyplan.engines.base import Engine
from keyplan.engines.elapsed import elapsed
from keyplan.engines.ports import AsyncPort, Holding, HoldingAsync, Port, Renewing, RenewingAsync
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError, DesignMismatchError, StorageError
from keyplan.model.load import load_model
from keyplan.model.model import Model
from keyplan.model.new_row import NewId
from keyplan.plan.design import Design
from keyplan.plan.lockfile import lock_text, locked_text, read_lock
from keyplan.store.bulk.apply import all_lost, apply, glance, is_same
from keyplan.store.core import Clock, Core
from keyplan.store.lease import Lease, LeasedAsyncPort, LeasedPort
from keyplan.store.naming import name_of, naming
from keyplan.store.pump import patient, run, run_async
from keyplan.store.store import AsyncStore, Store


def open(
    model: Model | str | PathLike[str],
    url: str,
    *,
    design: Design | None = None,
    create: bool = True,
    clock: Clock | None = None,
    new_id: NewId | None = None,
) -> Store:
    """Opens a database by its URL and returns the store, whose methods are the model's patterns and writes.

    The design is the one given, else that of the lock file beside the model, else the one recorded on the server. An
    embedded database that is new is created and gets its design here and now, or with `create=False` is refused.
    `clock` replaces the system's clock.
    """
    loaded, engine = _model(model), engine_for_url(url)
    _see_that_it_is_there(engine, url, create)
    port: Port = engine.connect(url, loaded, None)
    try:
        begun = elapsed()
        with naming(port):
            found = run(patient(settled_design(loaded, engine, design, create, name_of(port))), port)
        if engine.leases:
            assert isinstance(port, Renewing)
            port = LeasedPort(port, Lease(engine, engine.upkeep(loaded, found), begun))
        elif isinstance(port, Holding):
            port.hold(engine.upkeep(loaded, found))
        return Store(Core(loaded, found, engine, clock, new_id), port)
    except BaseException:
        port.close()
        raise


def open_async(
    model: Model | str | PathLike[str],
    url: str,
    *,
    design: Design | None = None,
    create: bool = True,
    clock: Clock | None = None,
    new_id: NewId | None = None,
) -> Opening:
    """The same for asyncio: `async with keyplan.open_async(...) as store`, or `await keyplan.open_async(...)`."""
    return Opening(model, url, design, create, clock, new_id)


class Opening:
    """A store that is about to be opened."""

    def __init__(
        self,
        model: Model | str | PathLike[str],
        url: str,
        design: Design | None,
        create: bool,
        clock: Clock | None,
        new_id: NewId | None,
    ) -> None:
        self._model = model
        self._url = url
        self._design = design
        self._create = create
        self._clock = clock
        self._new_id = new_id
        self._store: AsyncStore | None = None

    async def _open(self) -> AsyncStore:
        loaded, engine = _model(self._model), engine_for_url(self._url)
        _see_that_it_is_there(engine, self._url, self._create)
        port: AsyncPort = engine.connect_async(self._url, loaded, None)
        try:
            begun = elapsed()
            with naming(port):
                settling = settled_design(loaded, engine, self._design, self._create, name_of(port))
                found = await run_async(patient(settling), port)
            if engine.leases:
                assert isinstance(port, RenewingAsync)
                port = LeasedAsyncPort(port, Lease(engine, engine.upkeep(loaded, found), begun))
            elif isinstance(port, HoldingAsync):
                await port.hold(engine.upkeep(loaded, found))
            return AsyncStore(Core(loaded, found, engine, self._clock, self._new_id), port)
        except BaseException:
            await port.close()
            raise

    def __await__(self) -> Generator[Any, Any, AsyncStore]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *exc: object) -> None:
        assert self._store is not None
        await self._store.close()


def _model(model: Model | str | PathLike[str]) -> Model:
    return model if isinstance(model, Model) else load_model(model)


def _see_that_it_is_there(engine: Engine, url: str, create: bool) -> None:
    name = None if create else engine.lacks(url)
    if name is not None:
        raise StorageError(f"{name}: there is no database; check the name, or make it with 'keyplan apply'")


def _nothing_applied(where: str) -> DesignError:
    return DesignError(f"{where}: nothing has been applied to this database yet; run 'keyplan apply' first")


def settled_design(
    model: Model, engine: Engine, design: Design | None, create: bool = True, where: str = ""
) -> Proc[Design]:
    """The design to be run, after seeing that the server holds it; a new embedded database is given it.

    `where` is what messages call the database."""
    where = where or f"the {engine.name} database"
    catalog = yield from glance(model, engine, design)
    absent = engine.absent(catalog)
    if absent is not None:
        raise DesignError(f"{where}: {absent}; check the name, or make it with 'keyplan apply'")
    if catalog.unfinished:
        raise DesignMismatchError(f"{where}: {catalog.unfinished}")
    lost = engine.lost(catalog)
    if lost is not None:  # an empty answer would be worse
        raise all_lost(lost)
    lock: str | None = None
    if design is None:
        locked = locked_text(model, engine.name)
        if locked is not None:
            lock = locked[0]
            design = read_lock(lock, model, locked[1])
    if design is not None:
        lock = lock or lock_text(model, design)
        if catalog.design_hash is None:
            if not (engine.embedded and create):
                raise _nothing_applied(where)
            yield from apply(model, engine, design, lock)
        elif not is_same(catalog, lock):
            other = catalog.found.get("model")
            if other not in (None, model.name):
                raise DesignMismatchError(
                    f"{where}: it holds a design of the model '{other}', not of '{model.name}'; "
                    "name the database of this model in the URL"
                )
            raise DesignMismatchError(
                f"{where}: the database holds another design than the one to be run; run 'keyplan apply', "
                "or open it with the design it holds"
            )
        return design
    if catalog.lock is not None:
        try:
            return read_lock(
                catalog.lock,
                model,
                f"{where}: the design recorded there",
                "run 'keyplan apply'",
                elsewhere="name another database, or the model it was made for",
            )
        except DesignError as error:
            raise DesignMismatchError(str(error)) from None
    if engine.embedded and not create:
        raise _nothing_applied(where)
    if not engine.embedded:
        raise DesignError(
            f"{where}: there is no design for '{model.name}'; run 'keyplan design --save' and 'keyplan apply'"
        )
    from keyplan.design import design as make_design

    made = make_design(model, engine)
    yield from apply(model, engine, made)
    return made
