"""Rows that have several entries in one view: one for each element of a set, or for each word of a text.

Means decide what that costs. The most that a row may have, by the `max` of its fields, decides whether one atomic
request can write it.
"""

from __future__ import annotations

from math import inf

from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, average_length, most_bytes
from keyplan.plan.view import COPIES, Part, View

WORD_BYTES = 6.5
"""What a word takes with the blank behind it. Running English has 4.7 letters to a word, names of things somewhat more;
a word that comes twice is one entry, which makes up for the short ones."""
USUAL_WORDS_MOST = 500.0
"""A long text has hardly more different words than this on average: it repeats them."""
TIMES_THE_USUAL = 3.0
"""Where nothing is stated, a set is taken to have this many times the usual number of elements."""


def words_in(kind: Type) -> float:
    """How many words a value has on average."""
    return min(USUAL_WORDS_MOST, max(1.0, average_bytes(kind) / WORD_BYTES))


def elements_in(kind: Type) -> float:
    """How many elements a set has on average, of those that have any."""
    return max(1.0, average_length(kind))


def spreads(view: View) -> list[Part]:
    """The parts of a view's key of which a row has several values."""
    return [part for part in view.parts if part.cut in ("each", "words")]


def fields_of(part: Part) -> tuple[str, ...]:
    return (part.path, *part.also)


def usual_entries(model: Model, view: View) -> float:
    """Entries per row, on average."""
    many = 1.0
    for part in view.parts:
        if part.cut == COPIES:
            many *= part.ways
        elif part.cut == "each":
            many *= elements_in(_type(model, view, part.path))
        elif part.cut == "words":
            many *= sum(words_in(_type(model, view, path)) for path in fields_of(part))
    return many


def expected_entries(model: Model, view: View) -> float:
    """The most entries of a row that a design has to make room for: by the `max` of its fields, as far as they have
    any; beyond that, a few elements or the usual words, and a finding says what will be refused."""
    many = 1.0
    for part in view.parts:
        if part.cut == COPIES:
            many *= part.ways
        elif part.cut == "each":
            kind = _type(model, view, part.path)
            many *= kind.most or TIMES_THE_USUAL * elements_in(kind)
        elif part.cut == "words":
            kinds = [_type(model, view, path) for path in fields_of(part)]
            many *= sum(_most_words(kind) if kind.most is not None else words_in(kind) for kind in kinds)
    return many


def possible_entries(model: Model, view: View) -> float:
    """The most entries that a row can have by its types, those of unusually short words left out; inf if nothing says
    how many."""
    many = 1.0
    for part in view.parts:
        if part.cut == COPIES:
            many *= part.ways
        elif part.cut == "each":
            many *= _type(model, view, part.path).most or inf
        elif part.cut == "words":
            many *= sum(_most_words(_type(model, view, path)) for path in fields_of(part))
    return many


def is_stated(model: Model, view: View) -> bool:
    """Whether the model itself says how large the fields are that a row has several entries by."""
    paths = [path for part in spreads(view) for path in fields_of(part)]
    return all(_type(model, view, path).most is not None for path in paths)


def _most_words(kind: Type) -> float:
    return max(1.0, most_bytes(kind) / WORD_BYTES)


def _type(model: Model, view: View, path: str) -> Type:
    return model.entities[view.entity].columns[path].type
