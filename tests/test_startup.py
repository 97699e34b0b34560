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


def test_importing_the_package_loads_nothing_else() -> None:
    """Nor what errors need: Ctrl-C in the meantime would be a traceback, since no code of ours could catch it."""
    modules = modules_after("import keyplan")
    assert ours(modules) == {"keyplan"}
    assert not modules & (HEAVY | {"typing", "dataclasses", "difflib", "inspect"} - modules_after("pass"))


def test_the_command_line_catches_interrupts_before_it_imports_anything() -> None:
    modules = modules_after("import keyplan.__main__") - modules_after("import keyplan")
    assert modules <= {"keyplan.__main__", "gc"}


def test_errors_are_there_without_another_import() -> None:
    assert "keyplan.errors" in modules_after("import keyplan; keyplan.errors.KeyplanError")
    assert "keyplan.errors" in modules_after("import keyplan; keyplan.KeyplanError")
    assert "keyplan.errors" in modules_after("from keyplan import *; KeyplanError")


def test_an_interrupt_while_a_class_is_made_is_no_internal_error() -> None:
    """Python wraps what is raised there into a RuntimeError, of which it is the cause, until version 3.12."""
    code = (
        "import keyplan.cli.main as cli\n"
        "def interrupted(*_):\n"
        "    raise RuntimeError('Error calling __set_name__') from KeyboardInterrupt()\n"
        "cli.Commands.get_command = interrupted\n"
        "cli.main(['schema'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["keyplan: interrupted; what was done so far is kept"]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_loads_no_command(arguments: tuple[str, ...]) -> None:
    modules = modules_after(command(*arguments))
    assert ours(modules) == {"keyplan", "keyplan.cli", "keyplan.cli.main"}
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
