"""What an error of the driver or the server means, in our words; no credentials, no topology dumps.

A write that was sent and not answered is uncertain, unless the server has said that it did nothing.
"""

from __future__ import annotations

import re
from typing import Any

from keyplan.errors import (
    AccessError,
    ArgumentError,
    DesignMismatchError,
    EngineError,
    KeyplanError,
    OversizeError,
    RangeError,
    ThrottledError,
    UnavailableError,
    UncertainError,
)

DUPLICATE = 11000
WRITE_CONFLICT = 112
_ACCESS = {13, 18, 8000, 31, 11}
_TOO_LARGE = {10334, 17419, 17280, 16793, 17420}
_NOT_DONE = {10107, 13435, 10058, 13436, 91, 189}
"""Not the primary (any more): refused before anything was done."""
_NAMESPACE = {26, 27, 211}
_INDEX = re.compile(r"index: (\S+)")
_COMMAND = re.compile(r"(?<= to execute command )\{ (\w+):.*", re.DOTALL)
"""Users without a right are told all of the command: values of rows, and the signed time of the cluster."""


def code_of(error: BaseException) -> int | None:
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def details_of(error: BaseException) -> dict[str, Any]:
    found = getattr(error, "details", None)
    return found if isinstance(found, dict) else {}


def index_of(error: dict[str, Any] | BaseException) -> str:
    """The name of the unique index that a duplicate key error speaks of."""
    about = error if isinstance(error, dict) else details_of(error)
    if about.get("keyPattern") == {"_id": 1}:
        return "_id_"
    found = _INDEX.search(str(about.get("errmsg", error)))
    return found[1] if found else ""


def translate(error: BaseException, where: str, *, writing: bool) -> KeyplanError:
    """The error of ours; `where` names hosts and database."""
    made = _translated(error, where, writing)
    made.__cause__ = error
    return made


def _translated(error: BaseException, where: str, writing: bool) -> KeyplanError:
    names = {one.__name__ for one in type(error).__mro__}
    code = code_of(error)
    message = _short(error)
    if "ServerSelectionTimeoutError" in names:
        return UnavailableError(f"{where}: no server can be used ({message}); is it running, and has it a primary?")
    if "DocumentTooLarge" in names or code in _TOO_LARGE:
        return OversizeError(
            f"{where}: a document would be larger than the 16 MB that MongoDB allows; nothing was written"
        )
    if "WTimeoutError" in names or "WriteConcernError" in names or "writeConcernError" in details_of(error):
        return UncertainError(f"{where}: too few nodes have confirmed the write ({message}); it may or may not last")
    if "NotPrimaryError" in names and code in _NOT_DONE:
        return UnavailableError(f"{where}: the server is not the primary; try again")
    if "ConnectionFailure" in names:
        if writing:
            return UncertainError(f"{where}: no reply ({message}); the write may or may not have been done")
        return UnavailableError(f"{where}: no reply ({message}); try again")
    if "ExecutionTimeout" in names or code in (50, 262):
        return UnavailableError(f"{where}: it took too long ({message}); try again, or allow it more time")
    if "OperationFailure" in names:
        return _refused(code, message, where)
    if "InvalidURI" in names or "ConfigurationError" in names:
        return ArgumentError(f"{where}: {message}")
    if "InvalidOperation" in names or "closed" in message:
        return UnavailableError(f"{where}: the store is closed; open it again")
    if isinstance(error, ArithmeticError):
        return RangeError(f"{where}: a number has more digits than the 34 that MongoDB holds exactly; give fewer")
    return EngineError(f"{where}: mongodb: {message}")


def _refused(code: int | None, message: str, where: str) -> KeyplanError:
    if code in _ACCESS:
        return AccessError(f"{where}: access is refused ({message}); check user, password and rights")
    if code in (WRITE_CONFLICT, 246, 251):
        return ThrottledError(f"{where}: others write the same documents; try again")
    if code == 121:
        return EngineError(f"{where}: a document does not pass the collection's validator; apply the design again")
    if code in _NAMESPACE or (code == 2 and "hint" in message):
        return DesignMismatchError(
            f"{where}: a collection or index of the design is not there; 'keyplan verify' says which"
        )
    if code == 20:
        return EngineError(f"{where}: the server has no transactions; start it as a replica set")
    return EngineError(f"{where}: mongodb: {message}")


def _short(error: BaseException) -> str:
    """The server's own words, without the driver's description of every server."""
    text = str(details_of(error).get("errmsg") or error)
    text = _COMMAND.sub(r"'\1'", text)
    return text.partition(", full error:")[0].partition(", Timeout:")[0].partition(" (configured timeouts")[0][:300]
