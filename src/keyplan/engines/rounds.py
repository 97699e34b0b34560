"""Rounds of requests: what generators of keyplan yield, and what they are sent.

Plans, writes, apply, load and verify are generators (`Proc`) that yield rounds of independent requests and are
sent the replies; `store/pump.py` drives them, sync or async.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Request = Any
"""Whatever the engine's port takes; only the engine's own codec and port look inside."""
Reply = Any
"""What the port answers, or an EngineError in its place, so that half a round survives."""
Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds before going on; yielded instead of a round."""

    seconds: float


Round = Sequence[Request]
Proc = Generator["Round | Pause", Sequence[Reply], T]
Then = Callable[[], "Proc[None]"]
"""What is done behind the edits of a request, as part of it; made anew for each attempt."""
