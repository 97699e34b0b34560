"""Models with very many entities: what is worked out for each does not depend on how many others there are."""

from __future__ import annotations

import time

from keyplan.design import design
from keyplan.engines import get_engine
from tests.unit.design.nouns import model_of


def test_hundreds_of_entities_are_designed_in_seconds() -> None:
    """It took a quarter of a minute where each view was asked what it keeps for each other."""
    entities = (f"E{one}: {{ count: 10, fields: {{ id: 'uuid, key', n: int }} }}" for one in range(1000))
    model = model_of("\n".join(entities), "", "")
    start = time.process_time()
    assert len(design(model, get_engine("sqlite")).views) == 1000
    assert time.process_time() - start < 6
