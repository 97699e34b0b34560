"""Values in a database that cannot be read as what the model says: written by somebody else, or damaged.

Decoders are compiled for speed and check nothing. Where one fails, the value at fault is looked for afterwards, so that
the error can name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from keyplan.errors import StorageError

Found = TypeVar("Found")
Made = TypeVar("Made")
Entry = TypeVar("Entry")
Parts = Iterable[tuple[str, Callable[[Found], Any]]]


class UnreadableError(StorageError):
    """A stored value that is not what the model says; `values` has those of the same row that can be read."""

    values: Mapping[str, Any] = MappingProxyType({})


_FAILURES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def guarded(
    decode: Callable[[Found], Made], where: str | Callable[[Found], str], parts: Callable[[], Parts[Found]] = tuple
) -> Callable[[Found], Made]:
    """`decode`, which tells what it cannot read as one error; `parts` makes the decoders of single values, by name."""

    def read(found: Found) -> Made:
        try:
            return decode(found)
        except _FAILURES as error:
            values: dict[str, Any] = {}
            named = None
            for name, part in parts():
                try:
                    values |= _named(name, part(found))
                except _FAILURES:
                    named = named or name
            what = "a stored value" if named is None else f"the stored value of '{named}'"
            place = where if isinstance(where, str) else where(found)
            told = UnreadableError(
                f"{place}: {what} is not what the model says ({_said(error)}); something else wrote it, or it is "
                "damaged: put it right or restore a backup"
            )
            told.values = values
            raise told from error

    return read


def readable(
    entries: Iterable[Entry], read: Callable[[Entry], Any], note: Callable[[UnreadableError], None]
) -> list[Entry]:
    """The entries that can be read; `note` hears of the others."""
    found = []
    for entry in entries:
        try:
            read(entry)
        except UnreadableError as error:
            note(error)
        else:
            found.append(entry)
    return found


def _named(name: str, value: Any) -> Mapping[str, Any]:
    """Values by their paths: decoders of rows give a row for each, of which one alone tells anything."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value[0] if len(value) == 1 else {}
    return {name: value}


def _said(error: Exception) -> str:
    """What kind of failure it was; its own words might quote the value."""
    return type(error).__name__
