"""Keys as templates, for people: what is stored, with `{paths}` in place of values. `ORDER#{created_at}#{order_id}`

The same text stands wherever keys are shown: in designs, explanations and the facets of NoSQL Workbench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyplan.engines.dynamodb.keys import SEPARATOR
from keyplan.engines.dynamodb.layout import IndexKey, NativeKey, Place, layout
from keyplan.model.model import Model
from keyplan.plan.design import Design


def partition_template(place: Place) -> str:
    """The partition key; of several attributes, one after the other."""
    if place.native is not None:
        return ", ".join([place.native.tag, *_attributes(place, place.native)[: place.width]])
    return _template(place.partition.prefix, _shown(place)[: place.width])


def sort_template(place: Place) -> str:
    """The sort key; of several attributes, one after the other."""
    if place.native is not None:
        return ", ".join(_attributes(place, place.native)[place.width :])
    return _template(place.sort.prefix, _shown(place)[place.width :])


def index_templates(index: IndexKey) -> dict[str, str]:
    """The attributes that an item has for one entry in an index."""
    place = index.place
    if place.native is not None:
        names = [one.name for one in place.native.attributes]
        shown = dict(zip(names, [place.native.tag, *_attributes(place, place.native)], strict=True))
        return {name: shown[name] for name in index.attributes}
    shown = {place.pk: partition_template(place), place.sk: sort_template(place)}
    return {name: text for name, text in shown.items() if name in index.attributes}


def stored_keys(model: Model, design: Design) -> Mapping[tuple[str, tuple[str, ...]], tuple[str, str]]:
    """Partition and sort key of every view, and of the rows that lie with their parents."""
    places = layout(model, design).places
    return {at: (partition_template(place), sort_template(place)) for at, place in places.items()}


def _shown(place: Place) -> list[str]:
    """The parts of a key, with `desc` behind what is stored the other way round."""
    if place.backwards:
        return list(place.parts)
    embed = place.view.embed_at(place.at)
    return [str(part) for part in (*place.view.parts, *(embed.sort if embed is not None else ()))]


def _attributes(place: Place, key: NativeKey) -> list[str]:
    """The values of a key of several attributes, without the tag."""
    parts = zip(place.parts, key.codecs, strict=True)
    return [_template("" if codec is None else codec.prefix, [part]) for part, codec in parts]


def _template(prefix: str, parts: Sequence[str]) -> str:
    return prefix + SEPARATOR.join(f"{{{part}}}" for part in parts)
