"""What an engine is: the contract that everything else is written against.

The design-time half (kinds, fit, costs, pack) is data and pure functions; the run-time half is a codec, which turns
spans and edits into requests and replies into rows, and a port, which sends requests and is the only thing that
knows the driver.

Plans, writes, apply, load and verify are generators (`Proc`) that yield rounds of independent requests and are
sent the replies; `store/pump.py` drives them, sync or async.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from keyplan.engines.unreadable import UnreadableError
from keyplan.errors import ConflictError, KeyplanError, UnsupportedError
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Design, Finding, Structure
from keyplan.plan.edits import Edit, Puts
from keyplan.plan.steps import Search, Touch
from keyplan.plan.upkeep import upkeep_hash
from keyplan.plan.view import View

if TYPE_CHECKING:
    from keyplan.engines.calibration import Calibration
    from keyplan.engines.lease import Held
    from keyplan.engines.work import CostModel, Share

T = TypeVar("T")

Request = Any
"""Whatever the engine's port takes; only the engine's own codec and port look inside."""
Reply = Any
"""What the port answers, or an EngineError in its place, so that half a round survives."""
Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds before going on; yielded instead of a round."""

    seconds: float


Round = Sequence[Request]
Proc = Generator["Round | Pause", Sequence[Reply], T]
Then = Callable[[], "Proc[None]"]
"""What is done behind the edits of a request, as part of it; made anew for each attempt."""


@dataclass(slots=True)
class Span:
    """A contiguous range of one partition, in values.

    `prefix` fixes the first sort parts. `low` and `high` bound the parts after it: a bound of n values compares with
    the first n of them, and an open bound leaves out the entries equal to it in those n.
    """

    partition: tuple[Any, ...]
    prefix: tuple[Any, ...] = ()
    low: tuple[Any, ...] | None = None
    low_open: bool = False
    high: tuple[Any, ...] | None = None
    high_open: bool = False
    starts: str | None = None
    """begins_with: the part after the prefix starts with this text; low and high may narrow it further."""


@dataclass(slots=True)
class Ask:
    """A request and the spans (by number) that it covers; a batch covers several."""

    request: Request
    spans: Sequence[int]


@dataclass(slots=True)
class Answer:
    """The rows per span of the Ask, in the order of its spans, and the Ask that continues it, if there is more.

    Where a row came with the first of its children and these may have expired, the Ask that follows brings that row
    again, with more of them.
    """

    rows: Sequence[list[Row]]
    more: Ask | None = None


SESSION = 2
"""Less than strong: a read sees whatever the same connection has written or seen before. To engines that know no such
thing it is as true as any strong read."""

Direct = tuple[Callable[[tuple[Any, ...]], Request], Callable[[Reply], list[Row]]]
"""From the values of key parts to a request, and from a reply that is no error to all its rows."""


class Reader(ABC):
    """A `Search`, compiled once at open."""

    @abstractmethod
    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        """Requests for the entries of these spans, at most `limit` per span (before any filter), in the Search's
        direction. A span without partition values on a view that has some means the whole view (a scan).
        `strong` is False, True, or SESSION."""

    @abstractmethod
    def answer(self, ask: Ask, reply: Reply) -> Answer:
        """Decodes a reply. Rows are flat dicts with exactly the Search's `takes` (missing is None) and lists of
        child rows under each role of `along`."""

    def direct(self, width: int, limit: int | None, *, strong: int) -> Direct | None:
        """The short way for a span that fixes the first `width` parts of the key and nothing more, if there is one."""
        return None

    def sift(self, ask: Ask, reply: Reply, note: Callable[[UnreadableError], None]) -> Answer:
        """`answer` to a reply that it cannot read, without the entries at fault: `note` hears of each."""
        raise UnsupportedError("this engine's replies are read as a whole")

    filters = False
    """True: the reader applies the Search's `filter` itself, exactly, given its values by `with_filter`."""


@dataclass(frozen=True)
class Sighting:
    """What was found of an entry that the engine keeps by what we write beside the values of another one."""

    view: str
    what: str
    """missing, wrong or extra; empty if it is as it should be."""
    key: tuple[Any, ...]
    is_entry: bool = True
    """Whether it is an entry of the view; otherwise something else about one that is counted elsewhere."""


class Codec(ABC):
    """Turns searches and edits into requests, for one design."""

    @abstractmethod
    def reader(self, search: Search) -> Reader: ...

    @abstractmethod
    def write(self, edits: Sequence[Edit]) -> Request:
        """One request that does all edits atomically or none. At most `atomic_edits` of them.

        Its reply, through `wrote`, is a list with the returned entry (or None) per edit, as far as the engine returns
        any (`returns_together`). A failed expectation or test
        comes back as ConflictError with the attribute `edit` (number of the first failing edit)."""

    def write_many(self, puts: Sequence[Puts], edits: Sequence[Edit]) -> Request:
        """One request that does all of these atomically or none, as `write` does; refusals need not say which."""
        return self.write([*(edit for some in puts for edit in some.edits()), *edits])

    def go_on(self, request: Request, then: Then, apart: Sequence[tuple[str, Key]] = ()) -> Request:
        """The same write, which is not done before what `then` makes has run to its end (`goes_on`).

        Its reads and writes are part of the same atomic step: they see what the write itself did, and nothing that
        others do meanwhile. Whoever writes an entry that the write has edited, or checked, comes before all of it or
        after, and so does whoever names one of the same rows, by entity and key, to be kept `apart` from others. An
        error of ours that it raises is the reply, and nothing is done.
        """
        raise UnsupportedError("this engine's writes cannot go on reading")

    @abstractmethod
    def wrote(self, request: Request, reply: Reply) -> list[Row | None]: ...

    @abstractmethod
    def bulk(self, edits: Sequence[Edit]) -> list[Request]:
        """Requests that do unconditional puts and deletes in bulk, not atomically together, cheapest first."""

    def putter(self, view: str) -> Callable[[Sequence[Row]], list[Request]] | None:
        """The short way of `bulk` for whole rows of which a view holds one entry each, if there is one.

        Of two rows with the same key the later one stays."""
        return None

    def sweep(
        self,
        searches: Sequence[Search],
        each: Callable[[int, list[Row]], Proc[None]],
        unread: Callable[[Search, UnreadableError], None] | None = None,
    ) -> Proc[None]:
        """Streams all entries of some places, strongly: `each` gets the number of a search and some of its rows, and
        `unread`, if there is one, hears of entries that cannot be read. Here one place is read after the other; an
        engine that keeps them together reads that once."""
        for number, search in enumerate(searches):
            reader = self.reader(search)
            asks = reader.ask([Span(())], None, strong=True)
            while asks:
                ask = asks.pop(0)
                (reply,) = yield [ask.request]
                if isinstance(reply, Exception):
                    raise reply
                try:
                    answer = reader.answer(ask, reply)
                except UnreadableError:
                    if unread is None:
                        raise
                    answer = reader.sift(ask, reply, partial(unread, search))
                if answer.more is not None:
                    asks.insert(0, answer.more)
                for rows in answer.rows:
                    yield from each(number, rows)

    def check(self, note: Callable[[Sighting], None], *, repair: bool) -> Proc[None]:
        """Looks through everything that is stored for what the engine keeps its own views by, where that is written
        by us and may not be what the values imply; puts it right if asked to. `note` hears of every such entry."""
        yield from ()

    extends = True
    """Minima and maxima of groups are extended by `adds` as sums are added to; otherwise they are read, set and
    tested."""
    returns_together = True
    """Entries are returned by several edits at once; otherwise by a request of one edit alone, and by puts."""
    goes_on = False
    """A write can look at what is there, and write more, before it is done: see `go_on`."""
    atomic_edits: int | None = None
    """The most edits one request can do atomically; None: no limit."""
    rows_at_once = 200
    """How many new rows a load had best write in one atomic request, where there is no limit."""


class Port(Protocol):
    """A live connection, sync. Where it has an attribute `where`, that is what messages call the database."""

    def send(self, round: Round) -> Sequence[Reply]: ...

    def close(self) -> None: ...


class AsyncPort(Protocol):
    """A live connection, async, with the same `where`."""

    async def send(self, round: Round) -> Sequence[Reply]: ...

    async def close(self) -> None: ...


Against = Callable[[Round], KeyplanError | None]
"""Says why a round is not to be sent now, or not to be gone on with, if that is so."""
AgainstAsync = Callable[[Round], Awaitable[KeyplanError | None]]


@runtime_checkable
class Renewing(Port, Protocol):
    """A port of an engine with `leases`. It may take long over a round, since it repeats and completes what it has
    sent: before everything that it sends but the first, it asks whether it may."""

    def send_while(self, round: Round, against: Against) -> Sequence[Reply]: ...


@runtime_checkable
class RenewingAsync(AsyncPort, Protocol):
    """The same, async."""

    async def send_while(self, round: Round, against: AgainstAsync) -> Sequence[Reply]: ...


@runtime_checkable
class Holding(Protocol):
    """A port that is told what a store keeps up (`Engine.upkeep`): from then on, requests are refused with a
    DesignMismatchError if the database no longer has that on record."""

    def hold(self, upkeep: str) -> None: ...


@runtime_checkable
class HoldingAsync(Protocol):
    """The same, async."""

    async def hold(self, upkeep: str) -> None: ...


@dataclass(frozen=True)
class Catalog:
    """What exists on the server: the hash of the design recorded there, the lock text, and the engine's own facts.

    Without any facts, nothing exists: an embedded database is not there yet."""

    design_hash: str | None = None
    lock: str | None = None
    found: Mapping[str, Any] = field(default_factory=dict)
    unfinished: str = ""
    """Why nothing may be opened there for now, and what to do: an `apply` has not come to its end."""


UNFINISHED = (
    "an 'apply' has not come to its end here: wait for it, or run 'keyplan apply' again, with its design or another"
)
OTHER_DESIGN = (
    "a design that keeps other things was applied since the store was opened; open it again, with the model of that one"
)
MAY_LACK = "rows of '{rows}' may lack '{field}', which every row has in this design; leave it optional, or {remedy}"
"""Why a design is refused in which an optional field has become one that every row has."""
GONE = "its rows are gone"
LEFT_OUT = "'keyplan verify --repair' fills it"
"""What a step says of a place that was there and is not, a home or another."""


class RowsCameError(ConflictError):
    """What had no rows when the steps of `apply` were worked out has some now; nothing was done, and they have to be
    worked out anew."""

    def __init__(self, what: str) -> None:
        super().__init__(f"rows have come into {what} since it was looked at; look at it again")


class Change(ABC):
    """One step of `apply`."""

    summary: str
    destructive: bool = False
    fault: str = ""
    """What is wrong if a server that holds the design needs this step, such as 'index x is missing'."""
    is_place: bool = False
    """Whether that is a place of entries, without which nothing can be read there."""
    is_home: bool = False
    """Whether it is the home of rows, which the step does not bring back."""
    only_said: bool = False
    """Whether it does nothing, and only says what is left as it is."""
    only_looks: bool = False
    """Whether it changes nothing, and may end in an error if something is other than it was seen to be."""
    all_or_nothing: bool = False
    """Whether it has done nothing where the server refuses it."""
    announces: bool = False
    """Whether it has the record say that something is about to change which open stores use: before the next step, they
    have to have noticed."""
    claims: bool = False
    """Whether it makes the database one's own to change. What was seen before counts no more, since others may have
    been at work until then: the database is looked at again."""
    takes_away: bool = False
    """Whether it takes away what stores of the design on record use, as soon as another one is recorded."""
    fills: tuple[str, ...] | None = None
    """Of the last, which records the design: the views to be filled before it; None where they follow from the designs
    alone."""
    fresh: tuple[str, ...] = ()
    """Of the last: those of them that nothing stands in yet, not even what an attempt has left."""
    at_once: bool = False
    """Of the last: it does all of them in one transaction, and what fills views with it, so that nobody sees anything
    in between."""
    doubted: tuple[str, ...] = ()
    """Of the last: views to be filled besides, since an `apply` that was cut off may have filled them otherwise."""
    waits: bool = True
    """Whether stores that have the database open are given the time to notice."""
    hears: Callable[[str], None] | None = None
    """Whoever wants to know how far a long step has come."""

    @abstractmethod
    def run(self) -> Proc[None]: ...

    def unsettle(self, views: Sequence[str]) -> Proc[None]:
        """Of the last: notes that views are about to be filled, these of them where the design on record has others, so
        that nobody opens it until a design is recorded."""
        return
        yield

    def follows(self, claimed: Change) -> None:
        """Of the last, where one before it `claims`: raises a ConflictError if somebody else has claimed the database
        since that was done, before the last one of the look before this."""
        raise NotImplementedError

    def is_behind(self, there: Catalog) -> bool:
        """Of the last, where a step was refused: whether others who apply the same design have gone on meanwhile to
        what comes next, so that the steps are to be worked out anew, from what is there now."""
        return False

    def resumes(self, claimed: Change) -> None:  # noqa: B027
        """Of the last, where one before it `claims`: the same was claimed before with this one, by the same process,
        which has changed nothing since and begins anew."""

    def withdraw(self) -> Proc[None]:
        """Of the last, where one before it `claims`: takes that back, if nothing else was done, and nothing else was
        under way before."""
        return
        yield

    def filled(self, fill: Then) -> Proc[None]:
        """Of the last: does what fills views before it; or, if it is all `at_once`, has it done then."""
        yield from fill()

    def guarded(self, codec: Codec) -> Codec:
        """Of the last: the codec by which views are filled before it, which writes nothing more once somebody else has
        gone on to apply a design, or has come to the end of it; unless it is all `at_once`."""
        return codec

    def told(self, progress: str) -> None:
        """Says how far a long step has come."""
        if self.hears is not None:
            self.hears(progress)


@dataclass(frozen=True)
class Access:
    """A search as a line of an access-pattern table."""

    operation: str
    condition: str
    index: str


@dataclass(frozen=True)
class Kind:
    """What a kind of structure can do."""

    name: str
    ordered: bool = True
    """Entries of a partition are sorted by the sort key and can be read by range, in both directions."""
    kept_by_engine: bool = False
    """The engine maintains it from the entries of its base view."""
    composed: bool = False
    """Kept by the engine, but its key attributes are composed by us, so a change of one part needs the others."""
    local: bool = False
    """Kept by the engine over a view of ours with the same partition, as another order of its entries."""
    strong: bool = True
    """Can be read with strong consistency."""
    gets: bool = True
    """Entries can be asked for by their keys, many in one request; otherwise each is a range of one."""
    holds_all: bool = False
    """Every stored column of the row can be had through it, at the price of a further lookup inside the engine."""
    inside: bool = False
    """Kept by the engine over rows that are embedded in others: such a view needs an embed as its base, whose order
    its key ends with. Paths behind the reference to the owner are no copies there, but its own columns."""
    covers: bool = False
    """With `holds_all`: a key that goes on with all columns that are wanted spares that lookup."""
    copies: bool = False
    """Kept by the engine with `holds_all`: copies that the base entry carries can be had through it, too."""
    partitioned: bool = True
    """Reads have to fix the whole partition key (False: the parts are one sorted sequence, as in a B-tree)."""
    embeds: bool = False
    one_value: bool = False
    """An entry and the rows that it embeds are one value, a document: written together they are one change, and the
    engine keeps no index of the embedded rows alone."""
    families: bool = False
    """With `embeds`: only for rows and their children beside them, each an entry of its own, one after the other under
    the parent's key. Other views of ours are of other kinds. One read brings a row with its children, and no more of
    these than are wanted (`first_along`)."""
    first_along: bool = False
    """With `embeds`: one read brings a row with its children of one role, and no more of these than are wanted where
    they follow their parent (`plan.children.leading`) in the order in which they are."""
    packs: bool = False
    """All entries of a partition can be one stored value (`View.packed`): the readings of a sensor in an hour as one
    document. Every read has to fix the whole partition, `partitioned` or not.

    The store does not know the difference: spans and edits are of entries under their keys, as everywhere. A reader
    takes the values of the partitions that its spans name and cuts the entries of each span out of them, in the order
    of the sort key and up to the limit; a scan reads all values. A write changes entries inside a value in one atomic
    request, in place where the engine can, or else by writing the value anew if its version is still the one that was
    read. `expect` and `tests` are about the entry inside; several edits of one request may meet in one value, which
    comes to be with its first entry and goes with its last."""
    subsets: bool = False
    """With `embeds`: only the first so many rows can be kept with their parent (`Embed.limit`). See `Edit` for what the
    engine does then, all of it in one atomic change."""
    measures: tuple[str, ...] = ()
    """The aggregates that a view of this kind can keep per group: of count, sum, min, max."""
    totals: bool = False
    """Kept by the engine with the values of a packed view, whose partition is its key: the measures of the entries of
    each value, exact after every write of one of them."""
    unique: bool = False
    """Can refuse a second entry with the same parts."""

    @property
    def is_servers(self) -> bool:
        """Whether the server keeps it from the stored values, whoever writes them."""
        return self.kept_by_engine and not (self.composed or self.totals)


def composed_keys(
    views: Iterable[View], kinds: Mapping[str, Kind], base: str, entity: str
) -> tuple[frozenset[str], ...]:
    """What each key is made of that we compose for the engine's own views over a base view."""
    return tuple(
        frozenset(
            {path for part in view.parts for path in (part.path, *part.also) if path}
            | {str(path) for condition in view.where for path in (condition.path, *condition.also)}
        )
        for view in views
        if view.base == base and view.entity == entity and kinds[view.kind].composed
    )


class Engine(ABC):
    """A database that keyplan designs for and runs on; stateless, and pure but for `connect`."""

    name: str
    schemes: tuple[str, ...]
    extra: str = ""
    kinds: Mapping[str, Kind]
    formats: tuple[str, ...] = ()
    embedded: bool = False
    """A database of the application's own, which may be designed and applied when it is opened for the first time."""
    leases: bool = False
    """Open stores look at the record from time to time, and `apply` waits for them (`lease.py`); otherwise ports see
    for themselves (`Holding`), or nothing but this process can reach the database."""
    tells_requests: bool = False
    """A write is one request, which `request_words` tells."""

    @abstractmethod
    def costs(self, model: Model) -> CostModel:
        """Fit, costs, couplings and latencies for this model's `targets`."""

    @abstractmethod
    def pack(self, model: Model, views: Sequence[View], settings: Mapping[str, Any]) -> tuple[Structure, ...]: ...

    def kept_apart(
        self,
        model: Model,
        views: Mapping[str, View],
        structures: Sequence[Structure],
        shares: Mapping[str, Share],
        before: Mapping[str, tuple[Structure, str]],
    ) -> tuple[tuple[Structure, ...], tuple[Finding, ...]]:
        """The structures that `pack` made, in which no place is too hot by several views together; and where one is.

        `shares` is what each view takes of its hottest place alone; `before` says of views that are kept in which
        structure each was, and its name there, where it stays: in a structure of the same name, if it has one."""
        return tuple(structures), ()

    def findings(self, model: Model, design: Design) -> tuple[Finding, ...]:
        """What the engine says about a finished design: quotas, mostly."""
        return ()

    @abstractmethod
    def emit(self, model: Model, design: Design, to: str) -> Mapping[str, str]:
        """Format -> {file name: text}."""

    @abstractmethod
    def codec(self, model: Model, design: Design) -> Codec: ...

    @abstractmethod
    def inspect(self, model: Model, design: Design) -> Proc[Catalog]: ...

    def glance(self, model: Model, design: Design) -> Proc[Catalog]:
        """As `inspect`, but only what opening takes: whether something is there, which design, and whether it may be
        opened."""
        return self.inspect(model, design)

    @abstractmethod
    def changes(self, model: Model, design: Design, lock: str, found: Catalog) -> tuple[Change, ...]: ...

    def absent(self, found: Catalog) -> str | None:
        """That there is nothing at all under the name in the URL, not even an empty table; None if something is."""
        return None

    def lost(self, found: Catalog) -> str | None:
        """The home of rows that the recorded design has, and the server has not: somebody dropped it, rows and all."""
        return None

    def upkeep(self, model: Model, design: Design) -> str:
        """What open stores have to agree on; it is recorded with the design."""
        return upkeep_hash(model, design, lambda view: not self.kinds[view.kind].is_servers)

    def look(self, upkeep: str) -> Proc[Held]:
        """With `leases`: whether a store may go on that keeps this up, by what the record says now."""
        raise NotImplementedError

    def is_read(self, request: Request) -> bool:
        """With `leases`: whether a request changes nothing."""
        raise NotImplementedError

    def stale(self, model: Model, design: Design) -> Proc[Sequence[Change]]:
        """Steps for structures that are there as designed, but do not hold what the engine should keep in them."""
        yield from ()
        return ()

    @abstractmethod
    def connect(self, url: str, model: Model, design: Design | None) -> Port: ...

    @abstractmethod
    def connect_async(self, url: str, model: Model, design: Design | None) -> AsyncPort: ...

    def lacks(self, url: str) -> str | None:
        """The name of an embedded database that is not there, so that connecting would create it; else None."""
        return None

    def scratch(self, url: str) -> AbstractContextManager[str]:
        """The URL of a place to measure in; an embedded database is spared, and another one of the same kind is made
        for a while."""
        return nullcontext(url)

    def request_words(self, model: Model, design: Design, writes: Sequence[Write], edits: Sequence[Edit]) -> str:
        """The request by which these edits of some writes are sent, in the engine's own words, with templates in place
        of values."""
        return ""

    @abstractmethod
    def words(
        self, model: Model, design: Design, search: Search, first: int | None = None, *, strong: bool = False
    ) -> str:
        """A search in the engine's own words, with `:parameters` in place of values; only so many entries of it are
        asked for at first where `first` is given. Whether it is `strong` is said where requests say so."""

    def stored_keys(self, model: Model, design: Design) -> Mapping[tuple[str, tuple[str, ...]], tuple[str, str]]:
        """Partition and sort key as they are stored, by view and the roles that lead to rows inside it, with `{paths}`
        in place of values; none where the parts of keys are stored one by one."""
        return {}

    def edit_words(self, model: Model, design: Design, write: Write, touch: Touch) -> str:
        """What a write does to an entry of a view, in the engine's own words; empty if the engine does it itself."""
        return ""

    def access(self, model: Model, design: Design, search: Search, *, many: bool) -> Access | None:
        """A search in short, where the engine has a usual form for it; `many`: for several rows at once."""
        return None

    def calibrate(self, told: Callable[[float], None]) -> Proc[Calibration]:
        """Measures a live server for the cost model, and leaves nothing behind there; `told` hears how far it is."""
        raise UnsupportedError(f"{self.name}: there is nothing to measure")
