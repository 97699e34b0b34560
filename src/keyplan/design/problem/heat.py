"""The heat of all patterns together: each may be fine by itself, and the sum too much for the place that they share.

What a plan costs does not depend on other plans, so that the program is solved without such sums. Then the sums of its
answer are taken, and where one is too much the coolest patterns are barred from that view, until all are within the
limits. The reads that met there are also what copies of its entries are made for.

Writes meet as well: a row that has another entry besides is written with it in one step, which may take more of a place
than the row alone. Whether it has is known from the answer, too: a view that is too hot for that comes in more parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from keyplan.design.candidates.given import identity
from keyplan.design.problem.definition import Problem, evaluate
from keyplan.engines.base import Kind
from keyplan.engines.work import ViewFacts
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
    beside: frozenset[View] = frozenset()
    """The views, without names and shards, whose rows turned out to have another entry besides."""


NOTHING_HOT = Together()
SERVED_ANYHOW = Together()
"""Nothing is barred, because then patterns could not be served."""


def place_of(view: View) -> View:
    """A view without its names and copies."""
    return replace(identity(view), partition=tuple(part for part in view.partition if part.cut != COPIES))


def unsharded(view: View) -> View:
    """A view without its names and shards."""
    return replace(identity(view), partition=tuple(part for part in view.partition if part.ways == 1))


def heated(name: str, problem: Problem, chosen: Iterable[str], kinds: Mapping[str, Kind]) -> ViewFacts:
    """The facts of a view; where each of its rows has another entry that we keep, all writes come together."""
    view, facts = problem.views[name], problem.facts[name]
    for other in (problem.views[label] for label in chosen if label != name):
        ours = other.entity == view.entity and not kinds[other.kind].kept_by_engine
        if ours and not (other.where or other.measures or other.unique):
            return replace(facts, hottest_together=facts.hottest_writes)
    return facts


def _written_beside(problem: Problem, chosen: set[str], kinds: Mapping[str, Kind]) -> set[View]:
    """The views that would come in more parts if it were known that their rows have another entry."""
    found = set()
    for name in chosen:
        view, facts = problem.views[name], heated(name, problem, chosen, kinds)
        if facts is not problem.facts[name] and not kinds[view.kind].kept_by_engine:
            wanted = problem.costs.fit(view, facts)
            if isinstance(wanted, View) and wanted != view:
                found.add(unsharded(view))
    return found


def heat_of_views(problem: Problem, chosen: set[str]) -> dict[str, list[tuple[float, float, str]]]:
    """Per chosen view: the share of its hottest place that each pattern takes, the reads per second, and its name."""
    choice = evaluate(problem, chosen).choice
    found: dict[str, list[tuple[float, float, str]]] = {}
    for root in problem.roots:
        option = choice.get(root.goal.number) if root.kind == "pattern" else None
        if option is not None and option.view is not None and option.heat:
            found.setdefault(option.view.name, []).append((option.heat, option.reads, root.name))
    return found


def too_hot_together(problem: Problem, chosen: set[str], known: Together, kinds: Mapping[str, Kind]) -> Together | None:
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
    found = Together(frozenset(barred), readers, known.beside | _written_beside(problem, chosen, kinds))
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
