"""SQLite needs no server: a directory, and a file per database."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import tempfile
from pathlib import Path

from tests.engines import harness, memory


class Harness(harness.Harness):
    """Files in a temporary directory."""

    name = "sqlite"

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self._directory: Path | None = None
        self._numbers = itertools.count()

    def start(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="keyplan-sqlite-", dir=memory.directory(1)))

    def stop(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def url(self) -> str:
        return f"sqlite:{self._directory}/{next(self._numbers)}.db"

    def spoil(self, url: str, entity: str, key: str, number: int, field: str) -> None:
        connection = sqlite3.connect(url.removeprefix("sqlite:"))
        with connection:
            connection.execute(f'UPDATE "{entity}" SET "{field}" = ? WHERE "{key}" = ?', (10**15, number))
        assert connection.total_changes == 1
        connection.close()
