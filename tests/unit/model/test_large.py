"""Models near the limit of 5 MB: what is said of each thing does not depend on how many others there are."""

from __future__ import annotations

import time

import pytest

from keyplan.errors import ModelError
from keyplan.model.load import parse_model

HEAD = "keyplan: 1\nname: large\nentities:\n"


def chained(number: int) -> str:
    """Entities each of which refers to the one before it."""
    fields = "id: 'uuid, key', n: 'int, default 1'"
    lines = (
        f"  E{one}: {{ count: 10, fields: {{ {fields}, r: 'E{max(0, one - 1)}, as r{one}' }} }}"
        for one in range(number)
    )
    return HEAD + "\n".join(lines)


def test_thousands_of_entities_are_read_in_seconds() -> None:
    """It took over a minute where the roles of each were looked for among all others."""
    start = time.process_time()
    model = parse_model(chained(4000))
    assert time.process_time() - start < 8
    assert model.entities["E7"].roles.keys() == {"r", "r8"}


def test_thousands_of_problems_are_told_in_seconds() -> None:
    lines = [f"  E{one}: {{ count: 10, fields: {{ id: 'uuid, key', n: strin{one}g }} }}" for one in range(4000)]
    start = time.process_time()
    with pytest.raises(ModelError) as caught:
        parse_model(HEAD + "\n".join(lines))
    assert time.process_time() - start < 6
    assert len(caught.value.problems) == 4000
    told = [problem.message for problem in caught.value.problems]
    assert told[0] == "unknown type or entity 'strin0g'; did you mean 'string'?"
    assert "; use an entity or one of" in told[-1]  # nothing is compared any more


def test_thousands_of_fields_with_defaults_are_read_in_seconds() -> None:
    lines = [f"      f{one}: int, default {one}" for one in range(8000)]
    start = time.process_time()
    model = parse_model(HEAD + "  A:\n    count: 10\n    fields:\n      id: uuid, key\n" + "\n".join(lines))
    assert time.process_time() - start < 8
    assert model.entities["A"].fields["f7999"].default == 7999
