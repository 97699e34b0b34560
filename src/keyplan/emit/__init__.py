"""Designs and models as files: what the engine writes itself, and what is the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyplan.model.model import Model
    from keyplan.plan.design import Design

SHARED = {"patterns": "keyplan.emit.patterns", "python": "keyplan.emit.python"}
"""The formats that every engine has, and the modules that write them."""


def emit(model: Model, design: Design, to: str) -> Mapping[str, str]:
    """A design in some format, as file names and their texts; an unknown format is answered with the known ones."""
    from keyplan.engines import get_engine
    from keyplan.errors import UnsupportedError, nearest

    engine = get_engine(design.engine)
    if to in engine.formats:
        return engine.emit(model, design, to)
    if to not in SHARED:
        known = (*engine.formats, *SHARED)
        hint = nearest(to, known) or f"; there are {', '.join(sorted(known))}"
        raise UnsupportedError(f"{design.engine}: no format '{to}'{hint}")
    files: Mapping[str, str] = import_module(SHARED[to]).write(model, design)
    return files
