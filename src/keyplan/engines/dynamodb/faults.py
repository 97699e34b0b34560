"""DynamoDB's errors in keyplan's words.

What the server says is passed on only where it cannot hold credentials: a refused signature is answered with the very
text that was signed, session token included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keyplan.errors import (
    AccessError,
    ConflictError,
    DesignMismatchError,
    EngineError,
    OversizeError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UncertainError,
)

Item = Mapping[str, dict[str, Any]]

FAILURES = (500, 502, 503, 504)
"""What DynamoDB, or a balancer before it, answers with when it fails, if need be without a name for the error."""


class Reason(NamedTuple):
    """Why one item of a transaction did not pass; the code is `None` (as text) where it did."""

    code: str
    message: str = ""
    item: Item | None = None


class ConditionError(ConflictError):
    """A condition that did not hold, with the item as it was found if the request asked for it.

    `edit` is the number of the first item whose condition failed; `reasons` has one entry per item of a transaction.
    """

    def __init__(
        self, message: str, *, edit: int = 0, item: Item | None = None, reasons: Sequence[Reason] = ()
    ) -> None:
        super().__init__(message)
        self.edit = edit
        self.item = item
        self.reasons = tuple(reasons)


class ContendedError(ThrottledError):
    """Another transaction is writing one of the items at this moment; nothing was written."""


class MissingTableError(EngineError, DesignMismatchError):
    """The table or index is not there."""


class RefusedError(EngineError):
    """Any other refusal; `code` is DynamoDB's name for it."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class FailedError(UnavailableError):
    """The service failed at a request that can be sent again; `done` says whether it may have done it all the same."""

    def __init__(self, message: str, *, done: bool) -> None:
        super().__init__(message)
        self.done = done


class ClockError(AccessError):
    """The signature's time is too far from the server's."""


_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottlingError",
    "LimitExceededException",
}
_REFUSED_ACCESS = {
    "AccessDenied",
    "AccessDeniedException",
    "NotAuthorized",
    "OptInRequired",
}
_UNKNOWN_CALLER = {
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_SKEWED = ("signature expired", "signature not yet current", "requesttimetooskewed")
_TOO_LARGE = (
    "size has exceeded",
    "has exceeded the maximum size",
    "has exceeded the size limit",
    "item size to update",
    "key values must be under",
)


def translate(status: int, body: bytes, operation: str, *, repeatable: bool) -> EngineError:
    """The error for a reply that is not a success."""
    found = _parse(body)
    code = _code(found)
    said = str(found.get("message") or found.get("Message") or "")
    where = f"dynamodb {operation}"

    if code == "ConditionalCheckFailedException":
        return ConditionError(f"{where}: the condition does not hold", item=found.get("Item"))
    if code == "TransactionCanceledException":
        return _canceled(found, said, where)
    if code in _THROTTLED:
        return ThrottledError(f"{where}: throttled, {_sentence(said, code)}; try again, or raise the capacity")
    if code in ("TransactionConflictException", "TransactionInProgressException"):
        return ContendedError(f"{where}: another transaction is writing the same item; try again")
    if code == "ResourceNotFoundException":
        return MissingTableError(
            f"{where}: the table or index does not exist here; run 'keyplan apply' or check the region"
        )
    if code == "ItemCollectionSizeLimitExceededException":
        return StorageError(f"{where}: a partition with a local index has reached 10 GB; spread its key")
    if code in _EXPIRED:
        return AccessError(f"{where}: the session token has expired; log in again or renew the credentials")
    if code in _UNKNOWN_CALLER and any(word in f"{code} {said}".lower() for word in _SKEWED):
        return ClockError(f"{where}: the clock of this machine is off, so signatures are refused; set the clock")
    if code in _UNKNOWN_CALLER:
        return AccessError(
            f"{where}: the credentials are not accepted ({code}); check the key, the secret and the region"
        )
    if code in _REFUSED_ACCESS:
        return AccessError(f"{where}: not allowed, {_sentence(said, code)}; extend the policy of this role or user")
    if code == "ValidationException" and any(word in said.lower() for word in _TOO_LARGE):
        return OversizeError(f"{where}: {_sentence(said, code)}; split or shorten the value")
    if status >= 500:
        failed = f"{where}: the service failed with {status} {code}".rstrip()
        # AWS: a write that is answered with 500 may have been done; 503 means that it was not.
        if status == 503 or repeatable:
            return FailedError(f"{failed}; try again later", done=status != 503)
        return UncertainError(f"{failed}; the write may have been done")
    return RefusedError(f"{where}: {_sentence(said, code)} ({code or status})", code=code)


def error_code(body: bytes) -> str:
    """DynamoDB's name for an error; empty if it is somebody else who answers."""
    return _code(_parse(body))


def _code(found: Mapping[str, Any]) -> str:
    return str(found.get("__type") or found.get("code") or "").rpartition("#")[2].partition(":")[0]


def _parse(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _sentence(said: str, code: str) -> str:
    """The server's first line as part of our sentence."""
    line = said.strip().split("\n")[0].strip().rstrip(".")
    return f"{line[:1].lower()}{line[1:]}"[:300] if line else code


def _canceled(found: Mapping[str, Any], said: str, where: str) -> EngineError:
    listed = found.get("CancellationReasons") or ()
    reasons = [
        Reason(str(each.get("Code") or "None"), str(each.get("Message") or ""), each.get("Item")) for each in listed
    ]
    if not reasons and "[" in said:
        # Without the list, the message still has the codes: "... specific reasons [None, ConditionalCheckFailed]".
        reasons = [Reason(code.strip()) for code in said.partition("[")[2].partition("]")[0].split(",")]
    codes = {reason.code for reason in reasons} - {"None"}
    if "ConditionalCheckFailed" in codes:
        number = next(at for at, reason in enumerate(reasons) if reason.code == "ConditionalCheckFailed")
        message = f"{where}: the condition of item {number + 1} does not hold; nothing was written"
        return ConditionError(message, edit=number, item=reasons[number].item, reasons=reasons)
    for number, reason in enumerate(reasons):
        if reason.code == "ValidationError":
            if any(word in reason.message.lower() for word in _TOO_LARGE):
                said = _sentence(reason.message, reason.code)
                return OversizeError(f"{where}: {said}; split or shorten the value", edit=number)
            return RefusedError(f"{where}: {_sentence(reason.message, reason.code)}", code=reason.code)
        if reason.code == "ItemCollectionSizeLimitExceeded":
            return StorageError(f"{where}: a partition with a local index has reached 10 GB; spread its key")
    if codes & _THROTTLED:
        return ThrottledError(f"{where}: throttled; nothing was written")
    if codes == {"TransactionConflict"}:
        return ContendedError(f"{where}: another transaction is writing the same items; try again")
    return RefusedError(f"{where}: the transaction was cancelled, {', '.join(sorted(codes)) or said}", code="canceled")
