"""YAML, or plain Python values, as nodes that know where they stand.

Every scalar is text, whatever YAML would make of it, so `on`, `010` and `no` stay what they look like. Tags,
anchors and aliases, repeated keys, further documents, deep nesting and large files are refused.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from keyplan.errors import ModelError, Problem, nearest

MOST_BYTES = 5_000_000
MOST_DEPTH = 50
MOST_NAMED = 12
MOST_HINTS = 100
MOST_COMPARED = 100_000
"""Looking for the nearest name is slow; a file with more unknown names than this is not a model, and no more names than
that are compared for all of them."""


@dataclass(frozen=True)
class Node:
    """A part of the file, with its line (0 if built in Python) and its path (`entities.User.fields`)."""

    line: int
    path: str


@dataclass(frozen=True)
class Text(Node):
    """A scalar; `plain` if it was written without quotes."""

    text: str
    plain: bool = True

    @property
    def is_empty(self) -> bool:
        return self.plain and self.text in ("", "null", "~")


@dataclass(frozen=True)
class Items(Node):
    """A sequence."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Table(Node):
    """A mapping; `lines` are those of its keys."""

    entries: Mapping[str, Node]
    lines: Mapping[str, int] = field(default_factory=dict)

    def key(self, name: str) -> Text:
        """The key itself as a node, for problems with the name."""
        return Text(self.lines.get(name, self.line), _join(self.path, name), name)


class Report:
    """Collects problems, so that all of them are told at once."""

    def __init__(self, file: str, *, by_path: bool = False) -> None:
        self.file = file
        self.by_path = by_path
        self.problems: dict[Problem, None] = {}
        self.hints = 0
        self.compared = 0
        self.is_spoiled = False
        """Part of the text is missing (an alias, a key that is no text), so what follows from it would mislead."""
        self.keyless: set[str] = set()
        """Entities whose key is missing or broken: advice to use it would mislead."""
        self.ambiguous: set[tuple[str, str]] = set()
        """Entities and names on them that were to be roles as well: what they lead to is told when one is renamed."""

    def add(self, node: Node, message: str) -> None:
        """Notes what is wrong at a node."""
        if self.by_path and node.path:
            message = f"{node.path}: {message}"
        self.problems[Problem(node.line, message, self.file)] = None

    def near(self, name: str, known: Any) -> str:
        """The hint with the nearest known name, as long as there are few to give."""
        self.hints += 1
        if not self.is_hinting:
            return ""
        names = list(known)
        self.compared += len(names)
        return nearest(name, names)

    @property
    def is_hinting(self) -> bool:
        """Whether there have been few hints so far."""
        return self.hints <= MOST_HINTS and self.compared < MOST_COMPARED

    def among(self, name: str, known: Any) -> str:
        """The nearest known name, or all of them, of many the first."""
        if not self.is_hinting:
            self.hints += 1
            return ""
        known = set(known)
        hint = self.near(name, sorted(known))
        if hint or not known or self.hints > MOST_HINTS:
            return hint
        more = f", … ({len(known)} in all)" if len(known) > MOST_NAMED else ""
        return f"; there {'is' if len(known) == 1 else 'are'} {', '.join(sorted(known)[:MOST_NAMED])}{more}"

    def stop(self) -> None:
        """Raises what has been collected, if anything has."""
        if self.problems:
            raise ModelError(sorted(self.problems))


def read_yaml(data: str | bytes, report: Report) -> Node | None:
    """The nodes of a YAML text; None, with the problems in the report, if it cannot be read at all."""
    top = Node(1, "")
    if len(data) > MOST_BYTES:
        report.add(
            top, f"the file is larger than {MOST_BYTES // 1_000_000} MB; split the model or drop what it does not need"
        )
        return None
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        raw = text.encode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        report.add(Node(line, ""), "the file is not UTF-8; save it in that encoding")
        return None
    except UnicodeEncodeError as error:
        line = error.object[: error.start].count("\n") + 1
        report.add(Node(line, ""), "the text holds half of a surrogate pair, which is not a character; remove it")
        return None
    if len(raw) > MOST_BYTES:
        report.add(
            top, f"the file is larger than {MOST_BYTES // 1_000_000} MB; split the model or drop what it does not need"
        )
        return None
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(yaml.parse(text, Loader=loader), report).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        position = getattr(error, "position", None)
        lines = _BREAK.split(text)
        if mark is not None:
            line = min(mark.line + 1, len(lines))  # what is not closed is missed behind the last one
        else:
            line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        bare = _BARE_PARAMETER.search(lines[line - 1]) if mark is not None else None
        cure = f"put '{bare[1]}' in quotes: \"{bare[1]}\"" if bare else "check quotes, colons and indentation here"
        if "\t" in lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]:
            cure = "indent with spaces, not with tabs"
        report.add(Node(line, ""), f"not YAML: {what}; {cure}")
        return None


_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What ends a line of YAML."""
_BARE_PARAMETER = re.compile(r"[:,{\[]\s*(:\w+)\s*[,}\]]")
"""A parameter without quotes inside braces or brackets, which YAML does not take for a value."""


class _StopError(Exception):
    """The rest of the document is not worth reading."""


class _Builder:
    """Turns parser events into nodes; its own stack is bounded by MOST_DEPTH."""

    def __init__(self, events: Iterator[Any], report: Report) -> None:
        self.events = events
        self.report = report

    def document(self) -> Node | None:
        result: Node | None = None
        documents = 0
        try:
            for event in self.events:
                kind = type(event).__name__
                if kind == "DocumentStartEvent":
                    documents += 1
                    if documents > 1:
                        self.report.add(
                            Node(event.start_mark.line + 1, ""),
                            "a second document begins here; a model is one document, so remove the '---'",
                        )
                        break
                    result = self.node(next(self.events), "", 0, None)
        except _StopError:
            return None
        if result is None and not self.report.problems:
            self.report.add(Node(1, ""), "the file is empty; begin with 'keyplan: 1'")
        return result

    def node(self, event: Any, path: str, depth: int, key_line: int | None) -> Node:
        line = event.start_mark.line + 1
        kind = type(event).__name__
        here = Node(line, path)
        if depth > MOST_DEPTH:
            self.report.add(here, f"nested deeper than {MOST_DEPTH} levels; a model needs no more than six")
            raise _StopError
        if kind == "AliasEvent":
            self.report.add(here, f"the alias '*{event.anchor}' is not allowed; write the value out")
            self.report.is_spoiled = True
            return Text(line, path, "")
        if event.anchor is not None:
            self.report.add(here, f"the anchor '&{event.anchor}' is not allowed; write the value where it is needed")
        if event.tag is not None and not (kind == "ScalarEvent" and event.tag == "!" and event.style in ("'", '"')):
            self.report.add(
                here, f"the tag '{event.tag}' is not allowed; remove it, values are read by their field's type"
            )
        if kind == "ScalarEvent":
            return Text(line, path, event.value, event.style in (None, ""))
        # a block below its key belongs to the key's line, where a reader looks for it
        start = line if key_line is None else key_line
        if kind == "SequenceStartEvent":
            items: list[Node] = []
            while type(event := next(self.events)).__name__ != "SequenceEndEvent":
                items.append(self.node(event, f"{path}[{len(items)}]", depth + 1, None))
            return Items(start, path, tuple(items))
        return self.table(start, path, depth)

    def table(self, start: int, path: str, depth: int) -> Table:
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            line = event.start_mark.line + 1
            name = self.node(event, path, depth + 1, None)
            if not isinstance(name, Text):
                self.report.add(Node(line, path), "a key has to be plain text, not a list or a map")
                self.report.is_spoiled = True
                self.node(next(self.events), path, depth + 1, line)
                continue
            value = self.node(next(self.events), _join(path, name.text), depth + 1, line)
            if name.text in entries:
                self.report.add(
                    Node(line, path),
                    f"'{name.text}' stands here twice, first in line {lines[name.text]}; remove or rename one",
                )
                continue
            entries[name.text] = value
            lines[name.text] = line
        return Table(start, path, entries, lines)


def read_plain(value: object, report: Report) -> Node | None:
    """The nodes of nested dicts, lists and scalars, as YAML would have given them."""
    try:
        return _plain(value, "", report, 0)
    except _StopError:
        return None


def _plain(value: object, path: str, report: Report, depth: int) -> Node:
    if depth > MOST_DEPTH:
        report.add(Node(0, path), f"nested deeper than {MOST_DEPTH} levels; a model needs no more than six")
        raise _StopError
    if isinstance(value, Mapping):
        entries: dict[str, Node] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                report.add(Node(0, path), f"the key {key!r} is not text; put it in quotes")
                continue
            entries[key] = _plain(item, _join(path, key), report, depth + 1)
        return Table(0, path, entries)
    if isinstance(value, list | tuple):
        return Items(0, path, tuple(_plain(item, f"{path}[{i}]", report, depth + 1) for i, item in enumerate(value)))
    if value is None:
        return Text(0, path, "null")
    if isinstance(value, str):
        return Text(0, path, value)
    if isinstance(value, bool):
        return Text(0, path, "true" if value else "false")
    if isinstance(value, datetime.date | datetime.datetime):
        return Text(0, path, value.isoformat())
    if isinstance(value, int | float | Decimal | UUID):
        return Text(0, path, str(value))
    report.add(Node(0, path), f"a {type(value).__name__} has no place in a model; use text, numbers, lists and dicts")
    return Text(0, path, "")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
