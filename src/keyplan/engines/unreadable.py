"""Values in a database that cannot be read as what the model says: written by somebody else, or damaged.

Decoders are compiled for speed and check nothing. Where one fails, the value at fault is looked for afterwards, so that
the error can name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from keyplan.errors import StorageError

Found = TypeVar("Found")
Made = TypeVar("Made")
Parts = Iterable[tuple[str, Callable[[Found], Any]]]

_FAILURES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def guarded(
    decode: Callable[[Found], Made], where: str | Callable[[Found], str], parts: Callable[[], Parts[Found]] = tuple
) -> Callable[[Found], Made]:
    """`decode`, which tells what it cannot read as one error; `parts` makes the decoders of single values, by name."""

    def read(found: Found) -> Made:
        try:
            return decode(found)
        except _FAILURES as error:
            named = next((name for name, part in parts() if _fails(part, found)), None)
            what = "a stored value" if named is None else f"the stored value of '{named}'"
            place = where if isinstance(where, str) else where(found)
            raise StorageError(
                f"{place}: {what} is not what the model says ({_said(error)}); something else wrote it, or it is "
                "damaged: put it right or restore a backup"
            ) from error

    return read


def _fails(part: Callable[[Found], Any], found: Found) -> bool:
    try:
        part(found)
    except _FAILURES:
        return True
    return False


def _said(error: Exception) -> str:
    """What kind of failure it was; its own words might quote the value."""
    return type(error).__name__
