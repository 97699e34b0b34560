"""Sizes that designs are priced with, against the items that the codec makes of rows with the declared statistics."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

import pytest

from keyplan.data import Dataset
from keyplan.design.candidates.facts import Facts
from keyplan.design.needs.computed import computed_behind
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import get_engine
from keyplan.engines.dynamodb import sample
from keyplan.engines.dynamodb.keys import KeyCodec, KeyPart
from keyplan.engines.dynamodb.layout import PK, SK, layout
from keyplan.engines.dynamodb.sizes import key_bytes
from keyplan.engines.dynamodb.sizes import value_bytes as average_value_bytes
from keyplan.engines.dynamodb.values import attribute_encoder, item_bytes, value_bytes
from keyplan.model.load import parse_model
from tests.examples_data.designs import EXAMPLES, designed, example

ROWS = 60
FEW = 40
"""Places with fewer items say little of the average."""


def told_and_stored(of: str) -> Iterator[tuple[str, float, float, int]]:
    """Per view of the cheapest design: its name, told and stored bytes of an entry, and the entries that these are of.

    Items have the keys of their index entries with them, and so has what an index projects, if that is all.
    """
    model, found = example(of), designed(of, "dynamodb")
    facts = Facts(model, Statistics(model), get_engine("dynamodb").costs(model))
    places = layout(model, found)
    samples = sample.sample_items(model, places)
    for name, view in found.views.items():
        told = found.figures[name].bytes / max(1e-9, found.figures[name].rows)
        place = places.places[name, ()]
        if place.index is None:
            # Children are told with their parents, as many as these have.
            # Nearly all have what is computed behind their references, of too few rows here.
            behind = computed_behind(model, view).items()
            copies = {f"{role}.{column}" for (role, _), columns in behind for column in columns}
            items = [item for item in samples[name, ()] if view.where or copies <= item.keys()]
            stored = mean(map(item_bytes, items)) if items else 0.0
            for chain, embed in facts.of(view).embeds.items():
                children = samples[name, (chain,)]
                stored += mean(map(item_bytes, children)) * embed.per_parent if children else 0.0
            yield name, told, stored, min(map(len, (some for at, some in samples.items() if at[0] == name)))
            continue
        index = next(one for one in places.indexes if one.name == place.index)
        base = next(at for at, one in places.places.items() if any(key.place is place for key in one.indexes))
        keys = {PK, SK, *(one.name for one in index.keys)}
        entries = [item for item in samples[base] if keys <= item.keys()]
        entries = [item for item in entries if item[index.keys[0].name]["S"].startswith(place.partition.prefix)]
        if index.projection != "ALL":
            kept = keys | set(index.attributes)
            entries = [{name: value for name, value in item.items() if name in kept} for item in entries]
        if entries:
            yield name, told, mean(map(item_bytes, entries)), len(entries)


@pytest.mark.parametrize("name", EXAMPLES)
def test_items_take_what_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each view within a sixth or, of small rows, the length of a tag, and all of a design within a twentieth."""
    monkeypatch.setattr(sample, "ROOTS", ROWS)
    monkeypatch.setattr(sample, "CHILDREN", ROWS)
    places = list(told_and_stored(name))
    assert places
    off = {name: (told, stored) for name, told, stored, many in places if many >= FEW}
    assert all(told == pytest.approx(stored, rel=1 / 6, abs=20) for told, stored in off.values()), off
    told, stored = (sum(place[number] for place in places if place[3] >= FEW) for number in (1, 2))
    assert told == pytest.approx(stored, rel=0.05)


TYPES = {
    "string(20)": 0.2,
    "text(300)": 0.2,
    "uuid": 0.0,
    "ulid": 0.0,
    "date": 0.0,
    "timestamp": 0.0,
    "bool": 0.0,
    "int": 0.5,
    "decimal(2)": 0.5,
    "float": 0.25,
    "bytes(40)": 0.15,
    "json(200)": 0.25,
    "enum(one 90%, other 10%)": 0.1,
    "set(string(10), avg 3)": 0.25,
    "list(string(10), avg 3)": 0.25,
    "set(uuid, avg 3)": 0.25,
}
"""Per type: the error that is allowed. How many digits a number has, nobody says, nor how many spaces a text, each of
which takes two bytes in a key."""


@pytest.mark.parametrize("written", TYPES)
def test_values_take_what_is_told(written: str) -> None:
    source = (
        f'keyplan: 1\nname: sizes\nentities:\n  Row: {{ count: 300, fields: {{ n: "uuid, key", v: "{written}" }} }}\n'
    )
    pattern = '  by_id: { find: Row, where: "n = :n", rate: 1/s }\n'
    model = parse_model(f"{source}patterns:\n{pattern}writes:\n  make: {{ create: Row, rate: 1/s }}\n")
    type = model.entities["Row"].columns["v"].type
    values = [row["v"] for _, row in Dataset(model).all()]
    encode, error = attribute_encoder(type), TYPES[written]
    stored = [value_bytes(found) for value in values if (found := encode(value)) is not None]
    assert mean(stored) == pytest.approx(average_value_bytes(type), rel=error)
    if type.of is None and type.is_ordered:
        codec = KeyCodec([KeyPart(type)])
        texts = [len(codec.encode((value,)).encode()) for value in values]
        assert mean(texts) == pytest.approx(key_bytes(type, None), rel=error)
