"""`keyplan init` and `keyplan schema`."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import yaml

from tests.cli.conftest import EXAMPLES, Keyplan, assert_fails


def test_init_prints_a_model(keyplan: Keyplan) -> None:
    result = keyplan("init")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["keyplan"] == 1


def test_init_writes_a_model_that_loads_without_a_warning(keyplan: Keyplan) -> None:
    result = keyplan("init", "shop.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    designed = keyplan("design", "shop.yaml", "--engine", "sqlite")
    assert (designed.exit_code, designed.stderr) == (0, "")


def test_init_never_overwrites(keyplan: Keyplan) -> None:
    Path("shop.yaml").write_text("mine")
    assert_fails(keyplan("init", "shop.yaml"), "keyplan: 'shop.yaml' exists; name another file or remove it")
    assert Path("shop.yaml").read_text() == "mine"


def test_init_into_a_directory_that_is_not_there(keyplan: Keyplan) -> None:
    assert_fails(keyplan("init", "nowhere/shop.yaml"), "nowhere/shop.yaml: no such file or directory; check the name")


def test_schema_accepts_every_example_and_refuses_a_typo(keyplan: Keyplan) -> None:
    schema = json.loads(keyplan("schema").stdout)
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for file in EXAMPLES.glob("*.yaml"):
        # As keyplan reads it: every scalar is text.
        assert not list(validator.iter_errors(yaml.load(file.read_text(), yaml.BaseLoader))), file.name
    assert list(validator.iter_errors({"keyplan": "1", "name": "x", "entitis": {}}))
