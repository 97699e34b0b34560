"""The language reference is complete and its models load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keyplan.model.load import TOP_KEYS, parse_model
from keyplan.model.load_entity import ENTITY_KEYS
from keyplan.model.load_field import LONG_KEYS
from keyplan.model.load_pattern import PATTERN_KEYS
from keyplan.model.load_write import REPEAT_KEYS, WRITE_KEYS
from keyplan.model.pattern import CUTS
from keyplan.model.reading import CALL_ARGUMENTS, STORE_METHODS
from keyplan.model.scope import FUNCTIONS
from keyplan.model.types import COLLECTIONS, SCALARS

TEXT = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
MODELS = re.findall(r"```yaml\n(keyplan: 1.*?)```", TEXT, re.DOTALL)


def test_there_are_models() -> None:
    assert len(MODELS) >= 2


@pytest.mark.parametrize("text", MODELS, ids=lambda text: text.split()[text.split().index("name:") + 1])
def test_models_load_without_a_warning(text: str) -> None:
    model = parse_model(text)
    assert model.warnings == ()
    assert model.patterns


@pytest.mark.parametrize(
    "names",
    [TOP_KEYS, ENTITY_KEYS, LONG_KEYS, PATTERN_KEYS, WRITE_KEYS, REPEAT_KEYS, SCALARS, COLLECTIONS, CUTS, FUNCTIONS],
)
def test_every_word_of_the_language_is_explained(names: tuple[str, ...]) -> None:
    code = " ".join(re.findall(r"`[^`]+`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)))
    words = set(re.findall(r"[a-z_0-9]+", code))
    assert [name for name in names if name not in words] == []


def test_refused_names_are_listed() -> None:
    assert " ".join(STORE_METHODS) in TEXT
    assert all(f"`{name}`" in TEXT for name in CALL_ARGUMENTS)
