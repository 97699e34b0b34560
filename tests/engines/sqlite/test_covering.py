"""An index that goes on with the columns a pattern wants answers it alone, where that pays."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import keyplan

MODEL = """
keyplan: 1
name: parcels
entities:
  Parcel:
    count: 100k
    fields:
      parcel_id: uuid, key
      depot: string(10), distinct 500
      weight: int
      label: text(900)
patterns:
  parcel: {{ find: Parcel, where: "parcel_id = :parcel_id", rate: 10/s }}
  weights: {{ find: Parcel, where: "depot = :depot", select: [parcel_id, weight], rate: {reads}/s }}
writes:
  send: {{ create: Parcel, rate: 10/s }}
  weigh: {{ update: Parcel, where: "parcel_id = :parcel_id", set: [weight], rate: {writes}/s }}
"""


def indexed(reads: int, writes: int) -> list[list[str]]:
    model = keyplan.parse_model(MODEL.format(reads=reads, writes=writes))
    design = keyplan.design(model, "sqlite")
    return [[str(part) for part in view.parts] for view in design.views.values() if view.kind == "index"]


@pytest.mark.parametrize(
    ("reads", "writes", "parts"),
    [(100, 1, ["depot", "parcel_id", "weight"]), (1, 5000, ["depot", "parcel_id"])],
)
def test_reads_and_changes_decide_whether_an_index_covers(reads: int, writes: int, parts: list[str]) -> None:
    assert indexed(reads, writes) == [parts]


def test_the_engine_reads_the_index_alone(tmp_path: Path) -> None:
    model = keyplan.parse_model(MODEL.format(reads=100, writes=1))
    file = tmp_path / "parcels.db"
    with keyplan.open(model, f"sqlite:{file}") as parcels:
        sent = parcels.send(depot="north", weight=3, label="x")
        parcels.weigh(parcel_id=sent["parcel_id"], weight=4)
        assert [row["weight"] for row in parcels.weights(depot="north").rows] == [4]
    (step,) = keyplan.explain(model, keyplan.design(model, "sqlite"), "weights")["steps"]
    with sqlite3.connect(file) as connection:
        ((*_, plan),) = connection.execute(f"EXPLAIN QUERY PLAN {step['words']}", {"depot": "north"}).fetchall()
    assert "USING COVERING INDEX" in plan


COUNTED = """
keyplan: 1
name: parcels
entities:
  Depot:
    count: 100k
    fields: { depot_id: "int, key", region: "string(10), distinct 500", parcel_count: count(parcels) }
  Parcel: { count: 1M, fields: { parcel_id: "uuid, key", depot: "Depot, as parcels" } }
patterns:
  depots: { find: Depot, where: "region = :region", page: 50, rate: 100/s }
writes:
  send: { create: Parcel, rate: 1/s }
"""


def test_what_is_computed_of_a_row_comes_with_it_through_an_index(tmp_path: Path) -> None:
    """The row that an index leads to has it: nothing is fetched a second time by key."""
    model = keyplan.parse_model(COUNTED)
    design = keyplan.design(model, "sqlite")
    assert [[str(part) for part in view.parts] for view in design.views.values() if view.kind == "index"] == [
        ["region", "depot_id"]
    ]
    assert len(keyplan.explain(model, design, "depots")["steps"]) == 1
    with keyplan.open(model, f"sqlite:{tmp_path / 'depots.db'}") as depots:
        depots.load([("Depot", {"depot_id": 1, "region": "north"})])
        depots.send(depot=1)
        depots.send(depot=1)
        assert depots.depots(region="north").rows == [{"depot_id": 1, "region": "north", "parcel_count": 2}]
