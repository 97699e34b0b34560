"""Examples and their designs, made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyplan.engines import BUILTIN
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from tests.examples_data.designs import EXAMPLES, designed, example

__all__ = ["EXAMPLES", "NOTES", "PLACES", "ROOT", "SOME_PLACES", "TOPIC", "designed", "example", "notes"]

ROOT = Path(__file__).parents[3]
PLACES = [(example, engine) for engine in BUILTIN for example in EXAMPLES]
"""Every example on every engine."""
SOME_PLACES = [place if place[1] == "sqlite" else pytest.param(*place, marks=pytest.mark.thorough) for place in PLACES]
"""The same, of which `make check` takes those that are designed fast."""

NOTES = """
keyplan: 1
name: notes
entities:
  Person:
    count: 10k
    fields:
      person_id: uuid, key
      name: string(20)
  Note:
    count: 1M
    fields:
      note_id: uuid, key
      person: Person, as notes
      topic: string(12), distinct 500
      body: text(400)
      made_at: timestamp, now
patterns:
  person: { find: Person, where: "person_id = :person_id", rate: 10/s, p99: 50ms }
  note: { find: Note, where: "note_id = :note_id", rate: 10/s, p99: 50ms }
  notes_of: { find: Note, where: "person = :person_id", order: made_at desc, page: 20, rate: 10/s, p99: 50ms }
writes:
  sign_up: { create: Person, rate: 1/h }
  write: { create: Note, rate: 1/s }
"""
TOPIC = '  about: { find: Note, where: "topic = :topic", order: made_at desc, page: 20, rate: 10/s, p99: 50ms }\n'


def notes(*, topics: bool = False, change: tuple[str, str] = ("", "")) -> Model:
    """A small model, with one pattern more, or with a piece of its text replaced."""
    text = NOTES.replace("writes:\n", f"{TOPIC}writes:\n") if topics else NOTES
    assert change[0] in text
    return parse_model(text.replace(*change) if change[0] else text, file="notes.yaml")
