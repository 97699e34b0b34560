"""Units of single items, planned and taken: texts are longer and shorter than their average, and so are items."""

from __future__ import annotations

from itertools import pairwise

import pytest

import keyplan
from keyplan.model.model import Model
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.engines.dynamodb.workload import WRITES, Workload
from tests.unit.design.nouns import model_of


def pages(size: int) -> Model:
    entities = f"""
Page:
  count: 1k
  fields:
    {{ page_id: "uuid, key", site: "string(8), distinct 50", at: "timestamp, now", body: "text({size})", views: int }}
"""
    reads = """
page: { find: Page, where: "page_id = :p", rate: 50/s }
newest: { find: Page, where: "site = :s", order: at desc, page: 10, rate: 50/s }
"""
    view = 'view: { update: Page, add: [views], where: "page_id = :p", rate: 1/s }'
    return model_of(entities, reads, f"write: {{ create: Page, rate: 1/s }}\n{view}")


def units(size: int) -> float:
    return keyplan.design(pages(size), "dynamodb").writes["write"].figures.units["write units"]


def test_writes_of_items_that_end_near_a_kilobyte_take_one_unit_or_two() -> None:
    """Some are above it and some are not: a few bytes more do not double what all of them take."""
    found = [units(size) for size in range(400, 1200, 25)]
    assert found[0] == 2.0
    assert all(before <= after < 1.1 * before for before, after in pairwise(found))


@pytest.mark.parametrize("size", [200, 650, 850, 1600, 3700])
def test_units_of_items_are_the_mean(size: int, dynoxide: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.engines.dynamodb.workload.WRITES", 6 * WRITES)
    workload = Workload(pages(size), url_of(dynoxide.url))
    try:
        found = {one.name: one for one in (*workload.reads(), *workload.writes())}
    finally:
        workload.close()
    for name, unit in (("write", "write units"), ("view", "write units"), ("page", "read units")):
        assert found[name].units(unit) == pytest.approx(found[name].plan.units[unit], rel=0.12), name
