"""The examples within docstrings, run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import keyplan

PACKAGE = Path(keyplan.__file__).parent
MODULES = [
    ".".join(("keyplan", *file.relative_to(PACKAGE).with_suffix("").parts))
    for file in sorted(PACKAGE.rglob("*.py"))
    if ">>>" in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    done = doctest.testmod(import_module(name))
    assert done.attempted
    assert not done.failed
