"""A search in MongoDB's own words, for people."""

from __future__ import annotations

from keyplan.engines.mongodb.layout import layout
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.steps import Search


def words(model: Model, design: Design, search: Search) -> str:
    """The find that a search comes to."""
    places = layout(model, design)
    index = places.indexes.get(search.view)
    place = index.place if index is not None else places.places[search.view, search.at]
    hint = index.name if index is not None else "_id_"
    given = ", ".join(f"{one.path} {one.op}" for one in search.given)
    return f"db.{place.collection}.find({{ {given} }}).hint('{hint}')"
