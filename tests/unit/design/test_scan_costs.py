"""The arithmetic of the usual warning against scans, through DynamoDB's own cost model."""

from __future__ import annotations

import pytest

from keyplan.design.candidates.facts import Facts
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import get_engine
from keyplan.engines.work import Work
from tests.unit.design.nouns import model_of, view

ENTITIES = "Thing:\n  count: 10M\n  fields:\n    id: uuid, key\n    kind: int, distinct 5000\n"


@pytest.mark.parametrize(
    ("entries", "strong", "units"),
    [
        (10_000_000, False, 1_250_000),  # 10M items of 1 KB, whole
        (10_000_000, True, 2_500_000),
        (2_000, False, 250),  # 2 MB through an index
        (2_000, True, 500),
        (1, False, 0.5),
    ],
)
def test_read_units(entries: int, strong: bool, units: float) -> None:
    model = model_of(ENTITIES)
    seen = view(model, "kind | id", entity="Thing")
    facts = Facts(model, Statistics(model)).of(seen)
    cost = get_engine("dynamodb").costs(model).read(Work(seen, facts, False, 1.0, entries, entries, 1024.0, strong))
    assert cost.units == {"read units": units}
    assert cost.cost == pytest.approx(units * 0.125e-6)
