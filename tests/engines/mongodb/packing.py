"""Naive designs with packed views, on MongoDB: every document holds what falls into it, whether that is wise or not."""

from __future__ import annotations

from dataclasses import replace

from keyplan.engines import get_engine
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.naive import Extras, naive_design

DESIGNS = {
    "months": Extras(copies=True, buckets="month", packed=True),
    "hours": Extras(moves=True, buckets="hour", packed=True),
    "homes": Extras(counters=True, computed=True, packed_homes=True),
    "both": Extras(copies=True, copied_keys=True, dangling=True, buckets="year", packed=True, packed_homes=True),
}


def packed_design(model: Model, extras: Extras) -> Design:
    """A naive design whose views are collections."""
    found = naive_design(model, extras, "mongodb")
    views = {name: replace(view, kind="collection") for name, view in found.views.items()}
    return replace(found, views=views, structures=get_engine("mongodb").pack(model, tuple(views.values()), {}))
