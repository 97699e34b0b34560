"""That a file still holds the design which a store runs, exactly and for nothing: SQLite itself says when to look.

Whoever applies a design changes the schema of the file in the same transaction (`TICK`). SQLite compares the number of
the schema under the lock of every statement, read or write, and prepares the statement anew if it is another one; and
whenever it prepares a statement it asks the connection's authorizer. Ours refuses, and the port does the request again
in a transaction that reads the record first. So a statement that runs has either been prepared for the schema that the
file has in this moment, after a look at the record, or reads the record in its own transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from keyplan.engines.changing import OTHER_DESIGN, UNFINISHED
from keyplan.engines.sqlite.pack import DESIGN_TABLE

TICK = ("CREATE VIEW keyplan_tick AS SELECT 1", "DROP VIEW keyplan_tick")
"""Statements that change nothing but the number of the schema."""
CHANGING, UPKEEP = "$changing", "$upkeep"
"""Stand among the names of tables on record: with the hash of a design, where an earlier version was filling tables for
it, and with what open stores have to agree on."""

RECORD = f"SELECT tables FROM {DESIGN_TABLE}"


def refusal(found: Sequence[Any], upkeep: str, *, writing: bool) -> str:
    """Why a store that keeps this up must not read or write a file with this record, if that is so."""
    tables = json.loads(found[0][0]) if found else {}
    if tables.get(UPKEEP, upkeep if found else "") != upkeep:
        return OTHER_DESIGN
    return UNFINISHED if None in tables.values() or (writing and CHANGING in tables) else ""
