"""Plans: trees of steps that answer a pattern. `store/reading/execute.py` runs them; nothing else does.

Rows flow upwards as flat dicts from path to value: own columns (`total`), values behind to-one roles
(`user.name`), and lists of child rows under their to-many role (`items`).

A plan is a tree of these nodes:

    Search      entries of one view                                     (the only node that sends requests)
    Extend      adds values from other rows to each row, and what its children tell of it, then filters
    Drive       runs `inner` once per row of `outer`, and joins up the answers
    Intersect   rows that all parts have, by key
    Then        rows that have a column, in its order, before those that lack it
    Windows     measures of whole stretches of time, and the rows of those that a range cuts
    Fold        groups and aggregates
    Beside      aggregates over the same rows that are found apart
    Owned       aggregates over the rows that refer to one row, as that row keeps them

Conditions inside a nested plan take values of the row it runs for through `Outer(path)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyplan.model.pattern import Compute, Condition, Group, Order, Select


@dataclass(frozen=True)
class Search:
    """Entries of one view, or of one embed inside it.

    `given` are the conditions that the key answers: `=` or `in` on every partition part (shards and, where `given`
    has a range on the same path, truncations are enumerated), `=` or `in` on a prefix of the sort parts, then at most
    one range (< <= > >= between begins_with) on the next part. `filter` is tested on each entry.
    A view with a `where` implies those conditions; they appear neither in `given` nor in `filter`.
    """

    view: str
    at: tuple[str, ...] = ()
    """The to-many roles that lead to the embed."""
    given: tuple[Condition, ...] = ()
    filter: tuple[Condition, ...] = ()
    takes: tuple[str, ...] = ()
    """The paths wanted of each entry, those that `filter` and `order` need included."""
    along: Mapping[str, Select] = field(default_factory=dict)
    """Embedded children wanted with each entry, by role."""
    descending: bool = False
    order: tuple[Order, ...] = ()
    """The total order (ending with the entity's key) in which the sort key delivers the entries, several
    partitions merged. Empty: no order is promised, and whoever needs one sorts."""


@dataclass(frozen=True)
class Attach:
    """What `Extend` adds: the answer of `plan` for each row.

    To-one: the answer's first row, its paths prefixed with `role`. To-many: the list of rows under `role`.
    """

    role: str
    """A dotted chain of roles from the row; the last one may be to-many, then `many` is set."""
    plan: Node
    many: bool = False
    under: tuple[str, ...] = ()
    """To-many roles already present in the row, whose child rows are extended instead of the row itself."""
    order: tuple[Order, ...] = ()
    """To-many: the order of the children (total, ending with their key)."""
    limit: int | None = None
    early: bool = False
    """The plan's conditions do not depend on the row, so that it runs in the same rounds as the rows themselves;
    there is at most one row then."""
    beyond: int | None = None
    """To-many: rows have children under `role` already, all of them if they are fewer than so many. The plan runs for
    the other rows alone, and its answer takes the place of what they have."""
    if_gone: bool = False
    """The plan runs after the others, and only for rows for which one of them looked for a row behind `role` and found
    none: it tells what is computed of such a row by its key."""


@dataclass(frozen=True)
class Tell:
    """Computed columns of a row that all its children tell, which came with it under `role`."""

    role: str
    """A dotted chain of roles from the row; the last is to-many, and what is told is of the row before it."""
    compute: tuple[Compute, ...]
    under: tuple[str, ...] = ()
    """As of `Attach`."""
    reference: tuple[str, ...] = ()
    """Columns of the row that lead to the one of which it is told; where they are missing, that is missing too."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What is told, as seen from the row."""
        above = self.role.rpartition(".")[0]
        return tuple(f"{above}.{one.name}" if above else one.name for one in self.compute)


@dataclass(frozen=True)
class Extend:
    """Rows with values of other rows added; all attachments of one Extend run in the same rounds, but for what is done
    for rows that turn out to be gone."""

    rows: Node
    adds: tuple[Attach, ...]
    filter: tuple[Condition, ...] = ()
    tells: tuple[Tell, ...] = ()
    """What is known when everything is added, inner children first."""


@dataclass(frozen=True)
class Drive:
    """The rows of `inner` for every row of `outer`, each row once.

    `ordered`: the outer rows come in the order of the answer and `inner` reads by key, so that a page needs no more
    outer rows than it has rows.

    Where `outer` searches a view with measures whose key ends in a truncated moment, it is a directory of time
    buckets: `inner` takes the bucket from it as `Outer("day(at)")`, and everything else from the row that the whole
    Drive runs for.
    """

    outer: Node
    inner: Node
    ordered: bool = False
    ahead: float = 1.0
    """`ordered`: how many outer rows lead to one row on average, so that a page of rows is found at once."""


@dataclass(frozen=True)
class Intersect:
    """The keys of an entity's rows that every part finds: rows of it, or children that refer to it."""

    entity: str
    parts: tuple[Node, ...]
    keys: tuple[tuple[str, ...], ...]
    """Per part: the columns of its rows that hold the entity's key."""


@dataclass(frozen=True)
class Then:
    """The rows of `first`, then those of `second`: rows that have `column`, in its order, before those that lack it.

    `column` may be a path through references. Both are ordered; `second` is read only when `first` has no more, and
    need not take the column, which is missing there.
    """

    first: Node
    second: Node
    column: str


FIRST, UNTIL, WINDOW = "$first", "$until", "$window"
"""What the parts of `Windows` are told of the range, as values of the row that they run for."""


@dataclass(frozen=True)
class Windows:
    """Entries for a `Fold` that merges measures: of the windows of time that lie wholly in a range as a view keeps
    them, of those that the range begins or ends in one for each row.

    Where rows expire one by one, what is kept of a window is right until its first row has: from then on its rows are
    read as well.
    """

    path: str
    """The moment that the range is of."""
    cut: str
    """What it is cut to: the length of a window."""
    range: tuple[Condition, ...]
    whole: Search
    """The measures of the windows from `Outer(FIRST)` on and before `Outer(UNTIL)`; what has no end is not told."""
    edges: Node
    """The rows of the window `Outer(WINDOW)`."""


@dataclass(frozen=True)
class Fold:
    """Aggregates over rows, or over the entries of a view with measures (`merged`)."""

    rows: Node
    group: tuple[Group, ...]
    compute: tuple[Compute, ...]
    merged: bool = False


@dataclass(frozen=True)
class Beside:
    """Aggregates of one row each, without groups, put together to one row; all of them run in the same rounds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Owned:
    """Aggregates without groups over the rows that refer to one row, which has them in computed columns. Rows may refer
    to one that is not there: then the aggregates are found by `instead`."""

    row: Node
    columns: tuple[tuple[str, str], ...]
    """The names of the aggregates, each with the column of the row."""
    instead: Node


Node = Search | Extend | Drive | Intersect | Then | Windows | Fold | Beside | Owned


@dataclass(frozen=True)
class Figures:
    """What one call is expected to take; means, but for `p99_ms`."""

    requests: float = 0.0
    trips: int = 0
    rows: float = 0.0
    bytes: float = 0.0
    units: Mapping[str, float] = field(default_factory=dict)
    """In the engine's own units: {'read units': 0.5}."""
    cost: float = 0.0
    """Per call, in the objective's unit."""
    p99_ms: float = 0.0


@dataclass(frozen=True)
class Plan:
    """How a pattern is answered."""

    node: Node
    entity: str
    order: tuple[Order, ...] = ()
    """The total order of the answer, key included; empty if the pattern has none."""
    sorted: bool = False
    """`node` delivers `order` by itself, so that a page needs no more than its own rows."""
    figures: Figures = Figures()
    steps: tuple[Mapping[str, object], ...] = ()
    """The steps for people and for the design document, with requests and rows each."""
    target: Node | None = None
    """rank: finds the row whose rank is asked for; `node` gives the rows among which it is ranked."""


@dataclass(frozen=True)
class Touch:
    """One view's part of a write."""

    view: str
    puts: float = 0.0
    deletes: float = 0.0
    units: Mapping[str, float] = field(default_factory=dict)
    cost: float = 0.0
    edit: str = "put"
    """What is done to most entries: put (new, or whole ones replaced), patch, move, delete, add (to a group)."""
    at: tuple[str, ...] = ()
    """The roles that lead to the embed whose entries are meant."""
    p99_ms: float = 0.0
    """Of this part alone; all parts of a write are done together."""


@dataclass(frozen=True)
class WritePlan:
    """How a write is done."""

    touches: tuple[Touch, ...] = ()
    find: Node | None = None
    """Finds the rows of a `where` that does not name the key (whole rows, strongly read)."""
    reads_row: bool = False
    """The old row is read before the write."""
    how: str = "atomic"
    figures: Figures = Figures()
    steps: tuple[Mapping[str, object], ...] = ()
