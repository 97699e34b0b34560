"""Columns that line up and fit, and figures that can be read."""

from __future__ import annotations

import pytest

from keyplan.cli.output import answer_text
from keyplan.cli.tables import heading, number, table


def test_columns_line_up() -> None:
    assert table(["name", "rows"], [["a", "1"], ["long", "1,000"]], right="rows") == [
        "name   rows",
        "a         1",
        "long  1,000",
    ]


def test_the_widest_columns_are_made_narrower_to_fit() -> None:
    lines = table(["a", "b", "c"], [["x" * 50, "y" * 30, "short"]], fit=50)
    assert max(map(len, lines)) == 50
    assert lines[1].endswith("y  short")


@pytest.mark.parametrize("wrap", ["", "b", "a b"])
def test_nothing_is_cut_off(wrap: str) -> None:
    # One who cannot read a name to its end cannot ask about it.
    name, text = "table Item_by_product_order_created_at", "all + order.created_at + product.category"
    for fit in range(20, 90):
        head, *lines = table(["a", "b", "c"], [[name, text, "120M"]], wrap=wrap, right="c", fit=fit)
        second = head.index("b")
        assert "".join("".join(line[:second] for line in lines).split()) == name.replace(" ", "")
        assert "".join("".join(line[second:] for line in lines).split()).replace("120M", "") == text.replace(" ", "")


def test_names_of_several_words_are_broken_between_them() -> None:
    lines = table(["a", "b"], [["index ix_Order_user_created_at", "1"]], fit=22)
    assert [line.removesuffix("1").rstrip() for line in lines[1:]] == ["index", "  ix_Order_user_", "  created_at"]


def test_names_that_are_joined_by_dots_are_broken_between_them() -> None:
    key = "PULLREQUEST.REPO.OWNER.REPO.NAME.STATUS#{repo.owner}#{repo.name}#{status}"
    lines = [line.rstrip() for line in table(["partition", "rows"], [[key, "1"]], wrap="partition", fit=42)[1:]]
    assert [line.removesuffix("1").rstrip() for line in lines] == [
        "PULLREQUEST.REPO.OWNER.REPO.NAME.",
        "  STATUS#{repo.owner}#{repo.name}#",
        "  {status}",
    ]


def test_a_long_name_is_broken_only_where_a_line_of_its_own_is_too_short() -> None:
    lines = table(["a", "b"], [["one", f"word, {'x' * 30}, last"]], wrap="b", fit=25)
    assert [line[5:] for line in lines[1:]] == ["word,", f"  {'x' * 18}", f"  {'x' * 12}, last"]
    lines = table(["a", "b"], [["one", f"word, {'x' * 17}, last"]], wrap="b", fit=25)
    assert [line[5:] for line in lines[1:]] == ["word,", f"  {'x' * 17},", "  last"]
    lines = table(["a", "b"], [["one", f"{'x' * 21}, last"]], wrap="b", fit=25)
    assert [line[5:] for line in lines[1:]] == ["x" * 20, "  x, last"]


@pytest.mark.parametrize("cell", ["", "x", "xy", "x y"])
def test_narrow_columns_that_may_wrap(cell: str) -> None:
    assert table(["a", "b"], [["one", cell]], wrap="b")[1:] == [f"one  {cell}".rstrip()]


def test_columns_are_never_cut_to_nothing() -> None:
    assert len(table(["a"] * 10, [["x" * 20] * 10], fit=20)[1]) == 10 * 8 + 9 * 2


@pytest.mark.parametrize(
    ("value", "text"), [(1e-9, "1e-09"), (0.00004, "0.00004"), (-3.14159, "-3.14"), (1e12, "1,000,000,000,000")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_headings_take_two_lines_where_one_is_too_short() -> None:
    assert heading("left", "right", fit=12) == "left   right"
    assert heading("left", "right", fit=10) == "left\nright"


def test_answers() -> None:
    assert answer_text(None) == "-"
    assert answer_text(7) == "7"
    assert answer_text([]) == "no rows"
    assert answer_text([{"a": 1, "b": {"c": "x"}}, {"a": None, "b": {"c": "two\nlines"}}]).splitlines() == [
        "a  b.c",
        "1  x",
        '-  "two\\nlines"',
    ]
    assert answer_text({"name": "x", "items": [{"line": 1}], "tags": ["a", "b"]}).splitlines() == [
        "name   x",
        "items",
        "  line",
        "     1",
        "tags   a, b",
    ]
