"""A place for the files of test databases: in memory if there is enough, so that no test waits for a disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SHARED = Path("/dev/shm")


def directory(gigabytes: float) -> Path | None:
    """A file system in memory with so much room; None, which is the usual temporary directory, if there is none or if
    the memory behind it is short."""
    try:
        about = Path("/proc/meminfo").read_text().split()
        available = int(about[about.index("MemAvailable:") + 1]) * 1024
        room = min(available // 2, shutil.disk_usage(SHARED).free)
    except (OSError, ValueError):
        return None
    return SHARED if room > gigabytes * 1e9 and os.access(SHARED, os.W_OK) else None
