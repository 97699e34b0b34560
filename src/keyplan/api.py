"""The public functions that join several layers; everything else public is where it is made."""

from __future__ import annotations

from keyplan.design import design as design_for
from keyplan.engines import get_engine
from keyplan.model.model import Model
from keyplan.plan.design import Design


def design(model: Model, engine: str) -> Design:
    """The cheapest design of a model on the engine of that name; what cannot be served is in `unserved`."""
    return design_for(model, get_engine(engine))
