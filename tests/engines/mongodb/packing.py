"""Naive designs with packed views, on MongoDB: every document holds what falls into it, whether that is wise or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keyplan
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.view import Part, View
from keyplan.store.store import Store
from tests import naive
from tests.naive import Extras

MODEL = keyplan.parse_model("""
keyplan: 1
name: meters
entities:
  Reading:
    count: 1M
    key: [meter, at]
    fields:
      meter: int
      at: timestamp
      value: int, default 0
patterns:
  span:
    find: Reading
    where: meter = :meter and at between :start and :end
    order: at
    page: 7
    rate: 10/s
    consistency: strong
  reading: { find: Reading, where: "meter = :meter and at = :at", consistency: strong }
writes:
  report: { create: Reading, rate: 10/s }
  replace: { upsert: Reading, rate: 10/s }
  add: { update: Reading, add: [value], where: "meter = :meter and at = :at", rate: 10/s }
  use: { update: Reading, add: { value: "-:n" }, where: "meter = :meter and at = :at", if: "value >= :n", rate: 1/s }
  forget: { delete: Reading, where: "meter = :meter and at = :at", rate: 1/s }
""")
DESIGNS = {
    "months": Extras(copies=True, buckets="month", packed=True),
    "hours": Extras(moves=True, buckets="hour", packed=True),
    "homes": Extras(counters=True, computed=True, packed_homes=True),
    "both": Extras(copies=True, copied_keys=True, dangling=True, buckets="year", packed=True, packed_homes=True),
}


def packed_design(model: Model, extras: Extras) -> Design:
    """A naive design whose views are collections."""
    return naive.packed_design(model, extras, "mongodb")


def hours_of(model: Model) -> Design:
    """A design in which the readings of an hour are one document, which is their only home."""
    design = packed_design(model, Extras(packed_homes=True))
    holds = design.views["Reading"].holds
    key = (Part("meter"), Part("at", "hour"))
    view = View("Reading", "Reading", "collection", key, (Part("at"),), holds, packed=True)
    return replace(design, views={"Reading": view})


@contextmanager
def in_hours(url: str, model: Model = MODEL, **more: Any) -> Iterator[Store]:
    """A store with such a design."""
    design = hours_of(model)
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url, design=design, **more) as store:
        yield store


def documents(store: Store) -> list[dict[str, Any]]:
    port: Any = store._port
    return list(port._link.database["Reading"].with_options(port._link.options).find({}))
