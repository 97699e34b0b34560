"""The documentation, run: every model loads, every `console` block prints what it says, every `python` block works.

The blocks of one file are run in order, in one empty directory that holds a copy of `examples`. A YAML or Python block
whose first line is a comment with a file name (`# shop.yaml`) becomes that file. In expected output `…` stands for
anything within a line, and a line of its own for any number of lines. `--update-golden` rewrites the output instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import keyplan

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "keyplan"
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w./-]+\.(?:yaml|jsonl|json|py))\n")
PASSING = [(re.compile(r"\b\d+\.\d s\b"), "… s")]
"""What differs from run to run, replaced when output is rewritten."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a Markdown file."""

    language: str
    text: str
    line: int = 0
    start: int = 0


def blocks_of(text: str) -> list[Block]:
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1, match.start(2))
        for match in BLOCK.finditer(text)
    ]


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is said to follow."""
    found = []
    for piece in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = piece.split("\n")
        end = next(index for index, line in enumerate(lines) if not line.endswith("\\"))
        found.append(("\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :]).strip("\n")))
    return found


def pattern_of(expected: str) -> re.Pattern[str]:
    """A regular expression for expected output with `…` in it."""
    parts = []
    for line in expected.split("\n"):
        if line.strip() == "…":
            parts.append("(?:.*\n)*?")
        elif "…" in line:
            # What stands for `…` may be longer or shorter, and what is aligned behind it moves.
            words = re.split(r"( {2,}|…)", line)
            parts.append(
                "".join(".*" if word == "…" else " +" if word.isspace() else re.escape(word) for word in words)
            )
            parts.append("\n")
        else:
            parts.append(re.escape(line) + "\n")
    return re.compile("".join(parts))


def run(command: list[str] | str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=directory,
        shell=isinstance(command, str),
        env={**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rewritten(expected: str, actual: str) -> str:
    """The new output for a block, with as many lines as the old one shows."""
    for pattern, text in PASSING:
        actual = pattern.sub(text, actual)
    lines = expected.split("\n")
    if "…" in lines:
        # What a block leaves out stays out: so many lines before the gap, so many after it.
        gap = lines.index("…")
        seen = actual.split("\n")
        actual = "\n".join([*seen[:gap], "…", *(seen[gap + 1 - len(lines) :] if gap + 1 < len(lines) else [])])
    return actual.strip("\n")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_documentation_is_true(file: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    update = request.config.getoption("--update-golden")
    text = file.read_text(encoding="utf-8")
    renewed = {block: run_block(block, f"{file.name}:{block.line}", tmp_path, update) for block in blocks_of(text)}
    if update:
        for block, new in sorted(renewed.items(), key=lambda item: -item[0].start):
            text = text[: block.start] + new + text[block.start + len(block.text) :]
        file.write_text(text, encoding="utf-8")


def run_block(block: Block, where: str, directory: Path, update: bool) -> str:
    """Does what a block says; returns its text, with the output that was seen if it is to be updated."""
    named = NAMED.match(block.text)
    if named:
        target = directory / named[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")
    if block.language == "yaml" and "keyplan: 1" in block.text:
        assert keyplan.parse_model(block.text).patterns, where
    elif block.language == "python":
        done = run([sys.executable, "-c", block.text], directory)
        assert done.returncode == 0, f"{where}\n{done.stdout}"
    elif block.language == "console":
        pieces = []
        for command, expected in commands_of(block):
            assert command.startswith("keyplan "), f"{where}: only keyplan is run; use a `sh` block for '{command}'"
            actual = run(command, directory).stdout.strip("\n")
            if not update and not pattern_of(expected).fullmatch(actual + "\n"):
                assert actual == expected, f"{where}: $ {command}"
            said = rewritten(expected, actual)
            pieces.append(f"$ {command}\n{said}\n" if said else f"$ {command}\n")
        return "".join(pieces)
    return block.text


GUIDES = [*FILES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]


@pytest.mark.parametrize("file", GUIDES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_referred_to_is_there(file: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    paths = re.findall(r"`([A-Za-z.][\w.*-]*/[\w./*-]*)`", text)
    # Folders of the package are named without it, as its layout is told.
    missing = [name for name in links if not (file.parent / name).exists()]
    missing += [name for name in paths if not any(any(top.glob(name.rstrip("/"))) for top in (ROOT, PACKAGE))]
    assert not missing


def test_expected_output_is_compared() -> None:
    pattern = pattern_of("one\n…\nfour … six")
    assert pattern.fullmatch("one\ntwo\nthree\nfour five six\n")
    assert pattern.fullmatch("one\nfour five six\n")
    assert not pattern.fullmatch("one\nfour five\n")
    assert pattern_of("took … s      $5").fullmatch("took 12.5 s   $5\n")
    assert commands_of(Block("console", "$ keyplan a \\\n  b\nout\n\n$ keyplan c\n")) == [
        ("keyplan a \\\n  b", "out"),
        ("keyplan c", ""),
    ]
