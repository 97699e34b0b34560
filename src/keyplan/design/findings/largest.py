"""The largest call of each write: whether the engine can do all of it at once, which a design should say."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from math import isinf

from keyplan.design.problem.definition import Problem
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Finding
from keyplan.plan.late_sums import may_come_late

MB = 2**20


@dataclass(frozen=True)
class Size:
    """The most that one call does directly, whatever follows."""

    entries: float
    sums: float
    """Entries that may come late."""
    checks: float
    """Rows that are checked along, because values are copied from them."""


def largest_call(model: Model, problem: Problem, write: str, chosen: Set[str]) -> Size:
    """What the largest call of a write does under a choice of views."""
    entries = sums = checks = 0.0
    for name in sorted(chosen):
        is_late = may_come_late(model, problem.views[name])
        for part in problem.upkeep.get((write, name), ()):
            entries += 0.0 if is_late else part.most
            sums += part.most if is_late else 0.0
            checks += part.most_checks
    return Size(entries, sums, checks)


def how_done(model: Model, problem: Problem, write: Write, chosen: Set[str]) -> str:
    """Whether all entries that a call may change are changed at once, however many there are, or some of them follow.

    Values that a new row copies and that change in that moment are no matter of it: they are compared behind any write.
    """
    most = problem.costs.atomic_most
    if most is None:
        return "atomic"
    parts = [part for view in chosen for part in problem.upkeep.get((write.name, view), ())]
    size = largest_call(model, problem, write.name, chosen)
    direct = size.entries + size.sums
    # What an index repeats is changed in the item that it is an index of.
    kept = max((part.most_following for part in parts if not part.entries), default=0.0)
    following = max(kept, sum(part.most_following for part in parts if part.entries))
    if write.kind in ("create", "upsert") and size.entries > most:
        direct = 0.0  # refused when it is that large
    return "converges" if direct + following > most else "atomic"


def large_writes(model: Model, problem: Problem, chosen: Set[str]) -> Iterator[Finding]:
    """Writes and transactions whose largest call does not fit into one atomic request, by the `max` of the model.

    Deletes are not among them: the rows below go first, in as many requests as it takes. Nor are rows that repeat a
    value: they follow. What a single row takes is told of by itself (`crowded.py`).
    """
    most = problem.costs.atomic_most
    if most is None:
        return
    sizes = {name: largest_call(model, problem, name, chosen) for name in model.writes}
    for name, write in model.writes.items():
        if write.kind in ("create", "upsert") and write.children:
            works_with = _largest_that_works(model, problem, write, chosen, most)
            instead = "write the rows below it by calls of their own"
            yield from _told(f"writes.{name}", sizes[name], most, instead, works_with)
            works = [part.work for view in chosen for part in problem.upkeep.get((name, view), ())]
            size = sum((work.puts + work.patches + work.moves + work.adds) * work.entry_bytes for work in works)
            if problem.costs.atomic_bytes is not None and size > problem.costs.atomic_bytes:
                yield Finding(
                    "warning",
                    f"writes.{name}",
                    f"a usual call writes {size / MB:.3g} MB, and one of more than {problem.costs.atomic_bytes / MB:g} "
                    "MB is refused",
                    "write fewer or smaller rows with it, and the others by calls of their own",
                    {"bytes": size},
                )
    for name, transaction in model.transactions.items():
        parts = [(sizes[part.write], part.most) for part in transaction.parts]
        whole = Size(
            sum(size.entries * times for size, times in parts),
            sum(size.sums * times for size, times in parts),
            sum(size.checks * times for size, times in parts),
        )
        yield from _told(f"transactions.{name}", whole, most, "write less together")


def _largest_that_works(model: Model, problem: Problem, write: Write, chosen: Set[str], most: int) -> str:
    """How many rows below its own a call may write, where these are of one role and each has as many entries."""
    (name, deeper), *others = write.children.items()
    limit = model.entities[write.entity].roles[name].most
    if others or deeper or not limit:
        return ""
    below, own = 0.0, 0.0
    for view in (problem.views[name] for name in sorted(chosen)):
        for part in problem.upkeep.get((write.name, view.name), ()):
            if view.measures and part.most:
                return ""
            is_below = bool(part.work.at) or view.entity != write.entity
            below += part.most if is_below else 0.0
            own += part.most if not is_below else 0.0
    works = int((most - own) * limit / below) if below else 0
    return f": with up to {works} of its '{name}' it is done" if 0 < works < limit else ""


def _told(path: str, size: Size, most: int, instead: str, works_with: str = "") -> Iterator[Finding]:
    entries, checks = size.entries, size.checks
    if isinf(entries):
        yield Finding(
            "warning",
            path,
            f"nothing says how many rows a call writes, and one of more than {most} entries is refused",
            f"give the references of these rows a 'max', or {instead}",
        )
    elif entries > most:
        yield Finding(
            "warning",
            path,
            f"its largest call writes {entries:.0f} entries, and one of more than {most} is refused{works_with}",
            f"lower the 'max' of the rows that it writes, or {instead}",
        )
    elif entries + size.sums > most:
        copies = f", which copy from {checks:.0f} rows," if entries + checks >= most else ""
        sums = "any number of sums" if isinf(size.sums) else f"{size.sums:.0f} sums"
        yield Finding(
            "note",
            path,
            f"its largest calls write {entries:.0f} entries{copies} and add to {sums}, too many for one request: the "
            f"sums follow it{', and what was copied is compared behind it' if copies else ''}",
        )
    elif entries + checks > most:
        yield Finding(
            "note",
            path,
            f"its largest calls write {entries:.0f} entries that copy from {checks:.0f} rows, too many to be checked "
            "in the same request: they are compared behind it",
        )
