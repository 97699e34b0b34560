"""Hypothesis strategies: valid models, rows for them, and programs of calls.

`programs()` is what most tests want: a model as text, rows to load, and operations whose arguments mostly hit what is
there. `Program.describe()` prints one as a script that runs on `reference` alone.
"""

from tests.strategies.models import models
from tests.strategies.programs import Advance, Call, Next, Operation, Program, Walk, operations, play, programs, rows

__all__ = [
    "Advance",
    "Call",
    "Next",
    "Operation",
    "Program",
    "Walk",
    "models",
    "operations",
    "play",
    "programs",
    "rows",
]
