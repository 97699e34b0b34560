# ruff: noqa: PT017 (an error is allowed here, not demanded)
"""Whatever stands in a model file, loading it gives a Model or a ModelError."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from keyplan.errors import ModelError
from keyplan.model import syntax
from keyplan.model.load import model_from, parse_model

MODELS = [
    *(path.read_text() for path in sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))),
    *(path.read_text() for path in sorted((Path(__file__).parent / "problems").glob("*.yaml"))),
]
TOKENS = [
    *("key", "unique", "optional", "60%", "int", "string(3)", "set(int)", "as", "max", "3", "User", "Order", "count()"),
    *("order", "user", "items", "and", "=", ":x", "-:x", "in", "(", ")", "between", "'a'", "day(", ",", ".", "now"),
    *("null", "[", "]", "{", "}", "from", "sum(", "*", "-", "desc", "find", "create", "where", "set", "ago('3d')"),
    *("json", "float", "ulid", "default", "x3", "5x", "1/s", "\x00", "é", "\n", "  ", ": ", "$expires", "?", "a.b.c"),
]


def loads_or_complains(text: str) -> None:
    try:
        parse_model(text)
    except ModelError as error:
        assert error.problems
        assert all(problem.message for problem in error.problems)
        lines = [problem.line for problem in error.problems]
        assert lines == sorted(lines)


@pytest.mark.thorough
@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text(text: str) -> None:
    loads_or_complains(text)


@pytest.mark.thorough
@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.large_base_example, HealthCheck.too_slow])
def test_mutated_models(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(MODELS))
    lines = text.splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        kind = data.draw(st.sampled_from(["drop", "repeat", "swap", "cut", "word", "replace", "indent"]))
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "repeat":
            lines.insert(at, line)
        elif kind == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], line
        elif kind == "indent":
            lines[at] = "  " + line
        else:
            start = data.draw(st.integers(0, len(line)))
            end = start if kind == "word" else data.draw(st.integers(start, len(line)))
            word = "" if kind == "cut" else data.draw(st.sampled_from(TOKENS))
            lines[at] = line[:start] + word + line[end:]
    loads_or_complains("\n".join(lines))


@given(
    st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join),
    st.sampled_from(["type", "where", "order", "value", "sum"]),
)
@settings(max_examples=300, deadline=None)
@example("'", "where")
def test_any_words_where_text_is_parsed(words: str, place: str) -> None:
    fields: dict[str, object] = {"id": "int, key", "user": "User, as items", "at": "timestamp", "n": "int"}
    model: dict[str, object] = {"keyplan": "1", "entities": {"User": {"fields": fields}}}
    if place == "type":
        fields["x"] = words
    elif place == "where":
        model["patterns"] = {"p": {"find": "User", "where": words}}
    elif place == "order":
        model["patterns"] = {"p": {"find": "User", "order": words}, "q": {"count": "User", "group": [words]}}
    elif place == "value":
        model["writes"] = {"w": {"update": "User", "set": {"n": words, "at": words}, "where": "id = :id"}}
    else:
        model["patterns"] = {"p": {"from": "User", "compute": {"x": words}}}
    try:
        model_from(model)
    except ModelError as error:
        assert error.problems


tree = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(TOKENS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.sampled_from(TOKENS), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.thorough
@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_tree_in_any_place(data: st.DataObject) -> None:
    model: dict[str, object] = {
        "keyplan": 1,
        "entities": {
            "User": {"count": 5, "fields": {"id": "int, key", "boss": "User, as staff, max 5", "tags": "set(int)"}}
        },
        "patterns": {"p": {"find": "User", "where": "boss = :b", "order": "id", "with": ["staff"], "rows": 3}},
        "writes": {
            "w": {"update": "User", "set": {"tags": [1]}, "where": "id = :id", "if": "id = 3", "return": ["id"]}
        },
        "transactions": {"t": ["w"]},
        "targets": {"sqlite": {"a": 1}},
    }
    place: dict[str, object] = model
    while True:
        key = data.draw(st.sampled_from(list(place)))
        below = place[key]
        if not isinstance(below, dict) or data.draw(st.integers(0, 3)) == 0:
            place[key] = data.draw(tree)
            break
        place = below
    try:
        model_from(model)
    except ModelError as error:
        assert error.problems


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_parsers_raise_only_their_own_error(text: str) -> None:
    for parse in (
        syntax.parse_items,
        syntax.parse_where,
        syntax.parse_order,
        syntax.parse_value,
        syntax.parse_aggregate,
    ):
        try:
            parse(text)
        except syntax.TextError as error:
            assert str(error)


@pytest.mark.parametrize(
    "text",
    [
        "sum(" + "(" * 20_000 + "a" + ")" * 20_000 + ")",
        "sum(" + "a + " * 5000 + "a)",
        "sum(" + "-" * 90 + "a)",
    ],
)
def test_deep_expressions_do_not_exhaust_the_stack(text: str) -> None:
    try:
        syntax.parse_aggregate(text)
    except syntax.TextError as error:
        assert str(error)


@pytest.mark.thorough
def test_a_long_chain_of_keys_is_refused() -> None:
    entities: dict[str, object] = {"E0": {"fields": {"id": "int, key"}}}
    for number in range(1, 1100):
        entities[f"E{number}"] = {"fields": {"up": f"E{number - 1}, key"}}
    reverse = dict(reversed(entities.items()))
    for some in (entities, reverse):
        try:
            model_from({"keyplan": 1, "entities": some})
        except ModelError as error:
            assert error.problems
