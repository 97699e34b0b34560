"""A clock that nobody sets, and that goes on while the machine sleeps.

`time.monotonic` stands still meanwhile on Linux and macOS: what was true for twenty seconds would still be on the next
morning.
"""

from __future__ import annotations

import sys
import time

_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)
if _BOOT is None and sys.platform == "darwin":
    _BOOT = getattr(time, "CLOCK_MONOTONIC", None)  # goes on there, other than what `time.monotonic` reads


def elapsed() -> float:
    """Seconds since some moment in the past."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)
