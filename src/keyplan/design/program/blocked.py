"""What is in the way where no choice of views serves everything: found by leaving things out, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from keyplan.design.problem.definition import Problem
from keyplan.design.program.solve import solve

KEPT = "', which is kept"
"""How the requirement of a view that has to be there ends."""


def blocking_calls(problem: Problem) -> list[str]:
    """The patterns and writes each of which alone keeps everything else from being served; where no single one does,
    some that do so together, none of which could be served beside the others."""
    names = list(dict.fromkeys(root.name for root in problem.roots))
    alone = [name for name in names if _is_possible(_without_calls(problem, {name}))]
    if alone or not _is_possible(_without_calls(problem, set(names))):
        return alone
    together = set(names)
    for name in names:
        if _is_possible(_without_calls(problem, together - {name})):
            together.remove(name)
    return [name for name in names if name in together]


def _is_possible(problem: Problem) -> bool:
    """Whether there is a choice at all, whatever it costs."""
    return solve(problem, proven=False) is not None


def _without_calls(problem: Problem, names: Set[str]) -> Problem:
    return replace(
        problem,
        roots=[root for root in problem.roots if root.name not in names],
        upkeep={place: parts for place, parts in problem.upkeep.items() if place[0] not in names},
        rates={write: rate for write, rate in problem.rates.items() if write not in names},
    )


def why_not_kept(problem: Problem) -> str:
    """Which view that has to be there cannot, and why; empty if there is no answer without any of them either."""
    kept = [need for need in problem.required if need[0].endswith(KEPT)]
    if not kept or not _is_possible(_relieved(problem, kept)):
        return ""
    alone = next((need for need in kept if _is_possible(_relieved(problem, [need]))), None)
    if alone is None:
        listed = ", ".join(text.removesuffix(KEPT) + "'" for text, _ in _least(problem, kept))
        return f"{listed} cannot be kept together: {_reason(problem)}"
    return f"{alone[0].removesuffix(KEPT)}' cannot be kept: {_reason(problem)}"


Need = tuple[str, list[str]]


def _relieved(problem: Problem, needs: list[Need]) -> Problem:
    return replace(problem, required=[need for need in problem.required if need not in needs])


def _least(problem: Problem, kept: list[Need]) -> Iterator[Need]:
    """Some of what is kept that cannot be kept together, none of which could be left out of that."""
    left = list(kept)
    for need in kept:
        others = [one for one in kept if one not in left or one == need]
        if not _is_possible(_relieved(problem, others)):
            left.remove(need)
    yield from left


def _reason(problem: Problem) -> str:
    calls = blocking_calls(problem)
    if not calls:
        return "no choice of other structures beside it is within the limits of the engine"
    listed = " or ".join(f"'{name}'" for name in calls[:3])
    return f"{listed} could not be served with it"
