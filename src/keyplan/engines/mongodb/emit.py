"""The design for MongoDB's own tools."""

from __future__ import annotations

from collections.abc import Mapping

from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design


def emit(model: Model, design: Design, to: str) -> Mapping[str, str]:
    raise UnsupportedError(f"mongodb has no format '{to}'")
