"""The cheapest choice of views, under the limits that there are, or else without those that nothing can meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType

from keyplan.design.candidates.given import identity
from keyplan.design.needs.computed import computed_behind
from keyplan.design.problem.build import Built, build_on, build_problem
from keyplan.design.program.blocked import KEPT
from keyplan.design.program.solve import Solution, least_crowded, solve
from keyplan.engines.base import Engine
from keyplan.model.model import Model
from keyplan.plan.view import View

Given = Mapping[str, Sequence[View]]


BLOCKED = "every choice of views that finds them is beyond a limit of the engine, or leaves another pattern unserved"
"""Why a pattern is unserved that has a plan by itself, but none that the engine's own rows allow."""


def cheapest(
    model: Model,
    engine: Engine,
    *,
    given: Given = MappingProxyType({}),
    without: Callable[[View], bool] = lambda view: False,
    like: Built | None = None,
) -> tuple[Built, Solution | None]:
    """The problem and its answer; None if there is none.

    `given`, `without` and `like` are those of `build_problem`. Where no choice of views serves every pattern, those
    that cannot be served beside the ones before them are unserved, and the others are not.
    """
    crowded = like is not None and like.ground.crowded
    built, solution = _solved(model, engine, given, without, like, crowded=crowded)
    if solution is not None:
        return built, solution
    blocked = _blocked(model, engine, without)
    if not blocked:
        return built, None
    fewer, answer = _solved(_fewer(model, blocked), engine, given, without, None, crowded=False)
    if answer is None:
        return built, None
    fewer.unserved.update((name, [BLOCKED]) for name in model.patterns if name in blocked)
    return fewer, answer


def _fewer(model: Model, left_out: Set[str]) -> Model:
    return replace(model, patterns={name: one for name, one in model.patterns.items() if name not in left_out})


def _blocked(model: Model, engine: Engine, without: Callable[[View], bool]) -> set[str]:
    """The patterns that cannot be served beside those before them; none if that is not what is in the way."""
    names = list(model.patterns)

    def is_served(left_out: Set[str], first: int) -> bool:
        """Whether the first so many patterns are, without some."""
        some = _fewer(model, {*left_out, *names[first:]})
        return _solved(some, engine, MappingProxyType({}), without, None, crowded=False, proven=False)[1] is not None

    blocked: set[str] = set()
    if not is_served(blocked, 0):
        return blocked
    while not is_served(blocked, len(names)):
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_served(blocked, middle) else (low, middle)
        blocked.add(names[high - 1])
    return blocked


def _solved(
    model: Model,
    engine: Engine,
    given: Given,
    without: Callable[[View], bool],
    like: Built | None,
    *,
    crowded: bool,
    proven: bool = True,
) -> tuple[Built, Solution | None]:
    """`proven`: the cheapest answer, and not just a good one."""
    built = first = build_problem(model, engine, given=given, without=without, crowded=crowded, like=like)
    solution = _solved_once(built, proven)
    if solution is None and (hopeless := _hopeless(built)):
        # Nothing finds the rows in which some write would have to change a value that these views repeat: patterns that
        # only they would serve are unserved, and the others are not.
        def left_out(view: View) -> bool:
            return without(view) or identity(view) in hopeless

        return _solved(model, engine, given, left_out, built, crowded=crowded, proven=proven)
    if solution is None and _follows_computed(built):
        # Whatever changes a value that is computed behind a reference has to find all that copy it, which may take more
        # than there is: then it is worked out at each call, and patterns that this does not serve are unserved.
        def far(view: View) -> bool:
            return without(view) or bool(computed_behind(model, view))

        return _solved(model, engine, given, far, built, crowded=crowded, proven=proven)
    if solution is None and not built.reads_all:
        # Views that find what repeats a value inside other rows may be too much for one atomic request: then everything
        # may be read for that, which costs what it costs, and is a warning.
        built = build_on(built.ground, unlike=built)
        solution = _solved_once(built, proven)
    if solution is None:
        # Some write needs more views than one atomic request can keep true: it is refused when it is that large.
        built.problem = built.problem.under(built.couplings)
        solution = _solved_anyhow(built, proven)
    if solution is None and first.keeps_apart:
        # Nothing serves everything and leaves alone what is too hot beside another entry: then that is a warning.
        return _solved(model, engine, given, without, first, crowded=True, proven=proven)
    return built, solution


def _follows_computed(built: Built) -> bool:
    """Whether some view, but for given ones, copies what is computed behind a reference."""
    kept = set(built.given_names)
    views = built.problem.views.items()
    return any(computed_behind(built.ground.model, view) for name, view in views if name not in kept)


def _hopeless(built: Built) -> set[View]:
    """The views, but for given ones, of which some write asks for a lookup that no view can answer."""
    kept = set(built.given_names)
    names = {name for root in built.problem.roots if not root.goal.options for name in root.demanded_by} - kept
    return {identity(built.problem.views[name]) for name in names}


def _solved_once(built: Built, proven: bool) -> Solution | None:
    built.problem.required += [(f"'{label}{KEPT}", names) for label, names in built.kept_as.items()]
    return _solved_anyhow(built, proven)


def _solved_anyhow(built: Built, proven: bool) -> Solution | None:
    """The answer; if there is none because some patterns cannot but read the same place too often, the one in which
    they do so least, which is a warning."""
    solution = solve(built.problem, proven=proven)
    if solution is None and built.problem.crowds.places:
        softer = least_crowded(built.problem)
        if softer is not None:
            built.problem = softer
            solution = solve(softer, proven=proven)
    return solution
