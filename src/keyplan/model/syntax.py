"""The small languages inside a model file, parsed into values that have not been resolved yet.

`grammar.lark` holds the grammar; it is compiled on first use. Every `parse_` function raises TextError, whose
message says what stands where it cannot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from keyplan.model.pattern import Param

MOST_TEXT = 50_000
MOST_OPERATIONS = 100
"""Bounds the depth of an expression's tree, which others walk recursively."""


class TextError(ValueError):
    """Text that does not follow the grammar."""


@dataclass(frozen=True)
class Name:
    """A path such as `user.name`, or a word such as `true`; which of them depends on where it stands."""

    text: str


@dataclass(frozen=True)
class Quoted:
    """Text in single quotes, without them."""

    text: str


@dataclass(frozen=True)
class Number:
    """A number as written."""

    text: str


@dataclass(frozen=True)
class Call:
    """`day(created_at)`, `ago('30d')`, `search(name, :words)`."""

    name: str
    arguments: tuple[Value, ...]


Value = Name | Quoted | Number | Call | Param


@dataclass(frozen=True)
class Test:
    """One condition: `left op values`; a call alone has the op ''."""

    left: Name | Call
    op: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Sort:
    """One term of an order."""

    value: Value
    descending: bool


@dataclass(frozen=True)
class Binary:
    """`left op right` in an expression; op is one of + - *."""

    op: str
    left: Expression
    right: Expression


Expression = Name | Number | Binary


@dataclass(frozen=True)
class Aggregate:
    """`sum(quantity * price)`."""

    how: str
    expression: Expression | None


@dataclass(frozen=True)
class Group:
    """Items in brackets."""

    items: tuple[Words, ...]


Words = tuple[Name | Quoted | Group, ...]
"""Words that stand side by side: `optional 60%`, `string(32)`."""


def parse_items(text: str) -> tuple[Words, ...]:
    """`string(32), unique`: items between commas."""
    result: tuple[Words, ...] = _parse(text, "items")
    return result


def parse_where(text: str) -> tuple[Test, ...]:
    """A conjunction of conditions."""
    result: tuple[Test, ...] = _parse(text, "where")
    return result


def parse_order(text: str) -> tuple[Sort, ...]:
    """`created_at desc, total`."""
    result: tuple[Sort, ...] = _parse(text, "orders")
    return result


def parse_value(text: str) -> Value:
    """A path, a literal, a parameter or a call."""
    result: Value = _parse(text, "value")
    return result


def parse_aggregate(text: str) -> Aggregate:
    """`sum(quantity * price)`, `count()`."""
    if sum(text.count(sign) for sign in "+-*") > MOST_OPERATIONS:
        raise TextError(f"an expression has at most {MOST_OPERATIONS} operations")
    result: Aggregate = _parse(text, "aggregate")
    return result


class _ToValues(Transformer[Any, Any]):
    """Runs while the parser reduces, so that no tree is built and depth costs no stack."""

    def items(self, found: list[Any]) -> Any:
        return tuple(found)

    def item(self, found: list[Any]) -> Any:
        return tuple(found)

    def atom(self, found: list[Any]) -> Any:
        return Name(str(found[0]))

    def quoted(self, found: list[Any]) -> Any:
        return Quoted(str(found[0])[1:-1].replace("''", "'"))

    def group(self, found: list[Any]) -> Any:
        return Group(tuple(item for item in found if item is not None))

    def where(self, found: list[Any]) -> Any:
        return tuple(found)

    def compare(self, found: list[Any]) -> Any:
        return Test(found[0], str(found[1]), (found[2],))

    def among(self, found: list[Any]) -> Any:
        return Test(found[0], "in", tuple(value for value in found[1:] if value is not None))

    def among_one(self, found: list[Any]) -> Any:
        return Test(found[0], "in", (found[1],))

    def between(self, found: list[Any]) -> Any:
        return Test(found[0], "between", (found[1], found[2]))

    def alone(self, found: list[Any]) -> Any:
        return Test(found[0], "")

    def call(self, found: list[Any]) -> Any:
        return Call(str(found[0]).lower(), tuple(value for value in found[1:] if value is not None))

    def number(self, found: list[Any]) -> Any:
        return Number("".join(str(token) for token in found))

    def param(self, found: list[Any]) -> Any:
        return Param(str(found[0])[1:], None if found[1] is None else min(float(found[1]), 1e18))

    def path(self, found: list[Any]) -> Any:
        return Name(".".join(str(token) for token in found))

    def orders(self, found: list[Any]) -> Any:
        return tuple(found)

    def order(self, found: list[Any]) -> Any:
        return Sort(found[0], found[1] is not None and str(found[1]).lower() == "desc")

    def aggregate(self, found: list[Any]) -> Any:
        return Aggregate(str(found[0]).lower(), found[1])

    def binary(self, found: list[Any]) -> Any:
        return Binary(str(found[1]), found[0], found[2])

    def plain_number(self, found: list[Any]) -> Any:
        return Number(str(found[0]))

    def negative(self, found: list[Any]) -> Any:
        if isinstance(found[1], Number) and not found[1].text.startswith("-"):
            return Number("-" + found[1].text)
        return Binary("-", Number("0"), found[1])


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = resources.files("keyplan.model").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        start=["items", "where", "orders", "value", "aggregate"],
        transformer=_ToValues(),
        maybe_placeholders=True,
    )


_HINTS = {
    "or": "'or' is not in the language; write one pattern for each alternative, or use 'in'",
    "not": "'not' is not in the language; use '!=', 'missing(...)' or another value",
    "like": "'like' is not in the language; use begins_with(path, :p) or search(path, :words)",
    "is": "'is' is not in the language; use present(path) or missing(path)",
    "/": "division is not in the language; keep the quotient as a field of its own",
    '"': "put text in single quotes",
    "<>": "write '!=' for 'not equal'",
    "==": "there are two '='; write one for 'equal'",
}


@lru_cache(maxsize=4096)
def _parse(text: str, start: str) -> Any:
    if len(text) > MOST_TEXT:
        raise TextError(f"the text is longer than {MOST_TEXT} characters; shorten it")
    if not text.strip():
        raise TextError("there is nothing here; write something or leave the key out")
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput as error:
        raise TextError(_explain(text, error)) from None
    except VisitError as error:
        raise TextError(f"'{shown(text)}' cannot be read; {error.orig_exc}") from None


def _explain(text: str, error: UnexpectedInput) -> str:
    place = error.pos_in_stream
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return f"'{shown(text)}' ends too early; something is missing at its end"
    rest = text[place or 0 :]
    word = _first_word(rest)
    before = text[: place or 0].rstrip()
    for sign in ("<>", "=="):
        if rest.startswith(sign) or (before[-1:] + rest[:1]) == sign:
            return f"'{shown(text)}': {_HINTS[sign]}"
    hint = _HINTS.get(word.lower()) or _misplaced(before, rest)
    if hint is None:
        if rest[:1] == "'":
            hint = "a quoted text does not end, or stands where none can; write a quote inside of text twice"
        else:
            hint = (
                f"did not expect '{shown(word)}' after '{shown(before, last=True)}'; check what stands there"
                if before
                else f"did not expect '{shown(word)}' at the beginning; begin with a path"
            )
    return f"'{shown(text)}': {hint}"


def _misplaced(before: str, rest: str) -> str | None:
    """What SQL or plain speech would have there, in our words."""
    if before.lower().split()[-1:] == ["not"]:
        return _HINTS["not"]
    if not before and rest[:1] == "(":
        return "conditions take no brackets; leave them out"
    if re.search(r"\bago\($", before, re.IGNORECASE):
        return f"a duration stands in quotes; write ago('{_duration(rest)}')"
    if re.search(r"\bnow(?:\(\))?$", before, re.IGNORECASE) and rest[:1] in ("-", "+"):
        return f"nothing is added to or taken from a moment; write ago('{_duration(rest)}')"
    return None


def _duration(text: str) -> str:
    """The duration at the beginning of a text, or one that shows how they are written."""
    found = re.match(r"-?\s*([0-9]+)\s*(ms|[smhdwy])\b", text)
    return "".join(found.groups()) if found else "30d"


def _first_word(text: str) -> str:
    text = text.lstrip()
    length = 0
    while length < len(text) and (text[length].isalnum() or text[length] == "_"):
        length += 1
    return text[: max(length, 1)]


def shown(text: str, *, last: bool = False) -> str:
    """Text for a message: on one line, and cut where it gets long."""
    text = " ".join(text.split())
    if len(text) <= 60:
        return text
    return "..." + text[-40:] if last else text[:57] + "..."
