"""Databases for writers that meet or are cut off: a model is designed once per engine, and applied to each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import keyplan
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.store import Store
from tests.engines.harness import Harness

Altered = Callable[[Model, Design], Design]
"""What a test makes of a design, to have something in it that the cheapest one may lack."""


def as_designed(model: Model, design: Design) -> Design:
    return design


@cache
def made_on(harness: Harness, text: str, altered: Altered = as_designed) -> tuple[Model, Design]:
    """The model as it is for the engine's test server, and its design."""
    model = replace(parse_model(text), targets=harness.targets)
    return model, altered(model, keyplan.design(model, harness.name, advise=False))


def applied(harness: Harness, url: str, text: str, altered: Altered = as_designed) -> tuple[Model, Design]:
    """The same, once the design is that of a database."""
    model, design = made_on(harness, text, altered)
    keyplan.apply(model, url, design=design)
    return model, design


@contextmanager
def two_stores(harness: Harness, url: str, text: str, altered: Altered = as_designed) -> Iterator[tuple[Store, Store]]:
    """Two stores of one database."""
    model, design = applied(harness, url, text, altered)
    with keyplan.open(model, url, design=design) as one, keyplan.open(model, url, design=design) as other:
        yield one, other
