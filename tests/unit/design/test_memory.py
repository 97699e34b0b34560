"""A design leaves nothing behind that only the garbage collector would find."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import keyplan
from keyplan.engines import BUILTIN

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("name", ["messaging", "sensors"])
def test_nothing_of_a_design_goes_round_in_circles(name: str, engine: str) -> None:
    model = keyplan.load_model(EXAMPLES / f"{name}.yaml")
    keyplan.design(model, engine)  # whatever is imported or remembered for good by now is not this design's
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        keyplan.design(model, engine)
        assert gc.collect() == 0
    finally:
        gc.enable()
