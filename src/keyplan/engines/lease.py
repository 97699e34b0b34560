"""How stores and `apply` keep out of each other's way on servers where testing the design in every write costs money
or time.

A store looks at the record of the design when it is opened, and believes what it has seen for `TERM` seconds; then it
looks again, before it sends the next request. What a port repeats or completes by itself is such a request, too.
Whoever applies a design that changes what open stores use says so in the record, waits for `TERM` and `GRACE`, and only
then changes anything. So no request of the old design is sent when the new one is being made.

Time is that of `elapsed.py`: a machine that sleeps, a process that is stopped and a clock that is set change nothing of
this. An answer that took too long to come is not believed, but asked for again. `GRACE` is for requests that were on
their way. One that was made, and whose process then stands still for longer before it leaves the machine, is not
covered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from keyplan.engines.rounds import Pause, Proc

TERM = 20.0
GRACE = 40.0
_STEP = 5.0


@dataclass(frozen=True)
class Held:
    """What the record says to a store: why it must not go on, or must not write; empty where it may."""

    stop: str = ""
    stop_writes: str = ""


def until_noticed(told: Callable[[str], None]) -> Proc[None]:
    """Waits until every open store has looked at the record."""
    left = TERM + GRACE
    while left > 0:
        told(f"waiting {left:.0f} s until every open store has noticed")
        yield Pause(min(left, _STEP))
        left -= _STEP
