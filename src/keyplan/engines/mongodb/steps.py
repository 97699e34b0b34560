"""One operation on one document, as a write sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.mongodb.values import ID, Document


@dataclass(slots=True)
class Step:
    """An insert, replacement, update or delete of one document, or a look at it."""

    collection: str
    id: Any
    edits: tuple[int, ...]
    """The numbers of the edits that it does."""
    kind: str = "update"
    """insert, replace, update, delete, find (a look), absent (nothing may be there, now or until the commit), skip."""
    conditions: list[Document] = field(default_factory=list)
    body: Any = None
    """The document, the update or the pipeline."""
    upsert: bool = False
    arrays: list[Mapping[str, Any]] | None = None
    """The filters of the array's elements that an update names."""
    must: bool = False
    """To find nothing is a refusal."""
    returns: str = ""
    """before or after: the document is wanted as it was then."""
    hopeful: bool = False
    """An insert of a document that may be there after all, as one without a row of its own."""
    cleans: bool = False
    """Nobody depends on it."""
    in_turn: bool = False
    """Its collection has unique indexes: what one step releases, a later one may take."""

    @property
    def filter(self) -> Document:
        found: Document = {ID: self.id}
        if len(self.conditions) == 1 and ID not in self.conditions[0]:
            return found | self.conditions[0]
        if self.conditions:
            found["$and"] = self.conditions
        return found
