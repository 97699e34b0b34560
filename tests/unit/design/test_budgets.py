"""Whatever ways are chosen below a goal, it keeps within the time that is left for it."""

from __future__ import annotations

import pytest
from hypothesis import given

from keyplan.design import design, document
from keyplan.design.build import build_problem
from keyplan.design.goals import NO_LIMIT_MS, Goal, Option
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from tests.strategies.design import problems, proof
from tests.unit.design.nouns import model_of


def slowest(option: Option) -> float:
    """The p99 of an option if every goal below is reached in its slowest way."""
    early = [slowest_way(sub.goal) for sub in option.subs if sub.early]
    late = [slowest_way(sub.goal) for sub in option.subs if not sub.early]
    if option.kind in ("drive", "then"):
        return sum(late)
    return max([option.cost.p99_ms, *early]) + max(late, default=0.0)


def slowest_way(goal: Goal) -> float:
    return max((slowest(option) for option in goal.options), default=0.0)


@pytest.mark.parametrize("engine", BUILTIN)
@proof(60)
@given(model=problems())
def test_the_slowest_choice_is_within_the_budget(engine: str, model: Model) -> None:
    for root in build_problem(model, get_engine(engine)).problem.roots:
        if root.goal.budget_ms < NO_LIMIT_MS:
            assert slowest_way(root.goal) <= root.goal.budget_ms * (1 + 1e-9), root.name


BLOG = """
Post:
  count: 1M
  fields:
    post_id: uuid, key
    made_at: timestamp
    title: string(40)
Tag:
  count: 5M
  key: [post, word]
  fields:
    post: Post, as tags, max 20
    word: string(12), distinct 50
"""


def test_a_page_over_children_reads_no_more_than_its_limit_times_what_each_parent_has() -> None:
    """Newest posts with a tag: 100,000 of them, of which a page of ten is read."""
    pattern = 'p: { find: Post, where: "tags.word = :word", order: made_at desc, limit: 10, rate: 100/s, p99: 100ms }'
    model = model_of(BLOG, pattern)
    for engine in BUILTIN:
        told = document(model, design(model, get_engine(engine)))["patterns"]["p"]
        assert told["served"], engine
        assert told["p99_ms"] < 50
