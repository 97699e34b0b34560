"""Imports point down one ladder; drivers stay behind ports; engines are named in their own folders only.

Everything is read from the syntax trees of the sources, so imports inside functions count as well.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from keyplan.engines import BUILTIN

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted((SOURCE / "keyplan").rglob("*.py"))

LADDER = (
    ("errors", "units"),
    ("model",),
    ("reference", "data"),
    ("plan",),
    ("engines",),
    ("design",),
    ("check", "estimate", "simulate"),
    ("advise",),
    ("emit",),
    ("store",),
    ("migrate",),
    ("api",),
    ("cli", "studio"),
    ("__main__",),
)
"""A package may import itself and everything on a lower rung. The folders of single engines stand apart: they
may import what `engines` may, and only the registry may import them."""
RUNG = {package: number for number, packages in enumerate(LADDER) for package in packages}

PASSES = {
    "design": (
        ("statistics",),
        ("needs",),
        ("candidates",),
        ("options", "upkeep"),
        ("problem",),
        ("program",),
        ("findings",),
        ("answer",),
        ("report",),
    ),
    "store": (("reading",), ("writing",), ("bulk",)),
}
"""The folders inside a package, in the order of what is done: each may import itself and those before it."""

LIBRARIES = {
    "click": {"cli"},
    "highspy": {"design"},
    "lark": {"model"},
    "numpy": {"data", "design"},
    "rich": {"cli"},
    "yaml": {"model"},
}
"""The packages that may import each library; drivers are imported by `DRIVER_FILES` alone."""
DRIVER_FILES = {"port.py", "transport.py", "credentials.py"}
DRIVERS_OF_THE_STANDARD_LIBRARY = {"sqlite3"}

ENGINE_NAMES = {*BUILTIN, "cassandra", "dynamodb", "firestore", "mongodb", "postgresql", "redis", "sqlite"}


def name_of(file: Path) -> str:
    """The dotted name of a module: `keyplan.model.load`."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """Everything in a file's syntax tree."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def imports_of(file: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, with its line; `from keyplan import x` gives `keyplan.x`."""
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import; name the module in full"
            assert node.module is not None
            if node.module in ("keyplan", "keyplan.engines"):
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"
            else:
                yield node.lineno, node.module


def engine_of(module: str) -> str | None:
    """The engine whose folder a module is in."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["keyplan", "engines"] and len(parts) > 2 and parts[2] in BUILTIN else None


def trouble(importer: str, imported: str) -> str | None:
    """Why one module of keyplan may not import another, or None."""
    package, target = importer.split(".")[1], imported.split(".")[1:2]
    if package == "cli":
        # The bottom rung is open to everybody: it has the hint with the nearest name, and figures for people.
        inside = imported == "keyplan" or target in (["cli"], ["errors"], ["units"])
        return None if inside else "the command line calls the public API and nothing below it"
    if not target:
        return "the public API is for users, not for what it is made of"
    if engine_of(imported) not in (None, engine_of(importer)):
        return "nothing imports the folder of an engine but the registry"
    if target[0] not in RUNG or package not in RUNG:
        return f"'{package}' or '{target[0]}' has no rung on the ladder"
    if target[0] != package and RUNG[target[0]] >= RUNG[package]:
        return f"'{target[0]}' does not stand below '{package}'"
    return None


def test_imports_point_down() -> None:
    problems = []
    for file in FILES:
        importer = name_of(file)
        if importer == "keyplan":
            continue  # the public API re-exports from everywhere; test_startup.py says what it may load
        for line, imported in imports_of(file):
            reason = trouble(importer, imported) if imported.split(".")[0] == "keyplan" else None
            if reason is not None:
                problems.append(f"{file}:{line}: '{importer}' imports '{imported}'; {reason}")
    assert not problems, "\n".join(problems)


def test_passes_import_what_comes_before_them() -> None:
    problems = []
    for package, ladder in PASSES.items():
        rung = {folder: number for number, folders in enumerate(ladder) for folder in folders}
        home = SOURCE / "keyplan" / package
        assert set(rung) == {path.name for path in home.iterdir() if path.is_dir() and path.name != "__pycache__"}
        for file in home.rglob("*.py"):
            importer = file.relative_to(home).parts[0]
            for line, imported in imports_of(file):
                target = imported.removeprefix(f"keyplan.{package}.").split(".")[0]
                if importer in rung and target in rung and importer != target and rung[target] >= rung[importer]:
                    problems.append(f"{file}:{line}: '{importer}' imports '{imported}', which does not come before it")
    assert not problems, "\n".join(problems)


def test_libraries_and_drivers_stay_in_their_places() -> None:
    problems = []
    for file in FILES:
        importer = name_of(file)
        package = importer.split(".")[1] if "." in importer else ""
        for line, imported in imports_of(file):
            library = imported.split(".")[0]
            known = library == "keyplan" or library in sys.stdlib_module_names
            if known and library not in DRIVERS_OF_THE_STANDARD_LIBRARY:
                continue
            if engine_of(importer) and file.name not in DRIVER_FILES:
                problems.append(f"{file}:{line}: '{library}' belongs into {', '.join(DRIVER_FILES)}")
            if not engine_of(importer) and package not in LIBRARIES.get(library, ()):
                problems.append(f"{file}:{line}: '{package}' may not import '{library}'")
    assert not problems, "\n".join(problems)


def test_no_engine_is_named_outside_its_folder() -> None:
    problems = []
    for file in FILES:
        importer = name_of(file)
        if importer == "keyplan.engines" or engine_of(importer):
            continue
        nodes = nodes_of(file)
        prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                named = ENGINE_NAMES & set(re.findall(r"[a-z]+", node.value.lower()))
                if named:
                    problems.append(f"{file}:{node.lineno}: names the engine '{min(named)}' in shared code")
    assert not problems, "\n".join(problems)


def test_the_rules_can_fail() -> None:
    assert trouble("keyplan.model.load", "keyplan.design.program.solve")
    assert trouble("keyplan.reference.apply", "keyplan.data.generate")
    assert trouble("keyplan.design.program.solve", "keyplan.engines.sqlite.cost")
    assert trouble("keyplan.engines.base", "keyplan.engines.sqlite")
    assert trouble("keyplan.engines.sqlite.cost", "keyplan.engines.dynamodb.cost")
    assert trouble("keyplan.engines.sqlite.cost", "keyplan.design.program.solve")
    assert trouble("keyplan.store.open", "keyplan")
    assert trouble("keyplan.cli.run", "keyplan.store.open")
    assert not trouble("keyplan.store.open", "keyplan.engines.base")
    assert not trouble("keyplan.engines.sqlite.cost", "keyplan.engines.base")
