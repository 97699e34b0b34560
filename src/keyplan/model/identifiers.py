"""Generated keys: random UUIDs, and ULIDs that ascend within a process; and ULIDs as numbers and bytes."""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Any
from uuid import UUID, SafeUUID

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_TO_BASE32 = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_RANDOM_BITS = 80
_TIME_MAX = 2**48 - 1
_HALF = 2**40 - 1

_set_int: Any = UUID.__dict__["int"].__set__
_set_safe: Any = UUID.__dict__["is_safe"].__set__

_lock = threading.Lock()
_last = 0


def new_uuid() -> UUID:
    """A random UUID (version 4)."""
    number = int.from_bytes(os.urandom(16))
    return uuid_of(number & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62)


def uuid_of(number: int) -> UUID:
    """`UUID(int=number)` for a number known to have 128 bits, in half the time: its slots are filled directly."""
    made = object.__new__(UUID)
    _set_int(made, number)
    _set_safe(made, SafeUUID.unknown)
    return made


def uuids_of(numbers: Sequence[int]) -> list[UUID]:
    """`uuid_of` of many numbers, without a call for each."""
    made = list(map(object.__new__, repeat(UUID, len(numbers))))
    deque(map(_set_int, made, numbers), maxlen=0)
    deque(map(_set_safe, made, repeat(SafeUUID.unknown)), maxlen=0)
    return made


def new_ulid(ms: int) -> str:
    """A ULID for a moment in Unix milliseconds, greater than every one this process made before.

    Within a millisecond, or when the clock steps back, the last one is counted up, as the ULID specification says.
    """
    global _last
    time = min(max(ms, 0), _TIME_MAX)
    with _lock:
        if time > _last >> _RANDOM_BITS:
            _last = time << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        else:
            _last += 1
        return ulid_text(_last)


def _after_fork() -> None:
    """Parent and child must not count up from the same number."""
    global _last, _lock
    _lock = threading.Lock()
    if _last:
        _last = ((_last >> _RANDOM_BITS) + 1) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ulid_text(number: int) -> str:
    """The 26 characters of a 128-bit number."""
    return ulid_of(number >> 80, number >> 40 & _HALF, number & _HALF)


def ulid_of(ms: int, high: int, low: int) -> str:
    """The ULID of a moment in Unix milliseconds and two halves of 40 bits each."""
    pairs = _PAIRS
    return (
        f"{pairs[ms >> 40]}{pairs[ms >> 30 & 1023]}{pairs[ms >> 20 & 1023]}{pairs[ms >> 10 & 1023]}{pairs[ms & 1023]}"
        f"{pairs[high >> 30]}{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}{pairs[high & 1023]}"
        f"{pairs[low >> 30]}{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )


def ulid_number(text: str) -> int:
    """The 128-bit number of a canonical ULID."""
    return int(text.translate(_TO_BASE32), 32)
