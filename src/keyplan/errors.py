"""Every error keyplan raises on purpose.

    KeyplanError
    ├── ModelError            the model says something wrong, or cannot be read; carries every problem with its line
    ├── ArgumentError         a call has a wrong, missing or unknown argument (also a ValueError)
    │   └── RangeError        a value left the range of its type during a write
    ├── CursorError           a cursor that this pattern did not hand out
    ├── UnsupportedError      the engine cannot do what was asked; said before anything runs
    ├── UnknownEngineError    no engine of that name
    ├── MissingDriverError    the engine's driver is not installed; names the extra
    ├── DesignError           no design, or a lock file that is not ours
    ├── DesignMismatchError   the server holds another design than the one to be run
    └── EngineError           the engine answered with an error
        ├── ConflictError     the row is there already, or an `if` is false
        ├── OversizeError     a row is larger than the engine takes (also an ArgumentError)
        ├── ThrottledError    the engine refused for want of capacity, beyond the retry budget
        ├── UnavailableError  the engine cannot be reached or is locked
        ├── AccessError       credentials or permissions are wrong
        ├── StorageError      not a database, read-only, disk full, corrupt
        └── UncertainError    the reply was lost, and repeating the write might apply it twice

Messages read *where: what is wrong; what to do*, and never hold credentials.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong with a model, and where."""

    line: int
    message: str
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file or 'model'}:{self.line}" if self.line else (self.file or "model")
        return f"{where}: {self.message}"


class KeyplanError(Exception):
    """The base of everything keyplan raises on purpose."""

    row: int | None = None
    """The row of a load that it is about, counted from 1."""
    place: object = None
    """The entity and key of that row, until it has been counted."""
    version: Mapping[str, object] | None = None
    """Its values: there may be several rows with that key."""


class ModelError(KeyplanError):
    """A model with problems; all of them are in `problems`, in order of their lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ArgumentError(KeyplanError, ValueError):
    """A call whose arguments do not fit the pattern or write."""


class RangeError(ArgumentError):
    """A write that would leave the range of a field's type; of that row nothing was written."""

    def __init__(self, message: str, *, edit: int | None = None) -> None:
        super().__init__(message)
        self.edit = edit


class CursorError(ArgumentError):
    """A cursor that was not handed out by this pattern of this model."""


class UnsupportedError(KeyplanError):
    """Something the engine or the design cannot do, said before anything runs."""


class UnknownEngineError(KeyplanError):
    """An engine name or URL scheme that no installed engine has."""


class MissingDriverError(KeyplanError):
    """An engine whose driver is not installed."""


class DesignError(KeyplanError):
    """A design that cannot be found, read or used."""


class DesignMismatchError(DesignError):
    """The server holds another design than the one to be run."""


class EngineError(KeyplanError):
    """An error the engine answered with."""

    retryable = False


class ConflictError(EngineError):
    """The row exists already, or the condition of the write does not hold."""


class OversizeError(EngineError, ArgumentError):
    """A row, or its key, that is larger than the engine takes; of that row nothing was written."""

    def __init__(self, message: str, *, edit: int | None = None) -> None:
        super().__init__(message)
        self.edit = edit
        """The number of the entry in its request, where the reply says which it is."""


class ThrottledError(EngineError):
    """The engine refused for want of capacity."""

    retryable = True
    waited = 0.0
    """How many seconds it was waited for already by whoever sends requests; it is not waited for once more."""


class UnavailableError(EngineError):
    """The engine cannot be reached, or stays locked by somebody else."""

    retryable = True


class AccessError(EngineError):
    """Credentials or permissions are wrong or have expired."""


class StorageError(EngineError):
    """The engine's storage is not usable: not a database, read-only, full or corrupt."""


class UncertainError(EngineError):
    """The reply was lost; the write may or may not have happened."""


def trouble_with(error: OSError) -> str:
    """What is wrong with a file or folder, and what to do.

    >>> trouble_with(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory; check the name'
    """
    what = (error.strerror or str(error)).lower()
    return f"{what}; {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else what


_REMEDIES = {
    errno.ENOENT: "check the name",
    errno.EISDIR: "name a file",
    errno.EEXIST: "name a folder",
    errno.ENOTDIR: "name a folder",
    errno.EACCES: "check its permissions",
    errno.EROFS: "name a place that can be written to",
    errno.ENOSPC: "make room and try again",
    errno.EFBIG: "raise the limit on the size of files and try again",
}


def nearest(name: str, known: Sequence[str] | set[str] | dict[str, object]) -> str:
    """A hint with the closest known name, or an empty string.

    >>> nearest("usr", ["user", "order"])
    "; did you mean 'user'?"
    """
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""


def quoted(value: object, most: int = 60) -> str:
    """A value from outside for a message: on one line, without what a terminal would obey, cut where it gets long.

    >>> quoted("a\\nb"), quoted("x" * 9, most=5)
    ("'a\\\\nb'", "'xxxxx…'")
    """
    text = str(value)
    text = text if len(text) <= most else f"{text[:most]}…"
    return f"'{text}'" if text.isprintable() else f"'{''.join(map(_printable, text))}'"


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def row_named(entity: str, key: Iterable[object]) -> str:
    """A row as messages name it: `Item '01HZ…, 3'`."""
    return f"{entity} {quoted(', '.join(map(str, key)), most=200)}"


Refusal = ArgumentError | ConflictError
"""Why a row cannot be written, whatever else is."""


def some_refused(label: str, refused: Sequence[tuple[str, Refusal]], written: int) -> Refusal:
    """The first of the refusals of a write of many rows, each with the name of its row; it says of all of them."""
    (row, first), many = refused[0], len(refused)
    told = str(first).removeprefix(f"{label}: ").replace("; nothing was written", "")
    told = told if row in told else f"{row}: {told}"
    first.args = (f"{label}: {told}; {many} {'row was' if many == 1 else 'rows were'} refused, {written} written",)
    return first


def no_engine(name: str, known: Sequence[str]) -> str:
    """What is said of an engine that is not among those there are."""
    return f"no engine '{name}'{nearest(name, known) or '; there are ' + ', '.join(known)}"
