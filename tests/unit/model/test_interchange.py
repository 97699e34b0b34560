"""Arguments and rows from texts and JSON, and answers back to JSON."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from keyplan.errors import ArgumentError
from keyplan.model.arguments import bind_params
from keyplan.model.interchange import arguments_from_text, row_from_json, to_plain
from keyplan.model.json_text import parse_json
from keyplan.model.load import parse_model
from keyplan.model.new_row import row_from_arguments

MODEL = parse_model(
    """
keyplan: 1
name: things
entities:
  Box:
    count: 100
    key: [shelf, place]
    fields:
      shelf: string(8)
      place: int
      weight: float
      seal: bytes(8)
      labels: set(string(8))
      open: bool
      notes: json(50), optional 50%
  Thing:
    count: 1k
    fields:
      thing_id: uuid, key
      box: Box, as things, max 20
      price: decimal(2)
      made: date
      seals: list(bytes(4))
patterns:
  boxes_at: { find: Box, where: "place in :places[3] and open = :open", limit: 10, rate: 1/s }
  box_at: { find: Box, where: "shelf = :shelf and place = :place", with: [things], rate: 1/s }
  things_since: { find: Thing, where: "made >= :since and price < :most", limit: 10, rate: 1/s }
writes:
  add_box: { create: Box, with: [things], rate: 1/s }
  add_thing: { create: Thing, rate: 1/s }
  reprice: { update: Thing, set: [price], where: "thing_id = :thing_id", rate: 1/s }
transactions:
  move: [add_box, reprice x2 max 5]
"""
)


def test_texts_become_what_calls_take() -> None:
    given = arguments_from_text(MODEL, "boxes_at", {"places": "1, 2,3", "open": "true"})
    assert given == {"places": [1, 2, 3], "open": True}
    assert arguments_from_text(MODEL, "boxes_at", {"places": "[4]"}) == {"places": [4]}
    assert arguments_from_text(MODEL, "boxes_at", {"places": ""}) == {"places": []}
    given = arguments_from_text(MODEL, "things_since", {"since": "2026-01-31", "most": "9.90"})
    bound = bind_params(MODEL, MODEL.patterns["things_since"], given)
    assert bound == {"since": date(2026, 1, 31), "most": Decimal("9.90")}


def test_rows_nest() -> None:
    thing = {"price": parse_json("1.10"), "made": "2026-01-31", "seals": ["AQI="]}
    box = {"shelf": "a", "place": "7", "weight": "1.5", "seal": "AQI=", "labels": "x,y", "open": "false"}
    given = arguments_from_text(MODEL, "add_box", box, {"things": [thing]})
    assert given["place"] == 7
    assert given["weight"] == 1.5
    assert given["seal"] == b"\x01\x02"
    assert given["labels"] == ["x", "y"]
    assert given["things"] == [{"price": Decimal("1.10"), "made": "2026-01-31", "seals": [b"\x01\x02"]}]
    inline = arguments_from_text(MODEL, "add_box", {"things": json.dumps([{"price": "1.10"}])})
    assert inline == {"things": [{"price": "1.10"}]}


@pytest.mark.parametrize("text", ["a,7", '["a", 7]'])
def test_a_reference_of_two_parts(text: str) -> None:
    assert arguments_from_text(MODEL, "add_thing", {"box": text}) == {"box": ("a", 7)}


def test_transactions_take_their_writes() -> None:
    given = arguments_from_text(
        MODEL, "move", {}, {"add_box": {"weight": Decimal("0.5")}, "reprice": [{"price": Decimal("2.5")}]}
    )
    assert given == {"add_box": {"weight": 0.5}, "reprice": [{"price": Decimal("2.5")}]}
    assert isinstance(given["add_box"]["weight"], float)


def test_rows_for_load() -> None:
    row = row_from_json(MODEL, "Box", {"shelf": "a", "place": 1, "seal": "AQI=", "notes": {"x": Decimal("1.5")}})
    assert row == {"shelf": "a", "place": 1, "seal": b"\x01\x02", "notes": {"x": 1.5}}
    assert isinstance(row["notes"]["x"], float)


@pytest.mark.parametrize(
    ("name", "texts", "message"),
    [
        ("box", {}, "no pattern, write or transaction 'box'; did you mean 'box_at'?"),
        ("box_at", {"place": "seven"}, "box_at: argument 'place': expected a whole number, got 'seven'"),
        ("boxes_at", {"open": "yes"}, "boxes_at: argument 'open': expected true or false, got 'yes'"),
        ("boxes_at", {"places": "[1"}, "boxes_at: argument 'places': is not JSON"),
        (
            "boxes_at",
            {"places": '["1'},
            "boxes_at: argument 'places': is not JSON: Unterminated string starting at character 2",
        ),
        ("add_thing", {"box": "a"}, "add_thing: argument 'box': expected 2 values"),
        ("add_box", {"seal": "?"}, "add_box: argument 'seal': expected base64"),
        ("add_box", {"things": "7"}, "add_box: argument 'things': expected a JSON object, got 7"),
    ],
)
def test_mistakes(name: str, texts: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        arguments_from_text(MODEL, name, texts)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "has 'a' twice; leave one out"),
        ("9" * 5000, "has a number with too many digits; shorten it"),
        ("[NaN]", "'NaN' is not JSON; give a finite number"),
        ("{", "is not JSON: Expecting property name enclosed in double quotes at character 2; check quotes, commas …"),
        ("[" * 100_000, "is nested too deep; make it simpler"),
    ],
    ids=["twice", "digits", "nan", "open", "deep"],
)
def test_a_json_value_is_read_as_json_in_a_file_is(text: str, said: str) -> None:
    reason = re.escape(said).replace("…", ".*")
    with pytest.raises(ArgumentError, match=f"add_box: argument 'notes': {reason}$"):
        arguments_from_text(MODEL, "add_box", {"notes": text})
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse_json(text)


def test_numbers_in_a_json_value_are_the_same_from_both() -> None:
    text = "[0.1, 1e-7, -0.0, 123456789.123456789, 12345678901234567890]"
    inline = arguments_from_text(MODEL, "add_box", {"notes": text})
    assert repr(inline) == repr(arguments_from_text(MODEL, "add_box", {}, {"notes": parse_json(text)}))


def test_unknown_arguments_are_left_to_the_call() -> None:
    assert arguments_from_text(MODEL, "box_at", {"plaice": "7"}) == {"plaice": "7"}


@pytest.mark.parametrize("depth", [101, 400, 700])
def test_what_is_nested_deeper_than_it_can_be_taken(depth: int) -> None:
    """Whatever of it the parser lets through is refused here, or by the call."""
    given = parse_json(f"{'[' * depth}{']' * depth}")
    box = {"shelf": "a", "place": 1, "weight": 1, "seal": "", "open": True, "labels": [], "notes": given}
    with pytest.raises(ArgumentError, match=r"'notes'.* deep; make it simpler"):
        row_from_arguments(MODEL, "load", "Box", row_from_json(MODEL, "Box", box), now=datetime.now(UTC))


def test_rows_in_lists_in_lists() -> None:
    with pytest.raises(ArgumentError, match="argument 'things': is nested too deep"):
        arguments_from_text(MODEL, "add_box", {}, {"things": parse_json(f"{'[' * 800}{']' * 800}")})


def test_a_field_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ArgumentError, match="Box: argument 'seal': expected base64"):
        row_from_json(MODEL, "Box", {"shelf": "a", "place": 1, "seal": "?"})


def test_unknown_entities() -> None:
    with pytest.raises(ArgumentError, match=r"no entity 'Bax'; did you mean 'Box'\?"):
        row_from_json(MODEL, "Bax", {})


@pytest.mark.parametrize("text", ["{", "NaN", "[" * 100_000])
def test_what_is_not_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|nested"):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "has 'c' twice; leave one out"),
        (f"[{'9' * 5_000}]", "has a number with too many digits; shorten it"),
    ],
)
def test_json_that_cannot_have_been_meant(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        parse_json(text)


def test_long_values_are_not_repeated_whole() -> None:
    with pytest.raises(ArgumentError, match=f"got '{'9' * 60}…'; give one such as 42$"):
        arguments_from_text(MODEL, "box_at", {"place": "9" * 5_000})


def test_answers_become_json() -> None:
    number = UUID(int=7)
    answer = {
        "id": number,
        "at": datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "price": Decimal("1E+2"),
        "set": frozenset(["b", "a"]),
        "ids": frozenset([UUID(int=9), number]),
        "rows": [{"seal": b"\x01\x02", "box": ("a", 7), "gone": None}],
    }
    assert to_plain(answer) == {
        "id": str(number),
        "at": "2026-01-31T12:00:00.005Z",
        "day": "2026-01-31",
        "price": "100",
        "set": ["a", "b"],
        "ids": [str(number), str(UUID(int=9))],
        "rows": [{"seal": "AQI=", "box": ["a", 7], "gone": None}],
    }
    json.dumps(to_plain(answer))
