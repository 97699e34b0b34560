"""Loading a model: from a file, a text or plain dicts to a Model, or to every problem it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from keyplan.errors import ArgumentError, ModelError, Problem, quoted, trouble_with
from keyplan.model.entity import Entity
from keyplan.model.load_entity import USUAL_COUNT, EntityDraft, EntityReader
from keyplan.model.load_pattern import PatternReader
from keyplan.model.load_write import WriteReader
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.model.reading import STORE_METHODS, Reader
from keyplan.model.source import MOST_BYTES, Items, Node, Report, Table, Text, read_plain, read_yaml
from keyplan.model.syntax import shown
from keyplan.model.validate import EntityCheck
from keyplan.model.write import Transaction, Write

TOP_KEYS = ("keyplan", "name", "note", "entities", "patterns", "writes", "transactions", "targets")
NOT_YET = ("limits", "streams")
MODEL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def load_model(path: str | PathLike[str]) -> Model:
    """The model in a file; raises ModelError with every problem in it, or with why the file cannot be read."""
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"expected the name of a model's file, got {type(path).__name__}; dicts go to parse_model")
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ModelError([Problem(0, trouble_with(error), str(path))]) from error
    except ValueError as error:  # NUL, or what cannot be encoded
        raise ModelError([Problem(0, "no file can have this name; check it", quoted(path))]) from error
    report = Report(str(path))
    return _model(read_yaml(data, report), report, path.stem)


def parse_model(text: str | bytes | Mapping[str, object], file: str = "model") -> Model:
    """The model in a text, or in plain dicts of the same shape; `file` is what problems call it."""
    if isinstance(text, Mapping):
        return model_from(text, file)
    if not isinstance(text, str | bytes):
        raise ArgumentError(f"expected the text of a model, or dicts of the same shape, got {type(text).__name__}")
    report = Report(file)
    return _model(read_yaml(text, report), report, Path(file).stem)


def model_from(data: Mapping[str, object], file: str = "model") -> Model:
    """The model in nested dicts and lists, as YAML would have read them; problems name the path instead of a line."""
    report = Report(file, by_path=True)
    return _model(read_plain(data, report), report, Path(file).stem)


def _model(node: Node | None, report: Report, stem: str) -> Model:
    if node is None or report.is_spoiled:
        report.stop()
    assert node is not None
    try:
        return _Loader(report, stem).run(node)
    except RecursionError:
        raise ModelError(
            [Problem(0, "the model is nested too deeply to be read; make it simpler", report.file)]
        ) from None


class _Loader(Reader):
    """Goes through the parts of a model in the order in which they depend on each other."""

    def __init__(self, report: Report, stem: str) -> None:
        super().__init__(report)
        self.stem = stem

    def run(self, node: Node) -> Model:
        if not isinstance(node, Table):
            self.report.add(node, "a model is a map; begin it with 'keyplan: 1'")
            self.report.stop()
        assert isinstance(node, Table)
        entries = self.sections(node)
        reader = EntityReader(self.report)
        drafts: dict[str, EntityDraft] = {}
        if "entities" in entries:
            drafts = reader.entities_of(entries["entities"])
        else:
            self.report.add(node, "the model has no entities; add one under 'entities'")
        entities = EntityCheck(drafts, reader).run()
        calls = self.calls(entries)
        patterns, writes, transactions = self.read_calls(entities, calls)
        model = Model(
            name=self.model_name(entries.get("name")),
            entities=entities,
            patterns=patterns,
            writes=writes,
            transactions=transactions,
            targets=self.targets(entries.get("targets")),
            target_lines=dict(_lines_under(entries.get("targets"), "targets")),
            warnings=tuple(_warnings(drafts, calls)),
            file=self.report.file,
        )
        self.report.stop()
        return model

    def sections(self, node: Table) -> dict[str, Node]:
        for name in NOT_YET:
            if name in node.entries:
                self.report.add(node.key(name), f"'{name}' is not supported yet; remove it")
        rest = {name: value for name, value in node.entries.items() if name not in NOT_YET}
        entries = self.table(Table(node.line, node.path, rest, node.lines), TOP_KEYS, "the model")
        version = entries.get("keyplan")
        if version is None:
            self.report.add(node, "the model does not say its language; begin with 'keyplan: 1'")
        elif isinstance(version, Text) and version.text.strip() != "1":
            self.report.add(
                version,
                f"this keyplan reads version 1 of the language, not '{shown(version.text)}'; write 'keyplan: 1'",
            )
        elif not isinstance(version, Text):
            self.report.add(version, "'keyplan' is the version of the language; write 'keyplan: 1'")
        if "note" in entries:
            self.text(entries["note"], "note")
        return entries

    def model_name(self, node: Node | None) -> str:
        if node is None:
            return self.stem if MODEL_NAME.fullmatch(self.stem) else "model"
        name = self.text(node, "name")
        if name is not None and not MODEL_NAME.fullmatch(name):
            self.report.add(
                node,
                f"'{shown(name)}' cannot be the name of a model; use letters, digits, _ and -, and begin with a letter",
            )
        return name or "model"

    def calls(self, entries: Mapping[str, Node]) -> dict[str, dict[str, Node]]:
        """Patterns, writes and transactions by name, which share one namespace."""
        seen: dict[str, str] = {}
        found: dict[str, dict[str, Node]] = {}
        for section, what in (("patterns", "pattern"), ("writes", "write"), ("transactions", "transaction")):
            node = entries.get(section)
            found[section] = {}
            for name, value in {}.items() if node is None else self.table(node, None, f"'{section}'").items():
                assert isinstance(node, Table)
                key = node.key(name)
                if self.name(key, f"a {what}"):
                    if name in STORE_METHODS:
                        why = "because it is a method of every store"
                        self.report.add(key, f"'{name}' cannot be the name of a {what}, {why}; rename it")
                    if name in seen:
                        self.report.add(key, f"the {what} '{name}' has the name of a {seen[name]}; rename one")
                seen.setdefault(name, what)
                found[section][name] = value
        return found

    def read_calls(
        self, entities: dict[str, Entity], calls: Mapping[str, Mapping[str, Node]]
    ) -> tuple[dict[str, Pattern], dict[str, Write], dict[str, Transaction]]:
        model = Model("", entities)
        patterns: dict[str, Pattern] = {}
        writes: dict[str, Write] = {}
        pattern_reader, write_reader = PatternReader(self.report, model), WriteReader(self.report, model)
        for name, node in calls["patterns"].items():
            pattern = pattern_reader.pattern(name, node)
            if pattern is not None:
                patterns[name] = pattern
        for name, node in calls["writes"].items():
            write = write_reader.write(name, node)
            if write is not None:
                writes[name] = write
        transactions = {
            name: write_reader.transaction(name, node, writes, calls["writes"])
            for name, node in calls["transactions"].items()
        }
        return patterns, writes, transactions

    def targets(self, node: Node | None) -> dict[str, Mapping[str, object]]:
        found: dict[str, Mapping[str, object]] = {}
        if node is None:
            return found
        for engine, value in self.table(node, None, "'targets'").items():
            table = self.table(value, None, f"target '{engine}'")
            found[engine] = {name: _as_plain(item) for name, item in table.items() if name != "calibration"}
            if "calibration" in table:
                found[engine] = {**self.calibration(table["calibration"]), **found[engine]}
        return found

    def calibration(self, node: Node) -> dict[str, object]:
        """What `keyplan calibrate --save` has written beside the model."""
        name = node.text if isinstance(node, Text) else ""
        path = Path(self.report.file).parent / name
        try:
            data = path.read_bytes() if name and Path(self.report.file).is_file() else None
        except OSError:
            data = None
        if data is None:
            self.report.add(node, "'calibration' names a file beside the model; 'keyplan calibrate --save' writes one")
            return {}
        report = Report(str(path))
        measured = read_yaml(data, report)
        report.stop()
        if not isinstance(measured, Table):
            self.report.add(node, f"'{name}' is not what 'keyplan calibrate --save' writes")
            return {}
        return {group: _as_plain(figures) for group, figures in measured.entries.items()}


def _lines_under(node: Node | None, path: str) -> Iterator[tuple[str, int]]:
    """The lines of all that is named under a node, by path; those of a model that was built in Python have none."""
    if isinstance(node, Table):
        for name, value in node.entries.items():
            if node.key(name).line:
                yield f"{path}.{name}", node.key(name).line
            yield from _lines_under(value, f"{path}.{name}")


def _as_plain(node: Node) -> object:
    """A node as nested dicts, lists and texts."""
    if isinstance(node, Table):
        return {name: _as_plain(value) for name, value in node.entries.items()}
    if isinstance(node, Items):
        return [_as_plain(item) for item in node.items]
    assert isinstance(node, Text)
    return node.text


def _warnings(drafts: Mapping[str, EntityDraft], calls: Mapping[str, Mapping[str, Node]]) -> list[str]:
    """What was assumed because nothing was said: one line for all rates, one for all counts."""
    found: list[str] = []
    unrated = [
        name
        for section in ("patterns", "writes")
        for name, node in calls[section].items()
        if isinstance(node, Table) and "rate" not in node.entries
    ]
    if unrated:
        found.append(f"no rate for {_listed(unrated)}; assumed low, which is 1/s")
    uncounted = [name for name, draft in drafts.items() if not draft.counted]
    if uncounted:
        found.append(f"no count for {_listed(uncounted)}; assumed {USUAL_COUNT:.0f} rows")
    return found


def _listed(names: list[str]) -> str:
    text = ", ".join(f"'{name}'" for name in names[:5])
    return f"{text} and {len(names) - 5} more" if len(names) > 5 else text
