"""What a pattern's `rows` says holds for all its conditions together, be it more or less than the counts imply."""

from __future__ import annotations

from importlib import resources

import pytest

from keyplan.design import design
from keyplan.design.candidates.match import match
from keyplan.design.needs.need import believed, need_of_pattern, present_then_missing, rows_found
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from tests.unit.design.nouns import view
from tests.unit.design.support import NOTES

IMPLIED = 200.0
"""A tenth of the 2,000 notes about a topic, because the time between two moments is taken to be that."""


def asked(rows: float | None, what: str = "find: Note, page: 5000") -> Model:
    said = f"rows: {rows}, " if rows is not None else ""
    about = f'about: {{ {what}, where: "topic = :topic and made_at between :a and :b", {said}rate: 10/s }}'
    text = NOTES.replace("writes:\n", f"  {about}\nwrites:\n")
    return parse_model(text.replace("timestamp, now", "timestamp, now\n      rank: int, optional 50%"))


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("rows", [None, 5.0, 1000.0])
def test_a_plan_finds_so_many(engine: str, rows: float | None) -> None:
    plan = design(asked(rows), get_engine(engine)).plans["about"]
    assert plan.figures.rows == pytest.approx(rows or IMPLIED)


@pytest.mark.parametrize(("rows", "by_topic"), [(5.0, 2000.0), (1000.0, 2000.0), (3000.0, 3000.0)])
def test_what_meets_some_of_the_conditions_is_at_least_so_many(rows: float, by_topic: float) -> None:
    model = asked(rows)
    statistics = Statistics(model)
    need = believed(statistics, need_of_pattern(model, model.patterns["about"]))
    assert rows_found(statistics, need) == rows
    kind = get_engine("sqlite").kinds["index"]
    found = match(model, statistics, kind, view(model, "| topic, note_id", entity="Note", kind="index"), need)
    assert found is not None
    assert (found.entries, found.rows) == (by_topic, rows)
    whole = match(model, statistics, kind, view(model, "| topic, made_at, note_id", entity="Note", kind="index"), need)
    assert whole is not None
    assert (whole.entries, whole.rows) == (rows, rows)


def test_rows_without_the_value_they_are_ordered_by_are_a_share_of_them() -> None:
    model = asked(20.0, "find: Note, order: rank, page: 5")
    statistics = Statistics(model)
    parts = present_then_missing(model, believed(statistics, need_of_pattern(model, model.patterns["about"])))
    assert parts is not None
    assert [rows_found(statistics, each) for each in parts] == [20, 10]  # where it is asked for, as if all had it


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("what", ["sum: Note.rank", "find: Note, order: made_at, page: 5000"])
def test_fewer_rows_never_cost_more(engine: str, what: str) -> None:
    """Of all rows; a page is full the sooner, the more there are."""
    found = [design(asked(rows, what), get_engine(engine)).objective.value for rows in (0.5, 5, 50, 200, 1000, 5000)]
    assert found == sorted(found)


def test_the_starter_says_what_its_counts_imply() -> None:
    model = parse_model((resources.files("keyplan.cli") / "starter.yaml").read_text())
    for pattern in model.patterns.values():
        if pattern.rows is not None:
            assert Statistics(model).matched(pattern.entity, pattern.where) == pytest.approx(pattern.rows)


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("rows", [5.0, 1000.0])
def test_a_write_finds_as_many_rows_as_it_says(engine: str, rows: float) -> None:
    where = 'where: "topic = :topic and made_at between :a and :b"'
    drop = f"drop: {{ delete: Note, {where}, rows: {rows}, rate: 10/s }}"
    model = parse_model(NOTES.replace("writes:\n", f"writes:\n  {drop}\n"))
    (found,) = [step for step in design(model, get_engine(engine)).writes["drop"].steps if "rows" in step][:1]
    assert found["rows"] == pytest.approx(rows)
