"""What an error means that ends a write in the midst of it: nothing was done only if nothing was sent that may have
been."""

from __future__ import annotations

from dataclasses import dataclass

from keyplan.errors import ConflictError, KeyplanError, UncertainError


@dataclass(slots=True)
class Doubt:
    """How far a write has come."""

    is_lost: bool = False
    """The reply to an attempt was lost."""
    is_begun: bool = False
    """Some of many rows are deleted, and the others are not."""
    is_done: bool = False
    """The write itself is done; what follows from it in other entries may not be."""

    def about(self, error: KeyplanError, label: str) -> KeyplanError:
        """The error for the caller, who may want to write again if nothing was done."""
        if isinstance(error, UncertainError) or not (self.is_lost or self.is_begun or self.is_done):
            return error
        if isinstance(error, ConflictError) and not (self.is_begun or self.is_done):
            return error  # it has been seen to that this is no trace of the attempt
        said = str(error).removeprefix(f"{label}: ")
        if self.is_done:
            return UncertainError(
                f"{label}: the row is written, but not all that follows from it ({said}); "
                "the next write of it, 'settle' or 'verify' finishes that"
            )
        if self.is_begun:
            return UncertainError(f"{label}: some of the rows are deleted, and others not yet ({said}); do it again")
        return UncertainError(f"{label}: the reply was lost, so that it may or may not have been done ({said})")


def stopped(error: KeyplanError, label: str, written: int, of: int) -> KeyplanError:
    """The error for the caller of a write of many rows that ends after some of them."""
    if not written:
        return error
    said = str(error).removeprefix(f"{label}: ").replace("; nothing was written", "")
    told = UncertainError(f"{label}: {written} of {of} rows are written, and others may not be ({said})")
    told.__cause__ = error
    return told
