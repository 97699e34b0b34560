"""Indexes that somebody else has made on the table: they are left alone, and named.

An index is ours if a design of ours has had it under its name: the record in the table lists the indexes of the design
it holds, and those that are about to be made before they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from keyplan.engines.changing import Change
from keyplan.engines.dynamodb.layout import Index
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignMismatchError


class LeaveIndex(Change):
    """An index of somebody else, which is only named."""

    only_said = True

    def __init__(self, name: str) -> None:
        self.summary = (
            f"the index {name}, which no design of keyplan has had here; each write is paid for in it too, so delete "
            "it if nobody needs it"
        )

    def run(self) -> Proc[None]:
        yield from ()


def check_names(wanted: Mapping[str, Index], others: Collection[str]) -> None:
    """Refuses a design that wants an index under the name of one of somebody else."""
    for name in wanted:
        if name in others:
            raise DesignMismatchError(
                f"the table has an index '{name}' that no design of keyplan has had here, and this one wants another "
                "of that name; delete it if nobody needs it, or name another table in the URL"
            )


def recorded(names: Collection[str]) -> dict[str, Any]:
    """The names as an attribute of the record; DynamoDB has no empty sets."""
    return {"index_names": {"SS": sorted(names)}} if names else {}


def fits(index: Index, about: Mapping[str, Any], types: Mapping[str, str]) -> bool:
    """Whether an index that is there is the one that a design wants."""
    schema = [(one["AttributeName"], types.get(one["AttributeName"]), one["KeyType"]) for one in about["KeySchema"]]
    if schema != [(one.name, one.type, one.role) for one in index.keys]:
        return False
    projection = about["Projection"]
    if projection["ProjectionType"] != index.projection:
        return False
    return set(projection.get("NonKeyAttributes", ())) == set(index.attributes)
