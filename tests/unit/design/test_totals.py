"""What totals can be kept with: packed views whose values have every row that the totals speak for."""

from __future__ import annotations

import pytest

from keyplan.design.candidates.totals import kept_with
from keyplan.plan.view import COUNT, Measure, Part, View
from tests.unit.design.nouns import model_of

MODEL = model_of("""
Meter: { count: 1k, fields: { meter_id: "int, key", place: string(20) } }
Reading:
  count: 1M
  fields: { rid: "int, key", meter: Meter, at: timestamp, level: int, kind: "string(5), optional 20%" }
""")


@pytest.mark.parametrize(
    ("partition", "sort", "is_kept"),
    [
        (["meter_id"], ["at", "rid"], True),
        (["meter_id"], ["level", "at", "rid"], True),
        (["meter_id"], ["kind", "rid"], False),
        (["meter_id"], ["at", "rid", "kind"], False),
        (["meter_id"], ["meter.place", "rid"], False),
        (["meter_id", "kind"], ["at", "rid"], True),
        (["meter_id", "kind"], ["kind", "at", "rid"], True),
    ],
)
def test_totals_are_kept_with_all_rows(partition: list[str], sort: list[str], is_kept: bool) -> None:
    key, day = tuple(Part(path) for path in partition), Part("at", "day")
    held = ("rid", "meter_id", "at", "level", "kind")
    packed = View("days", "Reading", "collection", (*key, day), tuple(map(Part, sort)), held, packed=True)
    totals = View("sums", "Reading", "totals", (), (*key, day), (), measures=(Measure("count", None, COUNT),))
    assert kept_with(MODEL, totals, [packed]) == (["days"] if is_kept else [])
