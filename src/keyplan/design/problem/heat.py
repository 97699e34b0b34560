"""The heat of all patterns together: each may be fine by itself, and the sum too much for the place that they share.

What a plan costs does not depend on other plans, so that the program is solved without such sums. Then the sums of its
answer are taken, and where one is too much the coolest patterns are barred from that view, until all are within the
limits. The reads that met there are also what copies of its entries are made for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from keyplan.design.candidates.given import identity
from keyplan.design.problem.definition import Problem, evaluate
from keyplan.plan.view import COPIES, View

ROUNDS = 12
"""How often a design is put together anew; what is still too hot then is a warning."""


@dataclass(frozen=True)
class Together:
    """What was found to be too hot together so far."""

    barred: frozenset[tuple[str, View]] = frozenset()
    """Patterns, with the views (without names) that they may not search first."""
    readers: Mapping[View, float] = field(default_factory=dict)
    """Per view without names and copies: the reads per second of the same entry that met there."""
    anyhow: bool = False
    """Nothing is barred, because then patterns could not be served."""
    crowded: bool = False
    """Rows may have another entry beside one that is too hot for that, because otherwise there is no design."""


NOTHING_HOT = Together()


def place_of(view: View) -> View:
    """A view without its names and copies."""
    return replace(identity(view), partition=tuple(part for part in view.partition if part.cut != COPIES))


def heat_of_views(problem: Problem, chosen: set[str]) -> dict[str, list[tuple[float, float, str]]]:
    """Per chosen view: the share of its hottest place that each pattern takes, the reads per second, and its name."""
    choice = evaluate(problem, chosen).choice
    found: dict[str, list[tuple[float, float, str]]] = {}
    for root in problem.roots:
        option = choice.get(root.goal.number) if root.kind == "pattern" else None
        if option is not None and option.view is not None and option.heat:
            found.setdefault(option.view.name, []).append((option.heat, option.reads, root.name))
    return found


def too_hot_together(problem: Problem, chosen: set[str], known: Together) -> Together | None:
    """What has to be barred besides for this choice to be within the limits; None if it is."""
    barred, readers = set(known.barred), dict(known.readers)
    for name, users in heat_of_views(problem, chosen).items():
        if sum(heat for heat, _, _ in users) <= 1:
            continue
        view = problem.views[name]
        readers[place_of(view)] = max(readers.get(place_of(view), 0.0), sum(reads for _, reads, _ in users))
        taken = 0.0
        for heat, _, pattern in sorted(users, reverse=True):
            taken += heat
            if taken > 1:
                barred.add((pattern, identity(view)))
                taken -= heat
    found = replace(known, barred=frozenset(barred), readers=readers)
    return None if found == known else found


def warnings(problem: Problem, chosen: set[str], shown: Callable[[str], str]) -> list[tuple[str, str]]:
    """Entity and text per view that is still too hot."""
    found = []
    for name, users in heat_of_views(problem, chosen).items():
        heat = sum(share for share, _, _ in users)
        if heat > 1:
            together = ", ".join(sorted(pattern for _, _, pattern in users))
            text = f"{together} together read the hottest key of '{shown(name)}' {heat:.1f} times as often as it can be"
            found.append((problem.views[name].entity, text))
    return found
