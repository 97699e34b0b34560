"""One field: its type and marks, from the short form or the long one.

Both forms become the same thing first, a head (`string(32)`) and marks (`unique`, `max 50`), each with its words.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from keyplan import units
from keyplan.model.checks import DIGITS, most_bytes
from keyplan.model.entity import Computed, Field
from keyplan.model.reading import Reader
from keyplan.model.source import Items, Node, Table, Text
from keyplan.model.syntax import Group, Name, Quoted, TextError, Words, parse_items, shown
from keyplan.model.types import COLLECTIONS, SCALARS, Type

UNKNOWN = Type("?")
"""Stands for a type that could not be read, so that the rest of the model can still be checked."""

COMPUTED = ("count", "sum", "min", "max")
SIZED = ("string", "text", "bytes", "json")
FLAGS = ("key", "unique", "now", "immutable")
MARKS = (*FLAGS, "optional", "default", "distinct", "skew", "top", "from", "as", "max", "note")
_NOW = ("now", "current_timestamp", "current_date", "today")
"""How other languages say what the mark `now` says."""
LONG_KEYS = ("type", "size", "scale", "values", "of", "avg", *MARKS)
USUAL_SHARE = 0.5
"""The share of rows that have an optional field if nothing is said."""

OTHER_NAMES = {
    "str": "string",
    "varchar": "string",
    "char": "string",
    "integer": "int",
    "bigint": "int",
    "long": "int",
    "number": "int",
    "double": "float",
    "real": "float",
    "numeric": "decimal",
    "money": "decimal",
    "boolean": "bool",
    "datetime": "timestamp",
    "time": "timestamp",
    "guid": "uuid",
    "blob": "bytes",
    "binary": "bytes",
    "object": "json",
    "map": "json",
    "array": "list",
}


@dataclass
class Draft:
    """A field that has been read; what depends on other entities is still text."""

    field: Field
    node: Node
    is_key: bool = False
    default: Words | None = None


class FieldReader(Reader):
    """Reads the fields of all entities; `entities` are the names that can be referenced."""

    entities: Collection[str] = ()

    def field(self, name: str, node: Node, line: int) -> Draft:
        """The field, with an unknown type if it cannot be read."""
        head: Words | None
        if isinstance(node, Text):
            head, marks = self.short(node)
        elif isinstance(node, Table):
            head, marks = self.long(node)
        else:
            self.report.add(node, f"field '{name}' has to be a type with marks, such as 'string(32), unique'")
            head, marks = None, {}
        draft = Draft(Field(name, type=UNKNOWN, line=line), node)
        if head is not None:
            draft.field = self.typed(draft.field, head, node)
        self.apply_marks(draft, marks)
        return draft

    def short(self, node: Text) -> tuple[Words | None, dict[str, Words]]:
        try:
            items = parse_items(node.text)
        except TextError as error:
            self.report.add(node, str(error))
            return None, {}
        marks: dict[str, Words] = {}
        for words in items[1:]:
            first = words[0]
            if not isinstance(first, Name) or first.text.lower() not in MARKS:
                self.unknown_mark(node, first)
            elif first.text.lower() in marks:
                self.report.add(node, f"the mark '{first.text.lower()}' stands here twice; keep one")
            else:
                marks[first.text.lower()] = words[1:]
        return items[0], marks

    def unknown_mark(self, node: Node, first: Name | Quoted | Group) -> None:
        if not isinstance(first, Name):
            text = first.text if isinstance(first, Quoted) else "("
            self.report.add(node, f"'{shown(text)}' is not a mark; the marks are {', '.join(MARKS)}")
            return
        hint = self.report.near(first.text, MARKS) or f"; the marks are {', '.join(MARKS)}"
        self.report.add(node, f"unknown mark '{shown(first.text)}'{hint}")

    def long(self, node: Table) -> tuple[Words | None, dict[str, Words]]:
        entries = self.table(node, LONG_KEYS, "a field")
        if "type" not in entries:
            self.report.add(node, "the field has no 'type'; add one")
            return None, {}
        type_text = self.text(entries["type"], "type")
        head = None if type_text is None else self.words(entries["type"], type_text)
        marks: dict[str, Words] = {}
        for mark in MARKS:
            if mark not in entries:
                continue
            value = entries[mark]
            if mark in FLAGS or (mark == "optional" and isinstance(value, Text) and value.text in ("true", "false")):
                if self.flag(value, mark):
                    marks[mark] = ()
                continue
            text = self.text(value, mark)
            if text is not None:
                marks[mark] = (Quoted(text),) if mark in ("note", "default") else self.words(value, text) or ()
        if head is not None:
            head = self.with_arguments(head, entries)
        # the long form says `max` for the type and the reference alike
        if head is not None and "max" in marks and isinstance(head[0], Name) and head[0].text.lower() in COLLECTIONS:
            head = _more(head, (Name("max"), *marks.pop("max")))
        return head, marks

    def words(self, node: Node, text: str) -> Words | None:
        try:
            items = parse_items(text)
        except TextError as error:
            self.report.add(node, str(error))
            return None
        if len(items) > 1:
            self.report.add(node, f"'{shown(text)}' holds more than one thing; give each its own key")
        return items[0]

    def with_arguments(self, head: Words, entries: dict[str, Node]) -> Words:
        """Adds `of`, `size`, `scale`, `avg` and `values` to the head, as if they stood in its brackets."""
        for key in ("of", "size", "scale", "avg"):
            if key in entries:
                text = self.text(entries[key], key)
                words = None if text is None else self.words(entries[key], text)
                if words is not None:
                    head = _more(head, (Name("avg"), *words) if key == "avg" else words)
        values = entries.get("values")
        if isinstance(values, Table):
            for name, share in values.entries.items():
                text = self.text(share, "a share")
                head = _more(head, (Quoted(name), *(() if not text or text == "null" else (Name(text),))))
        elif isinstance(values, Items | Text):
            for item in self.texts(values, "values"):
                head = _more(head, (Quoted(item.text),))
        return head

    def typed(self, item: Field, head: Words, node: Node) -> Field:
        """The field with its type, target or computation."""
        first = head[0]
        if not isinstance(first, Name):
            self.report.add(node, f"field '{item.name}' has to begin with a type or the name of an entity")
            return item
        group = head[1] if len(head) > 1 and isinstance(head[1], Group) else None
        extra = head[2:] if group else head[1:]
        if extra:
            what = extra[0].text if not isinstance(extra[0], Group) else "("
            self.report.add(
                node, f"did not expect '{shown(what)}' after the type of '{item.name}'; put a comma between marks"
            )
        if first.text in self.entities:
            if group is not None:
                self.report.add(node, f"the reference '{first.text}' takes nothing in brackets; remove them")
            return replace(item, type=None, target=first.text)
        if first.text.lower() in COMPUTED and group is not None:
            computed = self.computed(first.text.lower(), group, node)
            return item if computed is None else replace(item, type=None, computed=computed)
        return replace(item, type=self.type(first.text, group, node))

    def computed(self, how: str, group: Group, node: Node) -> Computed | None:
        words = group.items[0] if len(group.items) == 1 else ()
        if len(words) != 1 or not isinstance(words[0], Name):
            shape = "count(role)" if how == "count" else f"{how}(role.field)"
            self.report.add(node, f"a computed field is written as {shape}")
            return None
        role, _, column = words[0].text.partition(".")
        if (how == "count") == bool(column):
            shape = "count(role), without a field" if how == "count" else f"{how}(role.field)"
            self.report.add(node, f"'{how}({shown(words[0].text)})' has to be {shape}")
            return None
        return Computed(how, role, column or None)

    def type(self, name: str, group: Group | None, node: Node) -> Type:
        """A type by its name and what stands in its brackets."""
        kind = name.lower()
        arguments = group.items if group else ()
        if kind not in (*SCALARS, *COLLECTIONS):
            known = chain(self.entities, SCALARS, COLLECTIONS)
            other = OTHER_NAMES.get(kind)
            hint = f"; did you mean '{other}'?" if other else self.report.near(name, known)
            hint = hint or f"; use an entity or one of {', '.join((*SCALARS, *COLLECTIONS))}"
            self.report.add(node, f"unknown type or entity '{shown(name)}'{hint}")
            return UNKNOWN
        if kind in COLLECTIONS:
            return self.collection(kind, arguments, node)
        if kind == "enum":
            return self.enum(arguments, node)
        if kind == "bool":
            return self.bool(arguments, node)
        if kind == "decimal":
            return self.decimal(arguments, node)
        if kind in SIZED:
            return self.sized(kind, arguments, node)
        if arguments:
            self.report.add(node, f"the type '{kind}' takes nothing in brackets; remove them")
        return Type(kind)

    def sized(self, kind: str, arguments: tuple[Words, ...], node: Node) -> Type:
        size, most = 0.0, None
        sizes: list[str] = []
        bounds: list[str] = []
        for words in arguments:
            texts = self.plain(words, node)
            if len(texts) == 1 or (len(texts) == 2 and not texts[1][:1].isdigit()):
                size = self.parsed(node, f"size of {kind}", units.parse_bytes, " ".join(texts)) or 0.0
                sizes.append(" ".join(texts))
            elif len(texts) == 2 and texts[0].lower() == "max":
                most = self.most_bytes(texts[1], node)
                bounds.append(texts[1])
            elif texts:
                self.report.add(
                    node, f"'{shown(' '.join(texts))}' is not a size; write {kind}(32) or {kind}(32, max 200)"
                )
        if len(sizes) > 1:
            self.report.add(node, f"a {kind} has one size, and here are {shown(' and '.join(sizes))}; keep one")
        self.said_once("max", bounds, node)
        return Type(kind, size=size, most=most)

    def said_once(self, what: str, texts: list[str], node: Node) -> None:
        """Of two figures for one thing, none can be taken for the right one."""
        if len(texts) > 1:
            self.report.add(node, f"'{what}' stands here twice, as {shown(' and '.join(texts))}; keep one")

    def most_bytes(self, text: str, node: Node) -> int | None:
        found = self.parsed(node, "max", units.parse_bytes, text)
        if found is not None and (found < 1 or found != int(found)):
            self.report.add(node, f"max: '{shown(text)}' is not a whole number of bytes above 0")
            return None
        return None if found is None else int(found)

    def decimal(self, arguments: tuple[Words, ...], node: Node) -> Type:
        scale = 4
        if len(arguments) > 1:
            self.report.add(node, "a decimal takes one number, its digits after the point: decimal(2)")
        elif arguments:
            texts = self.plain(arguments[0], node)
            found = self.parsed(node, "decimal", units.parse_whole, " ".join(texts)) if texts else None
            if found is not None and found > DIGITS:
                self.report.add(node, f"decimal: at most {DIGITS} digits after the point, not {found}; lower it")
            elif found is not None:
                scale = found
        return Type("decimal", scale=scale)

    def bool(self, arguments: tuple[Words, ...], node: Node) -> Type:
        if not arguments:
            return Type("bool")
        texts = self.plain(arguments[0], node)
        if len(arguments) > 1 or len(texts) != 2 or texts[0].lower() not in ("true", "false"):
            self.report.add(node, "a bool with a share is written as bool(true 1%)")
            return Type("bool")
        share = self.parsed(node, "bool", units.parse_share, texts[1])
        if share is None:
            return Type("bool")
        return Type("bool", values=(("true", share if texts[0].lower() == "true" else round(1 - share, 12)),))

    def enum(self, arguments: tuple[Words, ...], node: Node) -> Type:
        shares: dict[str, float | None] = {}
        for words in arguments:
            texts = self.plain(words, node)
            if not texts:
                continue
            if len(texts) > 2:
                self.report.add(
                    node, f"'{shown(' '.join(texts))}' is not a value of an enum; put it in quotes, a share after it"
                )
                continue
            if texts[0] in shares:
                self.report.add(node, f"the value '{shown(texts[0])}' stands in the enum twice; keep one")
            if not texts[0] or "\0" in texts[0] or len(texts[0].encode()) > 512:
                self.report.add(node, "a value of an enum has between 1 and 512 bytes and no NUL")
            share = (
                self.parsed(node, f"share of '{shown(texts[0])}'", units.parse_share, texts[1])
                if len(texts) > 1
                else None
            )
            shares[texts[0]] = share
        if not arguments:
            self.report.add(node, "an enum needs its values: enum(pending 10%, done 90%)")
        if not shares:
            return UNKNOWN
        said = sum(share for share in shares.values() if share is not None)
        left = [name for name, share in shares.items() if share is None]
        if said > 1 + 1e-6 or (not left and said < 1 - 1e-6):
            self.report.add(
                node,
                f"the shares of the enum sum to {units.format_share(said)}, not 100%; correct them or leave one out",
            )
        rest = max(0.0, 1 - said) / len(left) if left else 0.0
        return Type("enum", values=tuple((name, rest if share is None else share) for name, share in shares.items()))

    def collection(self, kind: str, arguments: tuple[Words, ...], node: Node) -> Type:
        of, size, most = UNKNOWN, 0.0, None
        first = arguments[0] if arguments else ()
        if not first or not isinstance(first[0], Name):
            self.report.add(node, f"a {kind} needs the type of its elements: {kind}(string(10), avg 3, max 50)")
        elif first[0].text in self.entities or first[0].text.lower() in (*COLLECTIONS, "json"):
            self.report.add(node, f"a {kind} holds scalars, not '{first[0].text}'; make it an entity of its own")
        else:
            group = first[1] if len(first) > 1 and isinstance(first[1], Group) else None
            if len(first) > (2 if group else 1):
                self.report.add(node, f"put a comma after the type of the {kind}'s elements")
            of = self.type(first[0].text, group, node)
        said: dict[str, list[str]] = {"avg": [], "max": []}
        for words in arguments[1:]:
            texts = self.plain(words, node)
            if len(texts) == 2 and texts[0].lower() in said:
                said[texts[0].lower()].append(texts[1])
            if len(texts) == 2 and texts[0].lower() == "avg":
                size = self.parsed(node, "avg", units.parse_count, texts[1]) or 0.0
            elif len(texts) == 2 and texts[0].lower() == "max":
                most = self.parsed(node, "max", partial(units.parse_whole, least=1), texts[1])
            elif texts:
                self.report.add(
                    node, f"'{shown(' '.join(texts))}' means nothing in a {kind}; write {kind}(T, avg 3, max 50)"
                )
        for what, found in said.items():
            self.said_once(what, found, node)
        if most is not None and size > most:
            self.report.add(
                node, f"the average of {units.format_count(size)} elements is above the max of {most}; correct one"
            )
        return Type(kind, size=size, most=most, of=of)

    def plain(self, words: Words, node: Node) -> list[str]:
        """The texts of words that hold no brackets."""
        if any(isinstance(word, Group) for word in words):
            self.report.add(node, "did not expect brackets here; remove them")
            return []
        return [word.text for word in words if not isinstance(word, Group)]

    def apply_marks(self, draft: Draft, marks: dict[str, Words]) -> None:
        """Puts the marks onto the field; what they mean together is checked later."""
        node = draft.node
        changes: dict[str, object] = {}
        for mark, words in marks.items():
            if mark == "default":
                if _means_now(draft.field.type, words):
                    self.report.add(node, "the time of the call is no 'default'; write the mark 'now' in its place")
                elif len(words) == 1 and not isinstance(words[0], Group):
                    draft.default = words
                else:
                    self.report.add(node, "'default' takes one value; put text with blanks in single quotes")
                continue
            texts = self.plain(words, node) if words else []
            if mark in FLAGS:
                if texts:
                    self.report.add(
                        node,
                        f"the mark '{mark}' takes nothing after it, but has '{shown(' '.join(texts))}'; remove that",
                    )
                if mark == "key":
                    draft.is_key = True
                else:
                    changes[mark] = True
            elif mark == "note":
                changes["note"] = " ".join(texts)
            elif mark == "optional" and not texts:
                changes["optional"] = USUAL_SHARE
            else:
                changes |= self.valued_mark(draft.field, mark, texts, node)
        draft.field = replace(draft.field, **changes)  # type: ignore[arg-type]
        self.check_size(draft.field, node)

    def valued_mark(self, item: Field, mark: str, texts: list[str], node: Node) -> dict[str, object]:
        text = Text(node.line, node.path, " ".join(texts))
        if not texts or (len(texts) > 1 and mark in ("from", "as")):
            self.report.add(node, f"the mark '{mark}' takes one value, not {len(texts)}")
            return {}
        if mark in ("optional", "top"):
            return {mark: self.share(text, mark)}
        if mark == "skew":
            return {mark: self.skew(text, mark)}
        if mark == "distinct":
            found = self.amount(text, mark, units.parse_count)
            if found is not None and found < 1:
                self.report.add(node, "distinct: there is at least 1 value; write 1 or more")
                found = None
            return {mark: found}
        if mark == "from":
            return {"source": text.text}
        if mark == "as":
            return {"role": text.text} if self.name(text, "a role") else {}
        if item.target is not None:
            return {"most": self.whole(text, "max")}
        if item.type is not None and item.type.most is not None:
            self.said_once("max", [str(item.type.most), text.text], node)
        if item.type is not None and item.type.kind in SIZED:
            return {"type": replace(item.type, most=self.most_bytes(text.text, node))}
        if item.type is not None and item.type.is_collection:
            return {"type": replace(item.type, most=self.whole(text, "max"))}
        if item.type is not UNKNOWN:
            self.report.add(
                node,
                "'max' is for references, string, text, bytes, json, set and list; remove it",
            )
        return {}

    def check_size(self, item: Field, node: Node) -> None:
        if item.type is None or item.type.kind not in SIZED:
            return
        if item.type.size > most_bytes(item.type):
            self.report.add(
                node,
                f"'{item.name}' has {units.format_bytes(item.type.size)} on average, but a {item.type.kind} has "
                f"at most {units.format_bytes(most_bytes(item.type))}; correct the size, or say max",
            )


def _more(head: Words, words: Words) -> Words:
    """The head with one more item in its brackets."""
    if len(head) > 1 and isinstance(head[1], Group):
        return (head[0], Group((*head[1].items, words)), *head[2:])
    return (head[0], Group((words,)), *head[1:])


def _means_now(type: Type | None, words: Words) -> bool:
    """Whether somebody wrote `default now()` for the mark `now`."""
    first = words[0] if words else None
    is_moment = type is not None and type.kind in ("timestamp", "date")
    return is_moment and isinstance(first, Name) and first.text.lower() in _NOW
