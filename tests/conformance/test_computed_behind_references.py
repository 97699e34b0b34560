"""Orders, ranges and copies by computed fields behind a reference: rows move when what they refer to is computed anew.

The row behind need not be there: what is computed depends on its key alone.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from keyplan.design.needs.computed import computed_behind
from keyplan.errors import ConflictError
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair
from tests.faults import chat

MODEL = chat.MODEL.partition("entities:")[1] + chat.MODEL.partition("entities:")[2]
ROWS = chat.rows()

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("say", {"mid": 20, "talk": 0, "sent_at": chat.moment(30)}),
    ("say", {"mid": 21, "talk": 2, "sent_at": chat.moment(31), "weight": 5}),
    ("join", {"talk": 7, "person": 1}),
    ("say", {"mid": 22, "talk": 7, "sent_at": chat.moment(32)}),
    ("join", {"talk": 7, "person": 2}),
    ("begin", {"tid": 7, "title": "y"}),
    ("begin", {"tid": 2}),
    ("move", {"mid": 22, "talk": 0}),
    ("move", {"mid": 21, "talk": None}),
    ("mend", {"mid": 20, "sent_at": None, "weight": 3}),
    ("retract", {"mid": 22}),
    ("split", {"tid": 7, "origin": 7}),
    ("say", {"mid": 23, "talk": 7}),
    ("abandon", {"tid": 0}),
    ("say", {"mid": 24, "talk": 0, "sent_at": chat.moment(40)}),
    ("retract", {"mid": 0}),
    ("promote", {"talk": 0, "person": 1, "role": "host"}),
    ("announce", {"start": {"tid": 0, "members": [{"person": 2}]}, "say": [{"mid": 25, "talk": 0}]}),
    ("leave", {"talk": 0, "person": 2}),
    ("clear", {"tid": 0}),
    ("clear", {"tid": 7}),
]
READS = [*chat.reads(), ("member", {"talk": 7, "person": 1}), ("split_off", {"title": "y"})]


def test_rows_move_with_what_is_computed_behind_them(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_rows_that_are_loaded_again_count_once(both: Both) -> None:
    pair = both(MODEL, ROWS)
    pair.load(ROWS)
    pair.agrees(READS)
    pair.load([("Message", {"mid": 0, "talk": 2, "weight": 1000}), ("Talk", {"tid": 2}), ("Member", ROWS[5][1])])
    pair.agrees(READS)


@pytest.mark.parametrize("seed", range(3))
def test_any_writes_leave_the_answers_of_the_reference(both: Both, seed: int) -> None:
    pair = both(MODEL, ROWS)
    for number, (name, arguments) in enumerate(islice(chat.steps(seed), 40)):
        try:
            pair.same(name, **arguments)
        except ConflictError:
            continue
        if number % 10 == 9:
            pair.agrees(READS)


def test_views_are_keyed_by_it_where_rows_are_many(reads: Pair, size: str) -> None:
    """Otherwise the tests above would say little."""
    if size == "read":
        views = reads.store.design.views.values()
        assert {"last_at", "said"} <= {
            text for view in views for some in computed_behind(reads.model, view).values() for text in some
        }
        keyed = {part.path for view in views for part in view.parts}
        assert {"talk.last_at", "talk.said", "talk.weight"} <= keyed
        assert not {"talks_of", "quiet", "heaviest"} & set(reads.store.design.unserved)
