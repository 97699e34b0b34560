"""Entities with more columns than a table of SQLite has."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.engines import get_engine
from keyplan.engines.sqlite.limits import COLUMNS
from keyplan.errors import DesignError
from keyplan.plan.design import Design
from tests.unit.design.nouns import model_of


def designed(fields: int) -> Design:
    lines = "\n".join(f"    f{one}: int" for one in range(fields))
    entities = f"Wide:\n  count: 100\n  fields:\n    id: uuid, key\n{lines}"
    return design(model_of(entities, 'one: { find: Wide, where: "id = :id", rate: 1/s }', ""), get_engine("sqlite"))


def test_what_no_table_holds_is_refused_by_the_design() -> None:
    assert designed(COLUMNS - 1).plans.keys() == {"one"}
    with pytest.raises(DesignError, match=r"a home of 'Wide': it would have 2,001 columns, and a table of sqlite has"):
        designed(COLUMNS)
    with pytest.raises(DesignError, match="split the entity in two, or keep what is not asked for"):
        designed(COLUMNS + 1000)
