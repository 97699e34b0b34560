"""What an engine is: the contract that everything else is written against.

The design-time half (kinds, fit, costs, pack) is data and pure functions; the run-time half is a codec (`codec.py`),
which turns spans and edits into requests and replies into rows, a port (`ports.py`), which sends requests and is the
only thing that knows the driver, and the steps of `apply` (`changing.py`). All of them speak in rounds (`rounds.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyplan.engines.changing import Catalog, Change
from keyplan.engines.codec import Codec
from keyplan.engines.ports import AsyncPort, Port
from keyplan.engines.rounds import Proc, Request
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Design, Finding, Structure
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search, Touch
from keyplan.plan.upkeep import upkeep_hash
from keyplan.plan.view import View

if TYPE_CHECKING:
    from keyplan.engines.calibration import Calibration
    from keyplan.engines.lease import Held
    from keyplan.engines.work import CostModel, Share


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
