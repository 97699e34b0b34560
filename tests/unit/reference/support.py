"""A database of `reference` on a model given as text, with a clock that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from textwrap import dedent, indent
from typing import Any

from keyplan.model.load import parse_model
from keyplan.reference import Database

NOON = datetime(2024, 5, 15, 12, 0, tzinfo=UTC)
"""A Wednesday."""


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


def database(entities: str, patterns: str = "", writes: str = "", transactions: str = "") -> tuple[Database, Clock]:
    """An empty database whose model has these sections."""
    sections = {"entities": entities, "patterns": patterns, "writes": writes, "transactions": transactions}
    text = "keyplan: 1\nname: test\n"
    for name, body in sections.items():
        if body:
            text += f"{name}:\n{indent(dedent(body).strip(), '  ')}\n"
    clock = Clock()
    return Database(parse_model(text), clock), clock


def filled(entities: str, patterns: str, rows: list[tuple[str, dict[str, Any]]]) -> Database:
    """A database with rows, for tests of reads."""
    found, _ = database(entities, patterns)
    found.load(rows)
    return found


def at(text: str) -> datetime:
    """`2024-05-01 10:00` as a timestamp in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
