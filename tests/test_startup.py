"""What is imported before it is needed: nothing. Counted in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
HEAVY = {
    "_sqlite3",
    "aiohttp",
    "asyncio",
    "botocore",
    "highspy",
    "http",
    "jsonschema",
    "lark",
    "numpy",
    "pymongo",
    "rich",
    "sqlglot",
    "sqlite3",
    "ssl",
    "urllib.request",
    "yaml",
}
LIGHT = {"keyplan", "keyplan.errors"}


def modules_after(code: str) -> set[str]:
    """The modules in a fresh interpreter after running some code."""
    program = f"import json, sys\n{code}\nprint('\\n' + json.dumps(sorted(sys.modules)), file=sys.__stdout__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def command(*arguments: str) -> str:
    return (
        "from keyplan.cli.main import main\n"
        f"try: main({list(arguments)!r})\n"
        "except SystemExit as end: assert end.code in (0, None), end.code"
    )


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] == "keyplan"}


def test_importing_the_package_loads_errors_only() -> None:
    modules = modules_after("import keyplan")
    assert ours(modules) == LIGHT
    assert not modules & HEAVY


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_loads_no_command(arguments: tuple[str, ...]) -> None:
    modules = modules_after(command(*arguments))
    assert ours(modules) == LIGHT | {"keyplan.cli", "keyplan.cli.main"}
    assert not modules & HEAVY


def test_help_of_a_command_loads_that_command_only() -> None:
    modules = modules_after(command("design", "--help"))
    assert ours(modules) <= LIGHT | {"keyplan.cli", "keyplan.cli.main", "keyplan.cli.design", "keyplan.cli.options"}
    assert not modules & HEAVY


def test_designing_loads_no_store_and_no_driver() -> None:
    modules = modules_after(command("design", str(EXAMPLES / "sessions.yaml"), "--engine", "dynamodb"))
    assert not {name for name in ours(modules) if name.startswith(("keyplan.store", "keyplan.emit", "keyplan.data"))}
    assert modules & HEAVY == {"highspy", "lark", "numpy", "yaml"}


def test_engine_names_load_no_engine() -> None:
    modules = modules_after("import keyplan; keyplan.engine_names()")
    assert ours(modules) == LIGHT | {"keyplan.engines"}


def test_the_functions_win_over_the_packages_of_the_same_name() -> None:
    modules_after(
        "import keyplan.design, keyplan.emit\n"
        "assert callable(keyplan.design) and callable(keyplan.emit)\n"
        "from keyplan.design import document\n"
        "assert keyplan.document is document"
    )
