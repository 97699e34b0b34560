"""The largest call of each write: whether the engine can do all of it at once, which a design should say."""

from __future__ import annotations

from collections.abc import Iterator, Set
from math import isinf

from keyplan.design.problem.definition import Problem
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Finding

MB = 2**20


def how_done(problem: Problem, write: Write, chosen: Set[str]) -> str:
    """Whether all entries that a call may change are changed at once, however many there are, or some of them follow.

    Values that a new row copies and that change in that moment are no matter of it: they are compared behind any write.
    """
    most = problem.costs.atomic_most
    if most is None:
        return "atomic"
    parts = [part for view in chosen for part in problem.upkeep.get((write.name, view), ())]
    direct = sum(part.most for part in parts)
    # What an index repeats is changed in the item that it is an index of.
    kept = max((part.most_following for part in parts if not part.entries), default=0.0)
    following = max(kept, sum(part.most_following for part in parts if part.entries))
    if write.kind in ("create", "upsert") and direct > most:
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
    sizes: dict[str, tuple[float, float]] = {}
    for name, write in model.writes.items():
        parts = [part for view in chosen for part in problem.upkeep.get((name, view), ())]
        sizes[name] = (sum(part.most for part in parts), sum(part.most_checks for part in parts))
        if write.kind in ("create", "upsert") and write.children:
            yield from _told(f"writes.{name}", *sizes[name], most, "write the rows below it by calls of their own")
            works = [part.work for part in parts]
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
        entries = sum(sizes[part.write][0] * part.most for part in transaction.parts)
        checks = sum(sizes[part.write][1] * part.most for part in transaction.parts)
        yield from _told(f"transactions.{name}", entries, checks, most, "write less together")


def _told(path: str, entries: float, checks: float, most: int, instead: str) -> Iterator[Finding]:
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
            f"its largest call writes {entries:.0f} entries, and one of more than {most} is refused",
            f"lower the 'max' of the rows that it writes, or {instead}",
        )
    elif entries + checks > most:
        yield Finding(
            "note",
            path,
            f"its largest calls write {entries:.0f} entries that copy from {checks:.0f} rows, too many to be checked "
            "in the same request: they are compared behind it",
        )
