"""Which conditions the key of a view answers, what is left of them, and in what order the rows come."""

from __future__ import annotations

import pytest

from keyplan.design.candidates.match import Match
from keyplan.model.model import Model
from tests.unit.design.nouns import SHOP, matched, model_of, view


def asked(where: str = "", order: str = "", more: str = "") -> Model:
    """A model with one pattern `p` on orders."""
    parts = ["find: Order"]
    parts += [f'where: "{where}"'] if where else []
    parts += [f'order: "{order}"'] if order else []
    parts += [more] if more else []
    return model_of(SHOP, f"p: {{ {', '.join(parts)} }}")


def found(model: Model, key: str, **more: object) -> Match:
    result = matched(model, view(model, key), **more)  # type: ignore[arg-type]
    assert result is not None
    return result


def texts(conditions: tuple[object, ...]) -> list[str]:
    return [str(condition).split()[0] + " " + str(condition).split()[1] for condition in conditions]


@pytest.mark.parametrize(
    ("where", "key", "given", "left"),
    [
        ("order_id = :a", "order_id", ["order_id ="], []),
        ("user = :a", "user | order_id", ["user ="], []),
        ("user = :a and total > :b", "user | total, order_id", ["user =", "total >"], []),
        ("user = :a and total > :b and total <= :c", "user | total, order_id", ["user =", "total >", "total <="], []),
        # After a range, the rest of the key answers nothing.
        ("user = :a and total > :b and status = :c", "user | total, status, order_id", ["user =", "total >"],
         ["status ="]),
        # A gap in the sort key ends it as well.
        ("user = :a and status = :c", "user | total, status, order_id", ["user ="], ["status ="]),
        ("user = :a and status in :c", "user | status, order_id", ["user =", "status in"], []),
        ("user = :a and status != :c", "user | status, order_id", ["user ="], ["status !="]),
        ("user = :a and day(created_at) = :d", "user | created_at, order_id", ["user =", "day(created_at) ="], []),
        ("contains(tags, :t)", "each(tags) | order_id", ["contains(tags, :t)"], []),
    ],
)  # fmt: skip
def test_the_key_answers(where: str, key: str, given: list[str], left: list[str]) -> None:
    result = found(asked(where), key)
    assert texts(result.given) == given
    assert texts(result.filter) == left


def test_a_partition_has_to_be_named_whole() -> None:
    model = asked("user = :a")
    assert matched(model, view(model, "user, status | order_id")) is None
    # One sorted sequence can be read from any prefix.
    assert found(model, "| user, status, order_id", engine="sqlite").given


def test_entries_of_elements_cannot_stand_for_rows() -> None:
    model = asked("user = :a")
    assert matched(model, view(model, "user | each(tags), order_id")) is None


@pytest.mark.parametrize(
    ("order", "key", "native", "backwards"),
    [
        ("created_at", "user | created_at, order_id", True, False),
        ("created_at desc", "user | created_at, order_id", True, True),
        ("created_at, total", "user | created_at, total, order_id", True, False),
        ("created_at desc, total", "user | created_at, total, order_id", False, False),
        ("created_at desc, total", "user | created_at, total desc, order_id desc", True, True),
        ("created_at, total desc", "user | created_at, total desc, order_id desc", True, False),
        ("created_at", "user | total, created_at, order_id", False, False),
        ("created_at", "user | order_id", False, False),
        # What an equality fixes does not disturb the order.
        ("user, created_at", "user | created_at, order_id", True, False),
        ("user desc", "user | order_id", True, True),
    ],
)
def test_native_orders(order: str, key: str, native: bool, backwards: bool) -> None:
    result = found(asked("user = :a", order, "page: 10"), key)
    assert result.ordered is native
    assert result.descending is backwards


def test_ties_are_broken_in_the_direction_of_the_last_term() -> None:
    result = found(asked("user = :a", "created_at desc", "page: 10"), "user | created_at, order_id")
    assert [(str(term.path), term.descending) for term in result.order] == [("created_at", True), ("order_id", True)]


def test_shards_are_read_one_by_one_and_merged() -> None:
    result = found(asked("status = :a", "created_at", "page: 10"), "status, shard 8 | created_at, order_id")
    assert result.spans == 8
    assert result.ordered


def test_a_view_of_some_rows_answers_only_who_asks_for_them() -> None:
    model = asked("status = 'pending'", "created_at", "page: 10")
    (condition,) = model.patterns["p"].where
    seen = view(model, "| created_at, order_id", where=(condition,))
    result = matched(model, seen)
    assert result is not None
    assert result.given == result.filter == ()
    assert result.entries == pytest.approx(1.2e6)
    assert not result.scan
    other = asked("status = 'shipped'", "created_at", "page: 10")
    assert matched(other, seen) is None


def test_what_a_view_does_not_hold_is_missing_or_left() -> None:
    model = asked("user = :a and total > :b")
    result = matched(model, view(model, "user | order_id", holds=("order_id", "user")))
    assert result is not None
    assert "status" in result.missing
    assert result.filter == ()
    assert texts(result.left) == ["total >"]
