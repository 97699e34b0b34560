"""The registry of engines against what is on disk, and the same files in every engine's folder."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import keyplan
from keyplan.engines import BUILTIN, engine_for_url, get_engine

ROOT = Path(__file__).parents[1]
ENGINES = ROOT / "src" / "keyplan" / "engines"
FILES = {
    "__init__.py",
    "changes.py",
    "cost.py",
    "emit.py",
    "fit.py",
    "limits.py",
    "pack.py",
    "port.py",
    "requests.py",
    "values.py",
}


def test_builtin_is_sorted_and_equals_the_folders() -> None:
    folders = {folder.name for folder in ENGINES.iterdir() if (folder / "__init__.py").is_file()}
    assert list(BUILTIN) == sorted(folders)
    assert keyplan.engine_names() == BUILTIN


@pytest.mark.parametrize("name", BUILTIN)
def test_every_engine_has_the_same_files(name: str) -> None:
    missing = FILES - {file.name for file in (ENGINES / name).iterdir()}
    assert not missing, f"engine '{name}' has no {', '.join(sorted(missing))}"


@pytest.mark.parametrize("name", BUILTIN)
def test_every_engine_keeps_what_the_registry_says(name: str) -> None:
    engine = get_engine(name)
    assert engine.name == name
    assert engine.kinds
    for scheme in engine.schemes:
        assert engine_for_url(f"{scheme}://x").name == name


@pytest.mark.parametrize("name", BUILTIN)
def test_every_engine_has_a_harness_and_an_extra(name: str) -> None:
    assert (ROOT / "tests" / "engines" / name / "harness.py").is_file()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extra = get_engine(name).extra
    assert not extra or extra in extras


@pytest.mark.parametrize("name", BUILTIN)
def test_every_engine_has_a_page_and_is_required_by_ci(name: str) -> None:
    assert (ROOT / "docs" / f"{name}.md").is_file()
    required = re.search(r'KEYPLAN_TEST_REQUIRE="([a-z0-9 ]+)"', (ROOT / ".ci" / "run").read_text())
    assert required
    assert name in required[1].split()


def test_an_unknown_engine_is_named_with_the_nearest_known() -> None:
    with pytest.raises(keyplan.UnknownEngineError, match="did you mean 'sqlite'"):
        get_engine("sqlit")
    with pytest.raises(keyplan.UnknownEngineError, match="no engine for 'nosuch:'"):
        engine_for_url("nosuch://host")
