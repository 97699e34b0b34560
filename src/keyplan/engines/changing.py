"""What exists on a server, and the steps that `apply` takes to change it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.codec import Codec
from keyplan.engines.rounds import Proc, Then
from keyplan.errors import ConflictError


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
