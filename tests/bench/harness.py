"""How speed is compared here: small blocks of both sides in turn, the median of paired ratios, and a control.

A machine that does other things as well is slow now and fast then, so that two long runs say little about each other.
Blocks of a few milliseconds that follow each other meet the same machine; their ratio is taken pair by pair, and the
median of many ratios does not care about the pairs that were disturbed. The rival runs twice per round: its two blocks,
compared in the same way, are the control, which would be 1.00 on a quiet machine. A comparison whose control leaves
0.9 to 1.1 says so and is not reported.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

LEAST, MOST = 0.9, 1.1
"""Where a control has to stay."""

Block = Callable[[], object]


@dataclass(frozen=True)
class Compared:
    """One comparison: how many times as fast as the rival we are."""

    name: str
    ours: float
    """Seconds per operation, the median over all blocks."""
    rival: float
    ratio: float
    control: float
    bar: float
    rounds: int

    @property
    def is_sound(self) -> bool:
        return LEAST <= self.control <= MOST

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.bar

    @property
    def verdict(self) -> str:
        if not self.is_sound:
            return "not reported: the control is off"
        return "met" if self.is_met else "MISSED"


def timed(block: Block) -> float:
    start = perf_counter()
    block()
    return perf_counter() - start


def compare(
    name: str,
    ours: Block,
    rival: Block,
    *,
    operations: int,
    bar: float,
    rounds: int = 60,
    before: Callable[[], object] | None = None,
    attempts: int = 3,
) -> Compared:
    """Runs both sides in turn; a run whose control is off is repeated, and says so if it never is right.

    A block does `operations` of whatever is measured. `before` runs untimed ahead of each block. The order within a
    round rotates, so that being first is nobody's advantage.
    """
    for side in (ours, rival):
        _prepare(before)
        side()
    found: Compared | None = None
    for _ in range(attempts):
        found = _compare(name, ours, rival, operations, bar, rounds, before)
        if found.is_sound:
            break
    assert found is not None
    return found


def _prepare(before: Callable[[], object] | None) -> None:
    if before is not None:
        before()


def _compare(
    name: str, ours: Block, rival: Block, operations: int, bar: float, rounds: int, before: Block | None
) -> Compared:
    sides = [ours, rival, rival]
    times: list[list[float]] = [[], [], []]
    for number in range(rounds):
        for place in range(3):
            side = (number + place) % 3
            _prepare(before)
            times[side].append(timed(sides[side]))
    mine, theirs, again = times
    ratios = [
        both / 2 / one for one, both in zip(mine, (a + b for a, b in zip(theirs, again, strict=True)), strict=True)
    ]
    control = median(a / b for a, b in zip(theirs, again, strict=True))
    return Compared(
        name,
        median(mine) / operations,
        median([*theirs, *again]) / operations,
        median(ratios),
        control,
        bar,
        rounds,
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its columns aligned so that it reads well in a terminal too."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def comparison_table(found: Iterable[Compared]) -> str:
    """What was compared, a line each."""
    return table(
        ("", "keyplan", "rival", "ratio", "bar", "control", ""),
        [
            (
                one.name,
                seconds(one.ours),
                seconds(one.rival),
                f"{one.ratio:.2f}x" if one.is_sound else "-",
                f"{one.bar:g}x",
                f"{one.control:.2f}",
                one.verdict,
            )
            for one in found
        ],
    )


def machine() -> str:
    """What the figures were measured on."""
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores, load {load:.1f}, "
        f"Python {sys.version.split()[0]}"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def failures(found: Iterable[Compared]) -> int:
    """The exit code of a bench: 1 if a bar was missed in a comparison that counts."""
    return int(any(one.is_sound and not one.is_met for one in found))
