"""The design-time half of the engine contract: what work costs, and which views are possible.

The designer describes work in engine-free figures; an engine's `CostModel` prices it. A cost may be any function
(rounding, pages, shards) of one view, one (write, view) or one (need, view); whatever couples two views is a row of
`couplings`, a demanded need, or what one view `adds` to the size of another, so that the program stays linear.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from keyplan.model.pattern import Traffic
from keyplan.model.types import Type
from keyplan.model.values import average_bytes
from keyplan.plan.view import View

SLOW_SHARE = 0.01
"""What fewer executions than these take is not in a p99."""


@dataclass(frozen=True)
class Rejection:
    """Why something is not possible."""

    reason: str
    path: str = ""
    """The part of a key that is why, if it is one alone."""


@dataclass(unsafe_hash=True, slots=True)
class Cost:
    """What one execution of some work takes."""

    cost: float = 0.0
    """In the cost model's unit times seconds: the objective multiplies it by a rate per second."""
    units: Mapping[str, float] = field(default_factory=dict)
    p99_ms: float = 0.0
    requests: float | None = None
    """What is sent for it, where that is not one request per search: batches, pages."""
    trips: int = 1
    """How many of them wait for each other."""

    def times(self, many: float) -> Cost:
        """The cost of many executions at once, which wait for each other no longer than one."""
        if many == 1:
            return self
        units = {unit: amount * many for unit, amount in self.units.items()}
        return Cost(self.cost * many, units, self.p99_ms, self.requests, self.trips)

    def share(self, share: float) -> Cost:
        """The mean cost where only this share of the executions takes it; the slow ones are among them, if they are
        more than one in a hundred."""
        units = {unit: amount * share for unit, amount in self.units.items()}
        return Cost(self.cost * share, units, self.p99_ms if share >= SLOW_SHARE else 0.0, self.requests, self.trips)


@dataclass(unsafe_hash=True)
class ViewFacts:
    """Statistics of one view; means for cost, the hottest and largest for feasibility."""

    rows: float
    """Entries, those of embeds not included."""
    partitions: float
    key_bytes: float
    """Average bytes of the values of all key parts of one entry."""
    value_bytes: Mapping[str, float]
    """Average bytes per path held, weighted with the share of rows that have it."""
    most_entry_bytes: float
    """The largest an entry can become by the types' limits; inf where nothing bounds it."""
    hottest_rows: float
    """Entries of the largest partition."""
    hottest_writes: float
    """Peak entries written per second in the hottest partition; one that moves is taken away and put."""
    hottest_reads: float
    """Peak requests per second for the same entries, of the hottest pattern that may use the view."""
    embeds: Mapping[str, EmbedFacts] = field(default_factory=dict)
    """Per dotted role chain."""
    hottest_share: float = 0.0
    """The share of the entries that the largest partition holds."""
    row_bytes: float = 0.0
    """Average bytes of a whole row of the entity."""
    carried: Mapping[str, float] = field(default_factory=dict)
    """Per path behind references that the home of a row holds for the sake of this view: average bytes."""
    carried_bytes: float = 0.0
    """Those of the homes of all rows."""
    hottest_together: float = 0.0
    """Those of the hottest writes that come with a write of something else: of another entity's row, whose values are
    kept here, or of another entry of the same row."""
    partition_bytes: float = 0.0
    """Those of the key's average bytes that are of the partition."""

    @property
    def per_partition(self) -> float:
        """The mean number of entries of a partition."""
        return max(1.0, self.rows / self.partitions)


@dataclass(frozen=True)
class EmbedFacts:
    """Statistics of child rows stored with their parent."""

    per_parent: float
    most_per_parent: float
    key_bytes: float
    value_bytes: Mapping[str, float]
    hottest_writes: float = 0.0
    """Peak entries written per second with the hottest parent."""
    hottest_together: float = 0.0
    """Those of them that come with a write of another row."""


@dataclass(unsafe_hash=True)
class Work:
    """One Search: so many requests (independent of each other), each reading so many entries of one view."""

    view: View
    facts: ViewFacts
    get: bool
    """Every part of the key is given: at most one entry per request, and requests may be batched."""
    requests: float
    entries: float
    """Entries read per request, before any filter. Of a packed view, a request reads one value: all entries of a
    partition, though it be a `get`."""
    most_entries: float
    """The most entries one request may have to read."""
    entry_bytes: float
    """Average bytes of an entry as the engine stores it (from `CostModel.entry_bytes`)."""
    strong: bool = False
    covered: bool = True
    """Everything taken is held by the view itself (kinds with `holds_all` pay a lookup otherwise)."""
    scan: bool = False
    at: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    """Embedded role chains read along."""
    varies: bool = False
    """The number of entries differs from call to call; otherwise it is a full page, or one entry."""
    taken_bytes: float = 0.0
    """Average bytes of the values wanted of each entry, for engines that do not read whole entries."""
    rounds: float = 1.0
    """So many rounds of requests may have to follow each other, as where time buckets are walked until a page is full.
    An engine prices one of them; the designer multiplies the latency."""
    first: float = 0.0
    """Where a filter thins out a page: the entries asked for first, then twice as many each time; 0: all at once."""
    fixed: int = 0
    """Of the key just so many parts are given, each one value, and all entries under them are wanted: an engine may
    look up several such values by one request. 0: there is a range, or a limit."""
    along_first: float | None = None
    """Only so many of each entry's rows along are read, the first ones in their order (kinds with `first_along`)."""
    keyed: bool = False
    """Everything taken is in the key itself, as it is."""
    larger: Mapping[str, float] = field(default_factory=dict)
    """Bytes that entries have besides, for other views: per chain of `along`, or the empty text for the entries
    themselves."""

    def of(self, requests: float) -> Work:
        """The same with another number of requests; `replace` takes longer, and this is done thousands of times."""
        found = object.__new__(Work)
        found.__dict__.update(self.__dict__, requests=requests)
        return found


@dataclass(unsafe_hash=True)
class TouchWork:
    """What one execution of a write does to one view.

    Of a packed view, each entry touched is a change of a value with `facts.per_partition` entries, which the engine
    prices as it does it: an append, a change in place, or the whole value written anew.
    """

    view: View
    facts: ViewFacts
    puts: float = 0.0
    """Entries written (new, or whole entries replaced)."""
    patches: float = 0.0
    """Entries changed in place."""
    moves: float = 0.0
    """Entries whose key changes: a delete and a put."""
    deletes: float = 0.0
    adds: float = 0.0
    """Entries of a view with measures that are added to."""
    checks: float = 0.0
    entry_bytes: float = 0.0
    at: tuple[str, ...] = ()
    inside: bool = False
    """Embedded rows of a kind with `one_value` whose entry is written by the same call anyway."""


@dataclass(frozen=True)
class Load:
    """What a pattern or write of the finished design takes per call, and how often it is called."""

    name: str
    traffic: Traffic
    units: Mapping[str, float]


@dataclass(frozen=True)
class Share:
    """What all calls take of the hottest place of one view, as shares of what a place takes at the peak."""

    reads: float = 0.0
    writes: float = 0.0


@dataclass(frozen=True)
class LinearRow:
    """low <= sum(coefficients[name] * x) <= high over view names and the engine's own extra variables."""

    coefficients: Mapping[str, float]
    low: float = float("-inf")
    high: float = float("inf")


@dataclass(frozen=True)
class Couplings:
    """What an engine adds to the program."""

    variables: Mapping[str, tuple[float, float, bool]] = field(default_factory=dict)
    """Extra variables: name -> (cost per second, upper bound, integer)."""
    rows: Sequence[LinearRow] = ()
    worth: Mapping[str, float] = field(default_factory=dict)
    """Extra variables: the share of what the whole design costs at least that one more of it has to save."""
    several: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Extra variables that cost nothing and are one where a design has two or more of these views, else nothing. Rows
    never ask for one of them: they hold all the more where it is nothing."""

    @cached_property
    def rows_of_views(self) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Per view: the numbers of the rows that it stands in, and its coefficients there."""
        found: dict[str, list[tuple[int, float]]] = {}
        for number, row in enumerate(self.rows):
            for name, weight in row.coefficients.items():
                if name not in self.variables:
                    found.setdefault(name, []).append((number, weight))
        return found

    @cached_property
    def variables_of_rows(self) -> Sequence[Sequence[str]]:
        """Per row: the extra variables in it."""
        return [[name for name in row.coefficients if name in self.variables] for row in self.rows]

    @cached_property
    def rows_of_none(self) -> Sequence[int]:
        """The numbers of the rows that say something even where none of their views is chosen: all others hold then,
        whatever the variables are, and ask nothing of these."""
        return [
            number
            for number, (row, names) in enumerate(zip(self.rows, self.variables_of_rows, strict=True))
            if row.low > float("-inf")
            or row.high < 0
            or len(names) > 1
            or any(row.coefficients[name] > 0 for name in names)
        ]


class CostModel(ABC):
    """Prices work for one model on one engine."""

    unit: str
    """What the objective counts: 'USD/month', 'server ms/s'."""
    per_second: float = 1.0
    """Objective = cost per execution x executions per second x this (seconds of a month for money)."""
    atomic_entries: int | None = None
    """The most entries that one atomic request can write; None: no limit."""
    atomic_most: int | None = None
    """The same, where nothing is left for checks of other rows and for an intent."""
    atomic_bytes: float | None = None
    """The most bytes of one atomic request; None: no limit that calls come near."""
    partition_bytes: float | None = None
    """The most bytes that a partition should hold; None: no limit. A view whose largest partition would hold more gets
    shards or the largest time bucket that keep it within, or is no candidate."""
    copy_worth: float = 0.01
    """The share of what the whole design costs at least that a further copy of an entity's rows has to save."""
    packed_bytes: float | None = None
    """The most bytes that a packed value should hold; None: nothing is packed. Only kinds with `packs` are."""
    returns_together: bool = True
    """Rows are returned by a request that writes several entries; otherwise they are read first, and tested."""
    extends: bool = True
    """Minima and maxima of groups are extended by the write itself; otherwise each group is read before."""
    transactional: bool = False
    """A write that touches more than one self-kept entry pays a `premium` for each of them (a transaction)."""
    goes_on: bool = False
    """What has begun to copy from a row is looked for within the write that changes it, which so is a transaction."""

    @abstractmethod
    def fit(self, view: View, facts: ViewFacts) -> View | Rejection:
        """The view with the shards it needs, or why it is not possible."""

    @abstractmethod
    def entry_bytes(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        """Average stored bytes of one entry, overheads included."""

    def field_bytes(self, path: str, type: Type) -> float:
        """Average bytes of a value that is there, as an entry holds it under its path."""
        return average_bytes(type)

    def part_bytes(self, type: Type, cut: str | None) -> float:
        """Average bytes of a value, or of what it is cut to, as a part of a key."""
        return average_part_bytes(type, cut)

    def adds(self, view: View, facts: ViewFacts) -> float:
        """Bytes that the homes of all rows have for the sake of this view, besides the values that they hold."""
        return 0.0

    def holds_added(self, view: View) -> bool:
        """Whether the entries of a view have all that the homes of their rows have, for other views included."""
        return False

    def keep_more(self, size: float) -> float:
        """What storing so many more bytes costs, in the objective's unit."""
        return 0.0

    @abstractmethod
    def read(self, work: Work) -> Cost: ...

    @abstractmethod
    def touch(self, work: TouchWork) -> Cost:
        """Not transactional; the designer adds the premium."""

    def premium(self, work: TouchWork, cost: Cost) -> Cost:
        """What a transaction adds for work that costs so much outside of one: as much again."""
        return cost

    @abstractmethod
    def keep(self, view: View, facts: ViewFacts) -> float:
        """Storage, in the objective's unit (already per month or per second)."""

    def couplings(self, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Couplings:
        """Rows such as 'at most 20 indexes'."""
        return Couplings()

    def read_with(self, view: View, roles: Sequence[str]) -> tuple[str, ...]:
        """The embedded roles whose rows a read along with some roles brings, wanted or not."""
        return tuple(roles)

    def round_ms(self, kind: str) -> float:
        """The expected p99 of one round trip of that kind, for latency budgets."""
        return 0.0

    def scans(self, facts: ViewFacts, entries: float) -> bool:
        """Whether a pattern may read so many entries of a view without any condition on its key."""
        return False

    def variants(self, view: View, facts: ViewFacts) -> Sequence[View]:
        """Further forms of a view that fits: copies of hot entries, for one."""
        return ()

    def warnings(self, view: View, facts: ViewFacts) -> Sequence[str]:
        """What is doubtful about a chosen view: what is wrong, a semicolon, what to do."""
        return ()

    def heat(self, work: Work, per_second: float) -> float:
        """The share of what one place can take that a search takes, done so often there; above 1 is too hot."""
        return 0.0

    def too_hot(self, work: Work, per_second: float) -> str:
        """Why a search cannot be done so often at the same place; empty if it can."""
        return ""

    def written(self, view: View, facts: ViewFacts) -> float:
        """The share of what one place can take that is written to the hottest one of a view; above 1 is too hot."""
        return 0.0

    def settings(self, loads: Sequence[Load]) -> Mapping[str, object]:
        """The engine's global choices for a design, such as a billing mode."""
        return {}

    carries: bool = False
    """Engine-kept views can only hold what their base entry carries; the base then pays for copies too."""


def average_part_bytes(type: Type, cut: str | None) -> float:
    """Average bytes of a value, or of what it is cut to, in the most compact form."""
    if cut == "each" and type.of is not None:
        return average_bytes(type.of)
    return {None: average_bytes(type), "words": 8.0}.get(cut, 10.0)


def total(costs: Iterable[Cost]) -> Cost:
    """Costs one after the other."""
    cost = 0.0
    units: dict[str, float] = {}
    p99 = 0.0
    for item in costs:
        cost += item.cost
        p99 += item.p99_ms
        for name, amount in item.units.items():
            units[name] = units.get(name, 0.0) + amount
    return Cost(cost, units, p99)
