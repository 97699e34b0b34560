"""What turns spans and edits into an engine's requests, and its replies into rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from keyplan.engines.rounds import Key, Proc, Reply, Request, Row, Then
from keyplan.engines.unreadable import UnreadableError
from keyplan.errors import UnsupportedError
from keyplan.plan.edits import Edit, Puts
from keyplan.plan.steps import Search


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
        """Decodes a reply; one that is an error is raised. Rows are flat dicts with exactly the Search's `takes`
        (missing is None) and lists of child rows under each role of `along`."""

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
