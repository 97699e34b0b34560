"""Searches that test rows for a word: a rare one is looked for through all that the other conditions leave."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.design.candidates.match import Match
from keyplan.design.options.goals import Goal, Option
from keyplan.design.options.ways import WALK_BYTES
from keyplan.design.problem.definition import Evaluation, Problem
from keyplan.design.statistics.derived import Statistics
from keyplan.model.model import path_of
from keyplan.plan.design import Finding
from keyplan.units import format_about, format_bytes


def rare_words(statistics: Statistics, problem: Problem, found: Evaluation) -> Iterator[Finding]:
    """A warning per pattern that may read much at one call, though it reads little at most of them.

    Whole tables are read only where the engine thinks that fit, and priced as such.
    """
    for root in problem.roots:
        if root.kind != "pattern":
            continue
        for goal, option in _chosen(root.goal, found, set()):
            rows, read = _worst(statistics, problem, goal, option)
            if read > WALK_BYTES:
                yield Finding(
                    "warning",
                    f"patterns.{root.name}",
                    f"a rare word is looked for through up to {format_about(rows)} rows of '{goal.need.entity}', "
                    f"{format_bytes(read)} at a call",
                    "add a condition that leaves fewer of them, or keep the words to be found in a set and ask by "
                    "'contains'",
                    {"rows": rows, "bytes": read},
                )
                break


def _chosen(goal: Goal, found: Evaluation, seen: set[int]) -> Iterator[tuple[Goal, Option]]:
    """The goals that an answer comes to, with what was chosen for each."""
    option = found.choice.get(goal.number)
    if option is None or goal.number in seen:
        return
    seen.add(goal.number)
    yield goal, option
    for sub in option.subs:
        yield from _chosen(sub.goal, found, seen)


def _worst(statistics: Statistics, problem: Problem, goal: Goal, option: Option) -> tuple[float, float]:
    """The most rows that a search for a word tests one by one, and their bytes; none if its words are keys."""
    match, view = option.match, option.view
    if match is None or view is None or match.get or match.scan or not _tests_words(match):
        return 0.0, 0.0
    rows = min(max(match.most * match.spans, match.entries), statistics.rows(goal.need.entity))
    size = problem.costs.entry_bytes(view, problem.facts[view.name], match.at)
    if match.left:
        asked = {str(path) for condition in match.left for path in (condition.path, *condition.also)}
        entity = goal.need.entity
        size += sum(statistics.bytes(entity, path_of(text, statistics.model, entity)) for text in sorted(asked))
    return rows, rows * size


def _tests_words(match: Match) -> bool:
    tested = (*match.filter, *match.left)
    return any(condition.op == "search" and condition not in match.given for condition in tested)
