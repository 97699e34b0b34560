"""Cursors: where a page ended, as opaque text that only the same pattern with the same arguments accepts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from keyplan.errors import CursorError
from keyplan.model.model import Model
from keyplan.model.pattern import Order, Pattern
from keyplan.model.types import Type
from keyplan.model.values import from_json, to_json

_CHECK = 9
"""Bytes of the checksum; with it, no text but one that was handed out is taken."""


class Cursors:
    """The cursors of one pattern."""

    def __init__(self, model: Model, pattern: Pattern, order: Sequence[Order]) -> None:
        self.name = pattern.name
        columns = [(str(term.path), model.column(pattern.entity, term.path)) for term in order]
        self.terms = [(name, column.type) for name, column in columns]
        self.sums = {name for name, column in columns if column.computed is not None and column.computed.how == "sum"}
        """Those whose values may be beyond the range of their type."""
        shape = [model.name, pattern.name, pattern.entity, [(str(term.path), term.descending) for term in order]]
        shape += [str(condition) for condition in pattern.where]
        self.seed = blake2b(json.dumps(shape).encode(), digest_size=16).digest()

    def text(self, position: Mapping[str, Any], args: Mapping[str, Any]) -> str:
        """The cursor after the row at a position."""
        values = [to_json(type, position[name]) for name, type in self.terms]
        payload = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
        return _as_text(self.check(payload, args) + payload)

    def position(self, cursor: object, args: Mapping[str, Any]) -> dict[str, Any]:
        """The position that a cursor holds; raises CursorError for every text that was not handed out here."""
        if not isinstance(cursor, str):
            raise CursorError(f"{self.name}: a cursor is the text of an earlier page's cursor; give that, or none")
        try:
            data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise self.foreign() from None
        payload = data[_CHECK:]
        # What decodes to the same bytes need not be the same text: the last letter may have bits that nobody reads.
        if data[:_CHECK] != self.check(payload, args) or cursor != _as_text(data):
            raise self.foreign()
        values = json.loads(payload)
        try:
            return {name: self.value(name, type, one) for (name, type), one in zip(self.terms, values, strict=True)}
        except (ValueError, ArithmeticError):  # of the same pattern when a field had another type
            raise self.foreign() from None

    def value(self, name: str, type: Type, value: Any) -> Any:
        if name in self.sums and type.kind in ("int", "decimal") and value is not None:
            return Decimal(value) if type.kind == "decimal" else int(value)
        return from_json(type, value)

    def check(self, payload: bytes, args: Mapping[str, Any]) -> bytes:
        state = blake2b(payload, digest_size=_CHECK, key=self.seed)
        for name in sorted(args):
            state.update(f"\0{name}={_stable(args[name])}".encode())
        return state.digest()

    def foreign(self) -> CursorError:
        return CursorError(
            f"{self.name}: this cursor is not one of its own, or the arguments differ; "
            "pass on the cursor of its last page with the same arguments"
        )


def _as_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _stable(value: Any) -> str:
    """A text that is the same for equal arguments in every process."""
    if isinstance(value, tuple | frozenset):
        return "(" + ",".join(sorted(map(repr, value))) + ")"
    return repr(value)
