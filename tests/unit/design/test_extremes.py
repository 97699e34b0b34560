"""How often the least or greatest of many values changes when one of them does."""

from __future__ import annotations

import pytest

from keyplan.design.upkeep.effects import Effect
from keyplan.design.upkeep.extremes import chance_of_change
from tests.unit.design.nouns import model_of

MODEL = """
Talk: { count: 1k, fields: { tid: "int, key", last: max(lines.at), first: min(lines.at), most: max(lines.v),
        many: count(lines), sum: sum(lines.v) } }
Line: { count: 20k, fields: { lid: "int, key", talk: "Talk, as lines", at: timestamp, v: int } }
"""
WRITES = """
edit: { update: Line, set: [v], where: "lid = :l" }
wake: { update: Line, set: {at: now}, where: "lid = :l" }
"""


@pytest.mark.parametrize(
    ("kind", "write", "column", "field", "expected"),
    [
        ("delete", "edit", "", "last", 0.05),
        ("delete", "edit", "", "many", 1.0),
        ("delete", "edit", "", "sum", 1.0),
        ("update", "edit", "talk", "last", 0.05),
        ("update", "edit", "v", "most", 0.1),
        ("update", "wake", "at", "last", 1.0),
        ("update", "wake", "at", "first", 0.1),
        ("create", "edit", "", "last", 1.0),
        ("create", "edit", "", "first", 0.05),
        ("create", "edit", "", "most", 0.18),
        ("replace", "edit", "", "most", 0.23),
        ("replace", "edit", "", "last", 1.0),
    ],
)
def test_of_twenty_values_one_is_the_greatest(kind: str, write: str, column: str, field: str, expected: float) -> None:
    model = model_of(MODEL, 'p: { find: Talk, where: "tid = :t" }', WRITES)
    talk = model.entities["Talk"]
    computed = talk.columns[field].computed
    assert computed is not None
    effect = Effect("Line", kind, 1.0, frozenset({column} if column else ()))
    found = chance_of_change(model, model.writes[write], effect, talk.roles["lines"], computed, 20.0)
    assert found == pytest.approx(expected, abs=0.01)
    alone = chance_of_change(model, model.writes[write], effect, talk.roles["lines"], computed, 1.0)
    assert alone == 1.0
