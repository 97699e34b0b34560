"""The public names: listed, sorted, documented, typed, and nothing else visible."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import keyplan
from keyplan import errors


def test_all_is_sorted_and_is_what_dir_shows() -> None:
    assert keyplan.__all__ == sorted(keyplan.__all__)
    assert [name for name in dir(keyplan) if not name.startswith("_")] == keyplan.__all__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(keyplan.__file__).read_text(encoding="utf-8"))
    imported = [
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("keyplan")
        for alias in node.names
    ]
    assert sorted(imported) == keyplan.__all__


@pytest.mark.parametrize("name", keyplan.__all__)
def test_every_name_is_there_and_has_a_docstring(name: str) -> None:
    found = getattr(keyplan, name)
    assert inspect.isclass(found) or inspect.isfunction(found)
    first = (inspect.getdoc(found) or "").split("\n")[0]
    assert len(first) > 20, f"'{name}' needs a docstring that says something"


def test_every_error_is_public_and_has_the_one_base() -> None:
    classes = {
        name for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, BaseException)
    }
    assert classes <= set(keyplan.__all__)
    assert all(issubclass(getattr(keyplan, name), keyplan.KeyplanError) for name in classes)


def test_what_is_no_text_is_refused_where_text_is_expected() -> None:
    with pytest.raises(keyplan.ArgumentError, match=r"expected the text of a model, or dicts .*, got list"):
        keyplan.parse_model([])  # type: ignore[arg-type]
    model = keyplan.parse_model({"keyplan": 1, "entities": {"A": {"fields": {"id": "int, key"}}}})
    with pytest.raises(keyplan.ArgumentError, match=r"expected a URL such as sqlite:shop\.db, got NoneType"):
        keyplan.open(model, None)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(keyplan.ModelError, match=r"shop\.yaml: no such file or directory; check the name"):
        keyplan.open(tmp_path / "shop.yaml", "sqlite::memory:")
    with pytest.raises(keyplan.ModelError, match="is a directory; name a file"):
        keyplan.load_model(tmp_path)


@pytest.mark.parametrize("name", ["x\0y.yaml", "x\ud800.yaml"])
def test_a_name_that_no_file_can_have_is_an_error_of_ours(name: str) -> None:
    with pytest.raises(keyplan.ModelError) as caught:
        keyplan.load_model(name)
    told = str(caught.value)
    assert told.startswith("'x\\")
    assert told.endswith("no file can have this name; check it")
    assert told.isprintable()


@pytest.mark.parametrize("name", [None, ["sqlite"]])
def test_what_is_no_name_of_an_engine_is_refused(name: str) -> None:
    model = keyplan.parse_model({"keyplan": 1, "entities": {"A": {"fields": {"id": "int, key"}}}})
    for call in (keyplan.design, keyplan.load_lock):
        with pytest.raises(keyplan.ArgumentError, match=r"expected the name of an engine such as sqlite, got \w+$"):
            call(model, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'desing'"):
        keyplan.desing  # noqa: B018


@pytest.mark.parametrize(
    "call",
    [
        lambda: keyplan.design("shop.yaml", "sqlite"),  # type: ignore[arg-type]
        lambda: keyplan.apply("shop.yaml", "sqlite:shop.db"),  # type: ignore[arg-type]
        lambda: keyplan.generate("shop.yaml"),  # type: ignore[arg-type]
    ],
)
def test_a_file_name_is_not_a_model(call: Callable[[], object]) -> None:
    with pytest.raises(keyplan.ArgumentError, match=r"got str; read one with keyplan\.load_model"):
        call()
