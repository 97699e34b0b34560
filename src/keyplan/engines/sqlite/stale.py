"""Indexes that are there, but do not hold what their tables do.

SQLite keeps them true by itself, so this takes a tool that edits the schema, a fault of the disk or a copy of a file in
use; but then a pattern that reads the index alone would answer wrongly without a word. SQLite's own check compares
every row of a table with every entry of its indexes; it stops after a hundred findings, so these are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from keyplan.engines.changing import Change
from keyplan.engines.rounds import Proc
from keyplan.engines.sqlite.layout import layout
from keyplan.engines.sqlite.sql import quote
from keyplan.engines.sqlite.statements import NOTHING
from keyplan.engines.sqlite.writes import Step, WriteRequest
from keyplan.errors import DesignMismatchError, KeyplanError, StorageError
from keyplan.model.model import Model
from keyplan.plan.design import Design

_OF_AN_INDEX = re.compile(r"(?:missing from|wrong # of entries in|non-unique entry in|out of order in) index (.+)$")


def stale_indexes(model: Model, design: Design) -> Proc[Sequence[Change]]:
    """A step for every such index, which makes it again from its table."""
    places = layout(model, design)
    known = {index.name for index in places.indexes.values()}
    found: dict[str, None] = {}
    for table in dict.fromkeys(index.table.name for index in places.indexes.values()):
        (reply,) = yield [(f"PRAGMA integrity_check({quote(table)})", ())]
        if isinstance(reply, Exception):
            raise reply
        for (message,) in reply:
            named = _OF_AN_INDEX.search(message)
            if named and named[1] in known:
                found[named[1]] = None
            elif "page" in message.lower():  # of the trees themselves; values are judged where rows are read
                first = " ".join(message.split())
                raise StorageError(f"table '{table}': the file is damaged ({first}); restore it from a backup")
    return [_Reindex(name) for name in found]


class _Reindex(Change):
    """Makes an index again."""

    def __init__(self, name: str) -> None:
        self.summary = f"make index {name} again"
        self.fault = f"index {name} does not hold what its table does"
        self._name = name

    def run(self) -> Proc[None]:
        step = Step(f"REINDEX {quote(self._name)}", (), NOTHING, 0, False)
        (reply,) = yield [_Request([step], (), ())]
        if isinstance(reply, Exception):
            raise reply


class _Request(WriteRequest):
    """A WriteRequest without edits."""

    def refused(self, step: Step, message: str) -> KeyplanError:
        return DesignMismatchError(f"sqlite refused '{step.text}': {message}; remove the rows that are there twice")
