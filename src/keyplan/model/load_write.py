"""Writes and transactions: from nodes to changes whose fields can be changed that way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from keyplan import units
from keyplan.model.entity import Column, Field
from keyplan.model.load_select import SelectReader
from keyplan.model.pattern import Condition, Literal, Now, Operand, Param, Path
from keyplan.model.reading import CALL_ARGUMENTS
from keyplan.model.scope import Params
from keyplan.model.source import Items, Node, Table, Text
from keyplan.model.syntax import Name, TextError, parse_items, parse_where, shown
from keyplan.model.types import such_as
from keyplan.model.validate import NUMBERS
from keyplan.model.values import canonical, parse
from keyplan.model.write import Repeat, Transaction, Write

KINDS = ("create", "upsert", "update", "delete")
WRITE_KEYS = (
    *KINDS,
    *("where", "set", "add", "if", "with", "return", "rows", "rate", "peak", "skew", "top", "p99", "note"),
)
TRANSACTION_KEYS = ("writes", "rate", "peak", "skew", "top", "note")
REPEAT_KEYS = ("write", "usual", "max")
NOT_FOR = {
    "create": ("where", "set", "add", "if", "rows"),
    "upsert": ("where", "if", "rows"),
    "change": ("if", "with", "rows"),
    "update": ("with",),
    "delete": ("set", "add"),
}
"""Keys that a kind of write does not take."""


class WriteReader(SelectReader):
    """Reads `writes:` and `transactions:`."""

    def write(self, name: str, node: Node) -> Write | None:
        entries = self.table(node, WRITE_KEYS, f"write '{name}'")
        if not isinstance(node, Table):
            return None
        kinds = [kind for kind in KINDS if kind in entries]
        if len(kinds) != 1:
            what = f"has '{kinds[0]}' and '{kinds[1]}'" if kinds else "does not say what it does"
            self.report.add(node, f"write '{name}' {what}; it takes exactly one of {', '.join(KINDS)}")
            self.figures(entries)
            return None
        kind = kinds[0]
        if kind == "upsert" and ("set" in entries or "add" in entries):
            kind = "change"
        for key in NOT_FOR[kind]:
            if key in entries:
                self.report.add(node.key(key), f"{_article(kind)} takes no '{key}'{_instead(kind, key)}")
        entity = self.entity(entries[kinds[0]], kinds[0])
        if entity is None:
            self.figures(entries)
            return None
        params = Params(self)
        where = self.conditions(entity, entries.get("where"), params, "where") if "where" not in NOT_FOR[kind] else ()
        if kind == "change" and "where" not in entries:
            where = self.key_conditions(entity, params, node)
        by_key = self.target(name, kind, entity, where, entries, node)
        before = len(self.report.problems)
        sets = self.changes(entity, "set", entries.get("set"), params) if "set" not in NOT_FOR[kind] else {}
        adds = self.changes(entity, "add", entries.get("add"), params) if "add" not in NOT_FOR[kind] else {}
        for column in adds:
            if column in sets:
                self.report.add(entries["add"], f"'{column}' is both set and added to; keep one")
        if kind == "update" and "set" not in entries and "add" not in entries:
            self.report.add(node, f"update '{name}' changes nothing; say what with 'set' or 'add'")
        condition = self.conditions(entity, entries.get("if"), params, "if") if "if" not in NOT_FOR[kind] else ()
        if kind in ("create", "upsert"):
            self.check_arguments(name, entity, node)
        if kind == "change" and len(self.report.problems) == before:  # else it may be what could not be read
            self.check_filled(name, entity, sets, adds, node)
        return Write(
            name=name,
            kind=kind,
            entity=entity,
            where=where,
            by_key=by_key,
            rows=self.rows(entity, entries.get("rows")),
            sets=sets,
            adds=adds,
            condition=condition,
            children=self.children(entity, entries.get("with")) if "with" not in NOT_FOR[kind] else {},
            returns=self.returns(entity, entries.get("return"), by_key=by_key),
            traffic=self.traffic(entries),
            p99_ms=self.p99(entries.get("p99")),
            params=params.types,
            note=(self.text(entries["note"], "note") or "") if "note" in entries else "",
            line=node.line,
        )

    def figures(self, entries: Mapping[str, Node]) -> None:
        """Reports what is wrong with the figures of a write of which nothing else can be read."""
        self.traffic(entries)
        self.p99(entries.get("p99"))

    def key_conditions(self, entity: str, params: Params, node: Node) -> tuple[Condition, ...]:
        """The key by arguments of its own names, for an upsert that says no `where`."""
        found: list[Condition] = []
        for column in self.model.entities[entity].key:
            params.add(node, column, self.model.entities[entity].columns[column].type)
            found.append(Condition(Path((), column), "=", (Param(column),)))
        return tuple(found)

    def check_arguments(self, name: str, entity: str, node: Node) -> None:
        for field_name in self.model.entities[entity].fields:
            if field_name in CALL_ARGUMENTS:
                self.report.add(
                    node,
                    f"'{name}' would have two arguments named '{field_name}', which every call has; rename the field",
                )

    def check_filled(
        self, name: str, entity: str, sets: Mapping[str, Operand], adds: Mapping[str, Operand], node: Node
    ) -> None:
        """An upsert with set or add makes rows of what it says and of defaults: it has to have all they need."""
        here = self.model.entities[entity]
        if entity in self.report.keyless:
            return
        given = {*here.key, *sets}
        parts: dict[str, list[Column]] = {}
        for column in here.columns.values():
            parts.setdefault(column.field, []).append(column)
        for item in here.fields.values():
            columns = parts.get(item.name, [])
            names = {column.name for column in columns}
            if item.computed is not None or names <= given or any(column.type.kind == "?" for column in columns):
                continue
            if not names & given and (names <= {*adds} or _is_filled(item, columns)):
                continue
            lacking = ", ".join(f"'{column.name}'" for column in columns if column.name not in given)
            cure = "set it, give it a default or make it optional"
            if names & given:
                cure = "set the whole reference"  # a part of it is in the key or is set, so that no default helps
            elif item.immutable:
                cure = "give it a default or make it optional"
            self.report.add(node, f"'{name}' creates rows that are missing, and nothing says their {lacking}; {cure}")

    def target(
        self,
        name: str,
        kind: str,
        entity: str,
        where: tuple[Condition, ...],
        entries: Mapping[str, Node],
        node: Node,
    ) -> bool:
        """Whether at most one row is meant; updates and deletes that mean more have to say so."""
        if kind in ("create", "upsert"):
            return True
        key = self.model.entities[entity].key
        listed = " and ".join(f"{column} = :{column.replace('.', '_')}" for column in key)
        by_key = self.fixes_key(entity, where)
        keyless = entity in self.report.keyless
        if "where" not in entries and kind != "change":
            advice = "'where'" if keyless else f"where: {listed}"
            self.report.add(node, f"write '{name}' does not say which rows; add {advice}")
        elif keyless:
            return True  # the key has been told to be broken; there is nothing to compare with
        elif kind == "change":
            if not by_key or len(where) != len(key):
                self.report.add(
                    entries.get("where", node), f"an upsert with set or add names exactly the key: {listed}"
                )
        elif not by_key and "rows" not in entries:
            if len(where) != self.written(entries["where"]):
                return True  # what could not be read may be the key
            self.report.add(
                entries["where"],
                f"this may mean several rows of '{entity}'; fix the key ({', '.join(key)}) or say how many with 'rows'",
            )
        if not by_key and kind != "change" and "if" in entries and "rows" in entries:
            self.report.add(entries["if"], "'if' is for one row by its key; put the condition into 'where'")
        return by_key or kind == "change"

    def written(self, node: Node) -> int:
        """How many conditions a `where` has as written, so that a broken one is not taken for a missing one."""
        total = 0
        for text in node.items if isinstance(node, Items) else (node,):
            try:
                total += len(parse_where(text.text)) if isinstance(text, Text) else 1000
            except TextError:
                total += 1000
        return total

    def changes(self, entity: str, what: str, node: Node | None, params: Params) -> dict[str, Operand]:
        """`[name]`, whose values are arguments, or a map of fields to literals, parameters and `now`."""
        found: dict[str, Operand] = {}
        if node is None:
            return found
        if isinstance(node, Table):
            for name, value in node.entries.items():
                key = node.key(name)
                columns = self.changeable(entity, what, key)
                if len(columns) > 1:
                    self.report.add(key, f"'{name}' has several parts; name them one by one, or list it as [{name}]")
                elif columns:
                    operand = self.change(columns[0], what, value, params)
                    if operand is not None:
                        found[columns[0].name] = operand
            if not node.entries:
                self.report.add(node, f"{what} is empty; name at least one field")
            return found
        texts = self.texts(node, what)
        if not texts:
            self.report.add(node, f"{what} is empty; name at least one field")
        for text in texts:
            for column in self.changeable(entity, what, text):
                if column.name in found:
                    self.report.add(text, f"{what} names '{text.text}' twice; keep one")
                params.add(text, column.name, column.type)
                found[column.name] = Param(column.name)
        return found

    def changeable(self, entity: str, what: str, node: Text) -> list[Column]:
        """The columns of a field that can be set or added to."""
        columns = self.field_columns(entity, node)
        for column in columns:
            problem = ""
            if column.name in self.model.entities[entity].key:
                problem = "it is part of the key; delete the row and create another"
            elif column.computed is not None:
                problem = "it is computed; change what it is computed from"
            elif column.immutable:
                problem = "it is immutable; remove the mark, or leave the field alone"
            elif what == "add" and column.type.kind not in (*NUMBERS, "?"):
                problem = f"it is {column.type}, and only numbers can be added to; use 'set'"
            if problem:
                self.report.add(node, f"cannot {'add to' if what == 'add' else 'set'} '{shown(node.text)}': {problem}")
                return []
        return columns

    def change(self, column: Column, what: str, node: Node, params: Params) -> Operand | None:
        """A literal, `:p`, `-:p` or `now` for a column."""
        if isinstance(node, Items) and column.type.is_collection:
            return self.collection(column, node)
        text = self.text(node, f"{what} '{column.name}'")
        if text is None or column.type.kind == "?":
            return None
        assert isinstance(node, Text)
        negative = text.startswith("-:")
        if text.startswith(":") or negative:
            return self.parameter(column, text, node, params)
        if text.lower() == "now" and what == "set":
            if column.type.kind in ("timestamp", "date"):
                return Now()
            self.report.add(
                node,
                f"'now' is for timestamps and dates, and '{column.name}' is {column.type}; the text is \"'now'\"",
            )
            return None
        if text in ("null", "~") and node.plain and what == "set":
            if column.optional:
                return Literal(None)
            self.report.add(node, f"'{column.name}' is required and cannot be cleared; for the text write \"'{text}'\"")
            return None
        if len(text) > 1 and text[0] == text[-1] == "'":
            text = text[1:-1].replace("''", "'")
        try:
            return Literal(parse(column.type, text))
        except ValueError as error:
            hint = (
                self.report.near(text, [name for name, _ in column.type.values]) if column.type.kind == "enum" else ""
            )
            self.report.add(node, f"'{column.name}' is {column.type}: {error}{hint or such_as(column.type, error)}")
            return None

    def parameter(self, column: Column, text: str, node: Node, params: Params) -> Param | None:
        negative = text.startswith("-")
        name = text.lstrip("-:")
        if text not in (f":{name}", f"-:{name}"):
            self.report.add(node, f"'{shown(text)}' is not a parameter; write :name, or -:name")
            return None
        if negative and column.type.kind not in NUMBERS:
            self.report.add(
                node, f"'{shown(text)}' is negative, and '{column.name}' is {column.type}, not a number; write :{name}"
            )
            return None
        params.add(node, name, column.type)
        return Param(name, negative=negative)

    def collection(self, column: Column, node: Items) -> Literal | None:
        """A set or list written as a YAML list."""
        of = column.type.of
        assert of is not None
        values: list[object] = []
        for text in self.texts(node, f"set '{column.name}'"):
            value = self.parsed(text, f"'{column.name}' is {column.type}", lambda plain: parse(of, plain), text.text)
            if value is not None:
                values.append(value)
        try:
            return Literal(canonical(column.type, values))
        except ValueError as error:
            self.report.add(node, f"'{column.name}' is {column.type}: {error}{such_as(column.type, error)}")
            return None

    def returns(self, entity: str, node: Node | None, *, by_key: bool) -> tuple[str, ...]:
        found: dict[str, None] = {}
        if node is not None and not by_key:
            self.report.add(node, "'return' is for one row by its key; a write of several rows returns their number")
        for text in [] if node is None else self.texts(node, "return"):
            for column in self.field_columns(entity, text):
                if column.computed is not None:
                    self.report.add(text, f"'{text.text}' is computed; read it with a pattern")
                found[column.name] = None
        return tuple(found)

    def transaction(self, name: str, node: Node, writes: Mapping[str, Write], known: Mapping[str, Node]) -> Transaction:
        """`[place_order, take_stock x3 max 15]`, or a map with `writes` and a rate of its own."""
        entries: dict[str, Node] = {"writes": node}
        if isinstance(node, Table):
            entries = self.table(node, TRANSACTION_KEYS, f"transaction '{name}'")
        listed = entries.get("writes")
        parts: dict[str, Repeat] = {}
        items = listed.items if isinstance(listed, Items) else ()
        if not items:
            self.report.add(
                node, f"transaction '{name}' is a list of writes; write it as [place_order, take_stock x3 max 15]"
            )
        for item in items:
            part = self.repeat(item)
            if part is None:
                continue
            if part.write not in known:
                self.report.add(item, f"unknown write '{shown(part.write)}'{self.report.among(part.write, known)}")
            elif part.write in parts:
                self.report.add(
                    item, f"the write '{part.write}' stands in the transaction twice; write '{part.write} x2'"
                )
            elif part.write in writes and not writes[part.write].by_key:
                self.report.add(
                    item,
                    f"'{part.write}' changes several rows, each on its own, which no transaction does; leave it out",
                )
            elif part.write in CALL_ARGUMENTS:
                self.report.add(
                    item,
                    f"'{name}' would have two arguments named '{part.write}', which every call has; rename the write",
                )
            parts[part.write] = part
        has_rate = any(key in entries for key in ("rate", "peak", "skew", "top"))
        if has_rate and "rate" not in entries:
            self.report.add(node, f"transaction '{name}' has a peak or skew but no rate; add one")
        return Transaction(name, tuple(parts.values()), self.traffic(entries) if has_rate else None, node.line)

    def repeat(self, node: Node) -> Repeat | None:
        """`take_stock x3 max 15`, or `{write: take_stock, usual: 3, max: 15}`."""
        usual_text: str | None = None
        most_text: str | None = None
        if isinstance(node, Table):
            entries = self.table(node, REPEAT_KEYS, "a write of a transaction")
            if "write" not in entries:
                self.report.add(node, "no write is named; write it as {write: take_stock, usual: 3, max: 15}")
                return None
            name = self.text(entries["write"], "write")
            usual_text = self.text(entries["usual"], "usual") if "usual" in entries else None
            most_text = self.text(entries["max"], "max") if "max" in entries else None
        else:
            text = self.text(node, "a write of a transaction")
            words = [] if text is None else self.words_of(text, node)
            if not words:
                return None
            name, rest = words[0], words[1:]
            if rest and rest[0][:1].lower() == "x":
                usual_text, rest = rest[0][1:], rest[1:]
            if len(rest) == 2 and rest[0].lower() == "max":
                most_text, rest = rest[1], []
            if rest:
                self.report.add(node, f"did not expect '{shown(rest[0])}'; write it as take_stock x3 max 15")
                return None
        if name is None:
            return None
        if usual_text is None and most_text is None:
            return Repeat(name)
        usual = None if usual_text is None else self.parsed(node, "repeats", units.parse_count, usual_text)
        most = None if most_text is None else self.parsed(node, "max", lambda t: units.parse_whole(t, 1), most_text)
        if usual is not None and usual <= 0:
            self.report.add(node, "a write is repeated more than 0 times on average; write x1 or more")
        if usual is not None and most is not None and usual > most:
            self.report.add(
                node, f"the usual {units.format_count(usual)} repeats are more than the max of {most}; correct one"
            )
        usual = usual or 1.0
        return Repeat(name, usual, most if most is not None else max(1, math.ceil(usual)), True)

    def words_of(self, text: str, node: Node) -> list[str]:
        try:
            items = parse_items(text)
        except TextError as error:
            self.report.add(node, str(error))
            return []
        if len(items) > 1 or not all(isinstance(word, Name) for word in items[0]):
            self.report.add(node, f"'{shown(text)}' is not a write; write it as take_stock x3 max 15")
            return []
        return [word.text for word in items[0] if isinstance(word, Name)]


def _is_filled(item: Field, columns: Sequence[Column]) -> bool:
    """Whether a row that is created without a field has something for it: a default, the present, a copy, nothing."""
    has_value = item.default is not None or item.now or item.source is not None
    return has_value or all(column.optional or column.type.is_collection for column in columns)


def _article(kind: str) -> str:
    return {"change": "an upsert with set or add", "update": "an update", "upsert": "an upsert"}.get(kind, f"a {kind}")


def _instead(kind: str, key: str) -> str:
    if key == "where":
        return "; the key is among its arguments"
    if key in ("set", "add") and kind == "create":
        return "; the fields are its arguments, or use upsert"
    return "; use an update" if key == "if" else "; remove it"
