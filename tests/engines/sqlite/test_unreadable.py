"""Values that only SQLite can hold in place of others: texts that are not UTF-8, identifiers that are too short."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.errors import StorageError
from keyplan.model.load import parse_model

MODEL = """
keyplan: 1
name: notes
entities:
  Note:
    count: 10k
    fields: { note_id: "uuid, key", number: int, title: "string(9)", owner: "string(9)" }
patterns:
  note: { find: Note, where: "note_id = :id", rate: 9/s }
  of_owner: { find: Note, where: "owner = :owner", order: number, page: 5, rate: 900/s }
writes:
  add: { create: Note, rate: 1/s }
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Any, sqlite3.Connection, list[Any]]]:
    model, file = parse_model(MODEL), tmp_path / "notes.db"
    with keyplan.open(model, f"sqlite:{file}") as store:
        ids = [store.add(number=number, title=f"t{number}", owner="ann")["note_id"] for number in range(4)]
        connection = sqlite3.connect(file, isolation_level=None)
        yield store, connection, ids
        connection.close()


def test_a_text_that_is_not_utf8_is_named_and_passed_over(opened: tuple[Any, sqlite3.Connection, list[Any]]) -> None:
    store, connection, ids = opened
    connection.execute("UPDATE Note SET title = CAST(x'61ff' AS TEXT) WHERE number = 2")
    for call in (
        lambda: store.note(id=ids[2]),
        lambda: store.of_owner(owner="ann"),
        lambda: list(store.of_owner.all(owner="ann")),
    ):
        with pytest.raises(StorageError, match=r"value of 'title' is not what the model says.*put it right"):
            call()
    assert store.note(id=ids[1])["title"] == "t1"
    found = store.verify()
    assert (found.ok, found.unreadable, found.rows) == (False, 1, 3)
    (line,) = found.problems
    assert line.startswith(f"Note: unreadable entry ({ids[2]})")
    assert "the stored value of 'title' is not what the model says" in line
    connection.execute("UPDATE Note SET title = 'fine' WHERE number = 2")
    assert store.note(id=ids[2])["title"] == "fine"
    assert store.verify().ok


def test_an_identifier_that_is_too_short_is_none(opened: tuple[Any, sqlite3.Connection, list[Any]]) -> None:
    store, connection, _ = opened
    connection.execute("UPDATE Note SET note_id = x'00' WHERE number = 2")
    with pytest.raises(StorageError, match="the stored value of 'note_id' is not what the model says"):
        store.of_owner(owner="ann")
    found = store.verify()
    assert (found.ok, found.unreadable) == (False, 1), found
    assert any("the stored value of 'note_id' is not what the model says" in line for line in found.problems)
