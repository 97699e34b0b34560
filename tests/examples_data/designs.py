"""The examples and their designs, each made once for all tests of a process that only look at them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import keyplan
from keyplan.model.load import load_model
from keyplan.model.model import Model
from keyplan.plan.design import Design

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def example(name: str) -> Model:
    return load_model(FOLDER / f"{name}.yaml")


@cache
def designed(name: str, engine: str) -> Design:
    return keyplan.design(example(name), engine)
