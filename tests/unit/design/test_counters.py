"""Revenue by the day of the order and the category of the product is added up as it is earned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keyplan.design import design
from keyplan.design.hints import whole_groups
from keyplan.engines import get_engine
from keyplan.plan.steps import Fold, Search
from tests.unit.design.support import designed, example


@pytest.mark.parametrize("engine", ["sqlite", "dynamodb"])
def test_revenue_of_the_shop_by_whole_days_is_read_from_a_counter(engine: str) -> None:
    shop = example("shop")
    milder = whole_groups(shop.patterns["revenue"])
    assert milder is not None
    found = design(replace(shop, patterns={**shop.patterns, "revenue": milder[1]}), get_engine(engine))
    plan = found.plans["revenue"].node
    assert isinstance(plan, Fold)
    assert plan.merged
    assert isinstance(plan.rows, Search)
    view = found.views[plan.rows.view]
    assert [str(part) for part in view.parts] == ["day(order.created_at)", "product.category or missing"]
    assert {"order.created_at", "product.category"} <= {
        path for one in found.views.values() for path in (*one.holds, *(p for e in one.embeds for p in e.holds))
    }
    assert found.objective.value < designed("shop", engine).objective.value * 0.7
