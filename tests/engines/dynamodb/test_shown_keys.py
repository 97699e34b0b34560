"""Keys as people are shown them: the templates that items are stored under, to the last separator."""

from __future__ import annotations

import re

import pytest

import keyplan
from keyplan.cli.output import design_text
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.layout import layout
from keyplan.engines.dynamodb.sample import sample_items
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.engines.dynamodb.support import design_of
from tests.engines.dynamodb.test_emit import design_for
from tests.engines.dynamodb.test_emit import model_of as named_model
from tests.engines.dynamodb.test_native_keys import LITTLE as NATIVE
from tests.engines.dynamodb.test_native_keys import VIEWS as NATIVE_VIEWS
from tests.unit.design.nouns import model_of


def case(name: str) -> tuple[Model, Design]:
    if name == "native":
        return NATIVE, design_of(NATIVE, NATIVE_VIEWS)
    return named_model(name), design_for(name)


def pattern(template: str) -> re.Pattern[str]:
    """Any values in the places of a template."""
    return re.compile("[^#]*".join(map(re.escape, re.split(r"{[^}]*}", template))), re.DOTALL)


@pytest.mark.parametrize("name", ["little", "native", "rooms", "hotel", "shop"])
def test_what_is_shown_is_what_is_stored(name: str) -> None:
    model, design = case(name)
    keys = ENGINE.stored_keys(model, design)
    places = layout(model, design)
    compared = 0
    for at, items in sample_items(model, places).items():
        place = places.places[at]
        for item in items:
            assert pattern(keys[at][0]).fullmatch(item["PK"]["S"])
            assert pattern(keys[at][1]).fullmatch(item["SK"]["S"])
            for index in place.indexes:
                partition, sort = keys[index.place.view.name, ()]
                if index.place.sk in item and index.place.native is None:
                    assert pattern(sort).fullmatch(item[index.place.sk]["S"])
                    assert pattern(partition).fullmatch(item[index.place.pk]["S"])
                if index.place.native is not None and index.place.pk in item:
                    names = [one.name for one in index.place.native.attributes]
                    stored = [next(iter(item[one].values())) for one in names]
                    templates = f"{partition}, {sort}".split(", ")
                    assert all(pattern(t).fullmatch(text) for t, text in zip(templates, stored, strict=True))
            compared += 1
    assert compared > 10


def test_a_parent_with_children_is_shown_with_its_separator() -> None:
    model, design = case("hotel")
    lines = design_text(keyplan.document(model, design)).splitlines()
    room = next(line for line in lines if line.startswith("  Room "))
    assert room.split()[1:3] == ["ROOM#{hotel}#{number}", "ROOM#"]
    child = next(line for line in lines if line.startswith("    RoomAmenity "))
    assert child.split()[1:3] == ["ROOM#{hotel}#{number}", "ROOM#ROOMAMENITY#"]


def test_a_table_of_one_partition_is_shown_with_it() -> None:
    model = model_of("Note: { count: 10, fields: { id: 'int, key' } }", "notes: { find: Note, order: id, rate: 1/s }")
    lines = design_text(keyplan.document(model, keyplan.design(model, "dynamodb"))).splitlines()
    assert [line.split()[:4] for line in lines if line.startswith("table ")] == [["table", "test", "NOTE", "NOTE#{id}"]]
