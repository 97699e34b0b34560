"""The JSON Schema agrees with the loader: it takes every example and refuses wrong shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from keyplan.model.load import model_from
from keyplan.model.schema import json_schema

ROOT = Path(__file__).parents[3]
VALIDATOR = Draft202012Validator(json_schema())  # type: ignore[no-untyped-call,unused-ignore]


def small() -> dict[str, Any]:
    return {"keyplan": 1, "entities": {"User": {"count": 5, "fields": {"id": {"type": "int", "key": True}}}}}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_fits(path: Path) -> None:
    data = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []
    assert [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(path.read_text()))] == []


def test_the_long_forms_fit() -> None:
    data = small()
    data["entities"]["User"]["fields"] |= {
        "name": {"type": "string", "size": 20, "max": 100, "unique": True, "optional": "60%", "note": "x"},
        "kind": {"type": "enum", "values": {"a": "90%", "b": "10%"}, "default": "a"},
        "boss": {"type": "User", "as": "staff", "max": 5},
        "tags": {"type": "set", "of": "string(4)", "avg": 3, "max": 5},
    }
    data["entities"]["User"]["ttl"] = {"after": "5d"}
    data["patterns"] = {
        "a": {"find": "User", "where": ["id = :id"], "with": [{"staff": {"order": "id", "limit": 3}}, "boss.name"]},
        "b": {"from": "User", "compute": {"n": "count()"}, "group": {"k": "kind"}, "order": "n desc", "limit": 3},
    }
    data["writes"] = {"w": {"update": "User", "set": {"tags": ["a"], "name": None}, "where": "id = :id"}}
    data["transactions"] = {"t": {"writes": [{"write": "w", "usual": 2, "max": 5}], "rate": "1/s"}}
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []
    model_from(data)


@pytest.mark.parametrize(
    "change",
    [
        {"keyplan": 2},
        {"entities": {}},
        {"entities": {"User": {"fields": {}}}},
        {"entities": {"User": {"fields": {"id": "int, key"}, "cuont": 3}}},
        {"entities": {"User": {"fields": {"id": {"size": 3}}}}},
        {"entities": {"1User": {"fields": {"id": "int, key"}}}},
        {"patterns": {"p": {"where": "id = 3"}}},
        {"patterns": {"p": {"find": "User", "count": "User"}}},
        {"patterns": {"p": {"find": "User", "wher": "id = 3"}}},
        {"patterns": {"p": {"find": "User", "consistency": "strng"}}},
        {"writes": {"w": {"set": ["a"]}}},
        {"transactions": {"t": []}},
        {"limits": {}},
    ],
    ids=str,
)
def test_wrong_shapes_are_refused_as_the_loader_refuses_them(change: dict[str, Any]) -> None:
    data = {**small(), **change}
    assert not VALIDATOR.is_valid(data)
    with pytest.raises(Exception, match="model: "):
        model_from(data)
