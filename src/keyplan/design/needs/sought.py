"""Which rows a need asks for, and in which order, whatever is wanted of them: all that a key has to do with."""

from __future__ import annotations

from dataclasses import dataclass

from keyplan.model.pattern import Condition, Order


@dataclass(frozen=True)
class Sought:
    """See the module; the fields are as in `Need`."""

    entity: str
    given: tuple[Condition, ...]
    order: tuple[Order, ...]
    at_least: float
    fewer: float
    implied: tuple[Condition, ...]
    scanned: bool

    def __hash__(self) -> int:
        """Worked out once: how keys find rows is remembered under it."""
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash((self.given, self.order, self.at_least, self.fewer))
        return known
