"""An index that does not hold what its table does is found by `verify`, and made again by a repair."""

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
    fields: { parcel_id: "int, key", code: "string(8), unique", depot: "string(10), distinct 500", weight: int }
patterns:
  weights: { find: Parcel, where: "depot = :depot", select: [parcel_id, weight], rate: 100/s }
writes:
  send: { create: Parcel, rate: 1/s }
"""


def behind_its_back(file: Path, index: str, change: str) -> None:
    """Changes rows while an index is not in the schema, so that SQLite does not keep it."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("CREATE TABLE aside AS SELECT * FROM sqlite_schema WHERE name = ?", (index,))
        connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (index,))
    connection.close()
    with sqlite3.connect(file) as connection:
        connection.execute(change)
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("INSERT INTO sqlite_schema SELECT * FROM aside")
        connection.execute("DROP TABLE aside")
    connection.close()


@pytest.mark.parametrize(
    "change",
    ["UPDATE Parcel SET weight = 9 WHERE parcel_id = 1", "DELETE FROM Parcel WHERE parcel_id = 1"],
)
def test_a_stale_index_is_found_and_made_again(tmp_path: Path, change: str) -> None:
    file, model = tmp_path / "parcels.db", keyplan.parse_model(MODEL)
    url = f"sqlite:{file}"
    with keyplan.open(model, url) as parcels:
        for number in range(5):
            parcels.send(parcel_id=number, code=str(number), depot="north", weight=number)
        assert parcels.verify().ok
    with sqlite3.connect(file) as connection:
        ((index,),) = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'ix%'").fetchall()
    connection.close()
    behind_its_back(file, index, change)
    fault = f"index {index} does not hold what its table does"
    with keyplan.open(model, url) as parcels:
        assert len(parcels.weights(depot="north").rows) == 5
        found = parcels.verify()
        assert (found.ok, found.structures, found.repaired) == (False, [fault], 0)
        assert parcels.verify(repair=True).repaired == 1
        assert parcels.verify().ok
        weights = {row["parcel_id"]: row["weight"] for row in parcels.weights(depot="north").rows}
    assert weights == {0: 0, 2: 2, 3: 3, 4: 4} | ({1: 9} if "UPDATE" in change else {})


def test_a_unique_index_that_cannot_be_made_again(tmp_path: Path) -> None:
    file, model = tmp_path / "parcels.db", keyplan.parse_model(MODEL)
    with keyplan.open(model, f"sqlite:{file}") as parcels:
        for number in range(2):
            parcels.send(parcel_id=number, code=str(number), depot="north", weight=number)
    behind_its_back(file, "ux_Parcel_code", "UPDATE Parcel SET code = 'same'")
    with keyplan.open(model, f"sqlite:{file}") as parcels:
        assert parcels.verify().structures == ["index ux_Parcel_code does not hold what its table does"]
        with pytest.raises(
            keyplan.DesignMismatchError, match=r"UNIQUE constraint failed: Parcel.code; remove the rows"
        ):
            parcels.verify(repair=True)
