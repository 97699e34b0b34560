"""Files that are not what they should be, before anything in them is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.errors import ArgumentError, ModelError
from keyplan.model.load import load_model, model_from, parse_model
from keyplan.model.source import Items, Report, Table, Text, read_plain, read_yaml


def problems(text: str | bytes) -> list[tuple[int, str]]:
    with pytest.raises(ModelError) as caught:
        parse_model(text)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_every_scalar_is_text() -> None:
    node = read_yaml("a: on\nb: 010\nc: no\nd: 1e3\ne: ~\nf: 2024-01-01\ng: 'x'", Report("f"))
    assert isinstance(node, Table)
    texts = {name: value.text for name, value in node.entries.items() if isinstance(value, Text)}
    assert texts == {"a": "on", "b": "010", "c": "no", "d": "1e3", "e": "~", "f": "2024-01-01", "g": "x"}
    plain = [value.plain for value in node.entries.values() if isinstance(value, Text)]
    assert plain == [True, True, True, True, True, True, False]


def test_nodes_know_their_lines_and_paths() -> None:
    node = read_yaml("a:\n  b:\n    - x\n    - y\n", Report("f"))
    assert isinstance(node, Table)
    inner = node.entries["a"]
    assert isinstance(inner, Table)
    assert (inner.line, inner.path) == (1, "a")
    items = inner.entries["b"]
    assert isinstance(items, Items)
    assert [(item.line, item.path) for item in items.items] == [(3, "a.b[0]"), (4, "a.b[1]")]


def test_plain_values_give_the_same_nodes() -> None:
    report = Report("f")
    node = read_plain({"a": [True, 3, None, "x", 1.5]}, report)
    assert isinstance(node, Table)
    items = node.entries["a"]
    assert isinstance(items, Items)
    assert [item.text for item in items.items if isinstance(item, Text)] == ["true", "3", "null", "x", "1.5"]
    assert not report.problems


def test_too_large() -> None:
    expected = [(1, "the file is larger than 5 MB; split the model or drop what it does not need")]
    assert problems("#" * 5_000_001) == expected
    assert problems(b"#" * 5_000_001) == expected
    assert problems("é" * 2_600_000) == expected


def test_a_large_file_is_not_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(10**10)
    with pytest.raises(ModelError, match="larger than 5 MB"):
        load_model(path)


def test_deep_nesting() -> None:
    told = "nested deeper than 50 levels; a model needs no more than six"
    assert problems("[" * 200_000) == [(1, told)]
    assert problems("a: " + "{a: " * 60 + "}" * 60) == [(1, told)]
    block = "".join(" " * depth + "a:\n" for depth in range(60))
    assert problems(block) == [(51, told)]


def test_not_utf8() -> None:
    assert problems(b"keyplan: 1\nname: \xff\n") == [(2, "the file is not UTF-8; save it in that encoding")]
    assert problems("keyplan: 1".encode("utf-16"))[0][1] == "the file is not UTF-8; save it in that encoding"


def test_half_a_surrogate_pair() -> None:
    message = "the text holds half of a surrogate pair, which is not a character; remove it"
    assert problems("keyplan: 1\nname: \ud800") == [(2, message)]


def test_a_byte_order_mark_is_fine() -> None:
    model = parse_model(b"\xef\xbb\xbfkeyplan: 1\nentities: {A: {fields: {id: 'int, key'}}}")
    assert list(model.entities) == ["A"]


def test_not_yaml() -> None:
    ((line, message),) = problems("keyplan: 1\nname: 'x\n")
    assert line in (2, 3)
    assert message.startswith("not YAML: ")
    assert message.endswith("; check quotes, colons and indentation here")
    ((line, message),) = problems("keyplan: 1\na: b: c\n")
    assert line == 2
    ((line, message),) = problems("keyplan: 1\nname: \x07\n")
    assert line == 2
    assert message.startswith("not YAML: ")


def test_a_parameter_in_braces_is_told_to_want_quotes() -> None:
    ((line, message),) = problems("writes:\n  w: { update: A, add: {stock: :n} }\n")
    assert line == 2
    assert message.endswith("; put ':n' in quotes: \":n\"")


def test_several_documents() -> None:
    text = "keyplan: 1\nentities: {A: {fields: {id: 'int, key'}}}\n---\nb: 1\n"
    assert problems(text) == [(3, "a second document begins here; a model is one document, so remove the '---'")]


@pytest.mark.parametrize("text", ["", "   \n", "# nothing\n", "---\n..."])
def test_empty(text: str) -> None:
    ((_, message),) = problems(text)
    assert "keyplan: 1" in message


@pytest.mark.parametrize("text", [" x: y \n z'", "keyplan: 1\rab\rc: {", "ab\u2028c\u2028[: "])
def test_what_ends_too_early_is_named_by_its_last_line(text: str) -> None:
    (line, message), *_ = problems(text)
    assert line <= 3
    assert message


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file or directory; check the name"):
        load_model(tmp_path / "nothing.yaml")


def test_dicts_are_refused_with_their_path() -> None:
    with pytest.raises(ModelError) as caught:
        model_from({"keyplan": 1, "entities": {"A": {"fields": {"id": "int, key", "x": "itn", "y": object()}}}, 3: 4})
    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (0, "entities.A.fields.x: unknown type or entity 'itn'; did you mean 'int'?"),
        (0, "entities.A.fields.y: a object has no place in a model; use text, numbers, lists and dicts"),
        (0, "entities.A.fields.y: there is nothing here; write something or leave the key out"),
        (0, "the key 3 is not text; put it in quotes"),
    ]
    assert str(caught.value).startswith("model: entities.A.fields.x: ")


def test_a_dict_that_holds_itself() -> None:
    data: dict[str, object] = {"keyplan": 1}
    data["entities"] = data
    with pytest.raises(ModelError, match="nested deeper than 50 levels; a model needs no more than six"):
        model_from(data)


def test_tabs_are_named() -> None:
    with pytest.raises(ModelError) as caught:
        parse_model("keyplan: 1\nentities:\n\tA: 1\n")
    (problem,) = caught.value.problems
    assert (problem.line, problem.message.partition("; ")[2]) == (3, "indent with spaces, not with tabs")


@pytest.mark.parametrize("name", [5, None, {"keyplan": 1}])
def test_what_is_no_file_name_is_told(name: Any) -> None:
    with pytest.raises(ArgumentError, match="expected the name of a model's file, got "):
        load_model(name)
    with pytest.raises(ArgumentError, match="expected the name of a model's file, got "):
        keyplan.open(name, "sqlite::memory:")
