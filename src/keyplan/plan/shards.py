"""Which shard a row belongs to: a stable hash of its key, the same in every process, version and language.

Writers, readers that know the whole key, codecs and tests all have to agree on it, so it is defined by bytes: CRC-32 of
the key's values as text (`to_text`), each followed by a zero byte, which no value can contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zlib import crc32


def shard_of(key: Sequence[Any], ways: int) -> int:
    """The shard, below `ways`, of the row with this key (canonical values in the order of the entity's key).

    >>> shard_of(("a", 1), 4) == shard_of(("a", 1), 4)
    True
    """
    return crc32(b"".join(_text(value).encode() + b"\0" for value in key)) % ways


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")[:-6] + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
