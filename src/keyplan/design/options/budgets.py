"""The time that goals have which are reached one after the other: together they have what is left for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keyplan.design.options.goals import NO_LIMIT_MS, Goal, goal_p99, slowest_p99

SLOWER = 1.5
"""How much slower than the fastest ways others may be where there is not time for all of them."""

FEW_WAYS = 24
"""Where two goals have more ways together, a program with all splits of their time would take long to prove."""

Goals = Sequence[Goal]
Ask = Callable[[float], Goals]
"""The goals that are reached at the same time, with so many milliseconds for them."""


def in_turn(goal: Goal, first: Ask, second: Ask, *, own_ms: float = 0.0) -> list[tuple[Goals, Goals]]:
    """Goals and those that come after them, within the time of the `goal` that both are for, whatever is chosen below
    them; if there is no time for both, its rejections say so. `own_ms` is what it takes itself, beside the first.

    Mostly there is time for the slowest ways of both, and nothing is lost. Otherwise there may be a split of the time
    that keeps every view which either could use, if not each of the ways to fetch what is lacking there. Or else there
    are a few splits to choose from, since the first may be slow if the others are fast; where the ways are many, only
    the one that keeps most of them.
    """
    budget_ms = goal.budget_ms
    alone = first(budget_ms)
    if not _are_reached(goal, alone):
        return []
    if budget_ms >= NO_LIMIT_MS:
        after = second(NO_LIMIT_MS)
        return [(alone, after)] if _are_reached(goal, after) else []
    fastest = _p99(alone, goal_p99, own_ms)
    after = second(budget_ms - fastest)
    if not _are_reached(goal, after):
        return []
    slowest = _p99(after, slowest_p99)
    if _p99(alone, slowest_p99, own_ms) + slowest <= budget_ms:
        return [(alone, after)]
    quickest = _p99(after, goal_p99)
    everything = _views((*alone, *after))
    found: list[tuple[Goals, Goals]] = []
    for share in (budget_ms / 2, budget_ms - slowest, SLOWER * fastest, budget_ms - SLOWER * quickest):
        before = first(min(max(share, fastest), budget_ms - quickest))
        if not all(one.options for one in before):
            continue
        rest = second(budget_ms - _p99(before, slowest_p99, own_ms))
        if _views((*before, *rest)) == everything:
            return [(before, rest)]
        if all(one.options for one in rest) and not any(_has_more(*other, before, rest) for other in found):
            found = [other for other in found if not _has_more(before, rest, *other)]
            found.append((before, rest))
    if not found:
        goal.rejections.append("one read after the other takes longer than there is time for")
    if len(everything) > FEW_WAYS:
        return [max(found, key=lambda pair: len(_views((*pair[0], *pair[1]))))] if found else []
    return found


def at_once(goal: Goal, one: Ask, other: Ask) -> list[tuple[Goals, Goals]]:
    """The same of goals that are reached at the same time."""
    both = one(goal.budget_ms), other(goal.budget_ms)
    return [both] if _are_reached(goal, (*both[0], *both[1])) else []


def _are_reached(goal: Goal, goals: Goals) -> bool:
    lacking = [one for one in goals if not one.options]
    for one in lacking:
        goal.rejections.extend(one.foremost)
    return not lacking


def _p99(goals: Goals, of: Callable[[Goal], float], own_ms: float = 0.0) -> float:
    return max([own_ms, *map(of, goals)])


def _views(goals: Goals) -> set[tuple[int, str, frozenset[str]]]:
    """What the options of several goals take, each goal by its place among them."""
    return {(place, option.kind, option.takes) for place, one in enumerate(goals) for option in one.options}


def _has_more(before: Goals, rest: Goals, other_before: Goals, other_rest: Goals) -> bool:
    """Whether a split leaves as much time as another one for everything: it has all ways of that then."""
    pairs = (*zip(before, other_before, strict=True), *zip(rest, other_rest, strict=True))
    return all(one.budget_ms >= other.budget_ms for one, other in pairs)
