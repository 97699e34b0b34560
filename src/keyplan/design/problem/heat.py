"""The heat of all patterns together: each may be fine by itself, and the sum too much for the place that they share.

`crowds.py` keeps the program and its answers within the limits; here is which places there are, and who reads them in
an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyplan.design.candidates.homes import Homes
from keyplan.design.candidates.local import bases_of
from keyplan.design.options.goals import Goal, Option
from keyplan.design.problem.definition import Evaluation, Problem

User = tuple[float, str]
"""The share of a place that a pattern takes, and its name."""


def places(homes: Homes) -> Iterator[tuple[str, frozenset[str]]]:
    """Each place by a view, and the views that are read there: a local one is read where its base is."""
    kinds = homes.kinds
    over = {view.name: {view.name} for view in homes.views if not kinds[view.kind].local}
    for view in homes.views:
        if kinds[view.kind].local:
            for base, _ in bases_of(homes, view):
                over[base].add(view.name)
    yield from ((name, frozenset(some)) for name, some in over.items())


def heat_of_views(problem: Problem, found: Evaluation) -> dict[str, list[User]]:
    """Per view that is read under a choice: the share of its hottest place that each pattern takes."""
    users: dict[str, list[User]] = {}
    for root in problem.roots:
        if root.kind == "pattern" and root.goal.number in found.choice:
            heats: dict[str, float] = {}
            for option in _taken(root.goal, found):
                if option.view is not None and option.heat:
                    heats[option.view.name] = heats.get(option.view.name, 0.0) + option.heat
            for name, heat in heats.items():
                users.setdefault(name, []).append((heat, root.name))
    return users


def _taken(goal: Goal, found: Evaluation) -> Iterator[Option]:
    """The options that the plan of a goal consists of."""
    option = found.choice[goal.number]
    yield option
    for sub in option.subs:
        yield from _taken(sub.goal, found)


def too_hot(problem: Problem, found: Evaluation) -> Iterator[tuple[str, list[User]]]:
    """The views that are read too often under a choice, and by whom, because nothing else serves everything."""
    users = heat_of_views(problem, found)
    for place in problem.crowds.places:
        if place.most > 1:
            here = [user for name in sorted(place.views) for user in users.get(name, ())]
            if sum(heat for heat, _ in here) > 1:
                yield place.name, here


def warnings(problem: Problem, found: Evaluation, shown: Callable[[str], str]) -> list[tuple[str, str]]:
    """Entity and text per view that is read too often."""
    told = []
    for name, users in too_hot(problem, found):
        together = ", ".join(sorted({pattern for _, pattern in users}))
        heat = sum(share for share, _ in users)
        text = f"{together} together read the hottest key of '{shown(name)}' {heat:.1f} times as often as it can be"
        told.append((problem.views[name].entity, text))
    return told
