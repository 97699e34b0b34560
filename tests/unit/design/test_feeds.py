"""Notes on feeds that are gathered from many owners at each call."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.engines import BUILTIN, get_engine
from tests.unit.design.nouns import model_of

ENTITIES = """
User: { count: 1M, fields: { uid: "uuid, key", name: string(20) } }
Follow:
  count: 50M
  key: [follower, followed]
  fields: { follower: "User, as follows, max 5000", followed: "User, as followers" }
Post: { count: 200M, fields: { post_id: "ulid, key", author: "User, as posts", at: "timestamp, now" } }
"""
FEED = 'timeline: { find: Post, where: "author.followers.follower = :me", order: at desc, limit: 20, rate: 1k/s }'
OWN = 'timeline: { find: Post, where: "author = :me", order: at desc, limit: 20, rate: 1k/s }'
WRITES = "post: { create: Post, rate: 20/s }\nfollow: { create: Follow, rate: 1/s }"


@pytest.mark.parametrize("engine", BUILTIN)
def test_it_is_said_what_a_row_for_each_follower_would_take(engine: str) -> None:
    """50 follow each author: 1,000 rows a second instead of 52 requests for each of 1,000 calls."""
    found = design(model_of(ENTITIES, FEED, WRITES), get_engine(engine))
    assert found.plans["timeline"].figures.requests == pytest.approx(52, abs=1)
    (note,) = (one for one in found.findings if one.path == "patterns.timeline")
    assert note.severity == "note"
    assert note.evidence == {
        "requests": found.plans["timeline"].figures.requests,
        "rows": pytest.approx(10e9),
        "writes_per_second": pytest.approx(1000),
    }
    assert "10G rows and 1k more writes a second" in note.message


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_list_of_ones_own_is_no_feed(engine: str) -> None:
    found = design(model_of(ENTITIES, OWN, WRITES), get_engine(engine))
    assert not [one for one in found.findings if one.path == "patterns.timeline"]
