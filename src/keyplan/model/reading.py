"""Small steps from nodes to plain values that every part of the loader takes; each reports what is wrong itself."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from keyplan import units
from keyplan.model.pattern import Traffic
from keyplan.model.source import Items, Node, Report, Table, Text
from keyplan.model.syntax import shown

T = TypeVar("T")

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MOST_NAME = 64

STORE_METHODS = (
    *("open", "close", "load", "settle", "verify", "explain", "apply"),
    *("model", "design", "transaction", "all", "run", "rows", "using"),
)
"""Names of the store itself, which no pattern, write or transaction may take."""

CALL_ARGUMENTS = ("self", "cursor", "consistency", "explain")
"""Arguments that every call has, which no parameter may take."""


class Reader:
    """Reads texts, lists, tables and amounts out of nodes."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def table(self, node: Node, known: Iterable[str] | None, what: str) -> dict[str, Node]:
        """The entries of a mapping; keys that are not known are reported and left out."""
        if isinstance(node, Text) and node.is_empty:
            return {}
        if not isinstance(node, Table):
            self.report.add(node, f"{what} has to be a map; write it as names and values, each on its line")
            return {}
        if known is None:
            return dict(node.entries)
        names = tuple(known)
        found: dict[str, Node] = {}
        for name, value in node.entries.items():
            if name in names:
                found[name] = value
                continue
            hint = self.report.near(name, names) or f"; the keys are {', '.join(names)}"
            self.report.add(node.key(name), f"{what} has no key '{shown(name)}'{hint}")
        return found

    def is_table(self, node: Node) -> bool:
        """Whether `table` takes a node for a mapping, be it an empty one, and says nothing."""
        return isinstance(node, Table) or (isinstance(node, Text) and node.is_empty)

    def text(self, node: Node, what: str) -> str | None:
        """A scalar's text, without the blanks around it."""
        if not isinstance(node, Text):
            self.report.add(node, f"{what} has to be text, not a {'list' if isinstance(node, Items) else 'map'}")
            return None
        return node.text.strip()

    def texts(self, node: Node, what: str) -> list[Text]:
        """A list of scalars; a scalar alone is a list of one."""
        if isinstance(node, Text):
            return [] if node.is_empty else [Text(node.line, node.path, node.text.strip(), node.plain)]
        if not isinstance(node, Items):
            self.report.add(node, f"{what} has to be a list, not a map")
            return []
        found: list[Text] = []
        for item in node.items:
            if isinstance(item, Text):
                found.append(Text(item.line, item.path, item.text.strip(), item.plain))
            else:
                self.report.add(item, f"{what} has to be a list of texts")
        return found

    def amount(self, node: Node | None, what: str, parse: Callable[[str], T]) -> T | None:
        """A scalar read by one of the functions of `units`."""
        if node is None:
            return None
        text = self.text(node, what)
        if text is None:
            return None
        return self.parsed(node, what, parse, text)

    def parsed(self, node: Node, what: str, parse: Callable[[str], T], text: str) -> T | None:
        """What `parse` makes of a text, or None with its complaint reported."""
        try:
            return parse(text)
        except ValueError as error:
            self.report.add(node, f"{what}: {error}")
            return None

    def whole(self, node: Node | None, what: str, least: int = 1) -> int | None:
        return self.amount(node, what, lambda text: units.parse_whole(text, least))

    def flag(self, node: Node, what: str) -> bool:
        text = self.text(node, what)
        if text is None:
            return False
        if text.lower() not in ("true", "false"):
            self.report.add(node, f"{what} is either true or false, not '{shown(text)}'; write one of them")
        return text.lower() == "true"

    def choice(self, node: Node | None, what: str, known: tuple[str, ...], default: str) -> str:
        """One of a few words."""
        text = None if node is None else self.text(node, what)
        if node is None or text is None:
            return default
        if text.lower() not in known:
            hint = self.report.near(text.lower(), known) or f"; use one of {', '.join(known)}"
            self.report.add(node, f"{what} cannot be '{shown(text)}'{hint}")
            return default
        return text.lower()

    def name(self, node: Text, what: str) -> bool:
        """Whether a text can be the name of an entity, field, role, pattern, write or parameter."""
        text = node.text
        if not IDENTIFIER.fullmatch(text):
            self.report.add(
                node,
                f"'{shown(text)}' cannot be the name of {what}; use letters, digits and _, and begin with a letter",
            )
        elif keyword.iskeyword(text):
            self.report.add(node, f"'{text}' cannot be the name of {what}, because it is a Python keyword; rename it")
        elif len(text) > MOST_NAME:
            self.report.add(
                node, f"'{shown(text)}' is too long for the name of {what}; use at most {MOST_NAME} letters"
            )
        else:
            return True
        return False

    def skew(self, node: Node | None, what: str) -> float | None:
        """`zipf 1.1`, or the exponent alone."""
        text = None if node is None else self.text(node, what)
        if node is None or text is None:
            return None
        word, _, rest = text.partition(" ")
        if word.lower() == "zipf":
            text = rest.strip()
            if not text:
                self.report.add(node, f"{what}: the exponent of the distribution is missing; write zipf 1.1")
                return None
        exponent = self.parsed(node, what, units.parse_number, text)
        if exponent is not None and not 0 < exponent <= 10:
            self.report.add(
                node, f"{what}: the exponent of a Zipf distribution is above 0 and at most 10; write zipf 1.1"
            )
            return None
        return exponent

    def share(self, node: Node | None, what: str) -> float | None:
        """A percentage above 0."""
        share = self.amount(node, what, units.parse_share)
        if node is not None and share == 0:
            self.report.add(node, f"{what} cannot be 0%; leave it out")
            return None
        return share

    def skew_or_top(self, entries: Mapping[str, Node]) -> tuple[float | None, float | None]:
        """`skew` and `top`, of which only one can be said."""
        if "skew" in entries and "top" in entries:
            self.report.add(entries["top"], "'skew' and 'top' say the same thing twice; keep one")
        return self.skew(entries.get("skew"), "skew"), self.share(entries.get("top"), "top")

    def traffic(self, entries: Mapping[str, Node]) -> Traffic:
        """`rate`, `peak`, `skew` and `top`; without a rate it is low, and the caller warns."""
        rate = self.amount(entries.get("rate"), "rate", units.parse_rate)
        peak, hours = self.amount(entries.get("peak"), "peak", units.parse_peak) or (1.0, 1.0)
        skew, top = self.skew_or_top(entries)
        return Traffic(units.RATE_WORDS["low"] if rate is None else rate, peak, hours, skew, top)

    def p99(self, node: Node | None) -> float | None:
        found = self.amount(node, "p99", units.parse_latency)
        if node is not None and found == 0:
            self.report.add(node, "p99 cannot be 0; leave it out for no limit")
            return None
        return found
