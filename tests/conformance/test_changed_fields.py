"""Fields that change over rows that are there."""

from __future__ import annotations

from dataclasses import replace

import pytest

import keyplan
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: notes
entities:
  Note: {{ count: 1k, fields: {{ nid: "int, key", text: "string(9){text}", topic: "string(9){topic}" }} }}
patterns:
  note: {{ find: Note, where: "nid = :nid", rate: 9/s }}
  by_topic: {{ find: Note, where: "topic = :topic", rate: 9/s }}
writes:
  add: {{ create: Note, rate: 1/s }}
"""


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """What a design changes is made and taken away many times here: on the server that answers soonest."""
    return quick_harness


def model(harness: Harness, text: str = "", topic: str = "") -> Model:
    return replace(parse_model(MODEL.format(text=text, topic=topic)), targets=harness.targets)


@pytest.mark.parametrize("field", ["text", "topic"])
def test_an_optional_field_that_every_row_is_to_have_is_refused_over_rows(harness: Harness, field: str) -> None:
    """Also where all rows have it: whoever writes meanwhile may leave it out."""
    before, after = model(harness, **{field: ", optional"}), model(harness)
    url = harness.url()
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        store.add(**{"nid": 1, "text": "a", "topic": "b", field: None})
    for dry in (True, False):
        with pytest.raises(DesignMismatchError) as caught:
            keyplan.apply(after, url, dry=dry)
        assert f"rows of 'Note' may lack '{field}', which every row has in this design; leave it" in str(caught.value)
    with keyplan.open(before, url) as store:  # all is as it was
        assert store.note(nid=1)[field] is None
        store.add(nid=2, text="c", topic="d")
        assert store.verify().ok
