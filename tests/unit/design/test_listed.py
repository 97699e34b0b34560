"""The same condition gives the same design, however it is spelt."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.design.needs.listed import as_listed
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.load import parse_model
from keyplan.model.model import Model

LOG = """
keyplan: 1
name: log
entities:
  Log:
    count: 100M
    key: [device, at]
    fields:
      device: string(8), distinct 10k
      at: timestamp
      state: enum(NORMAL 90%, WARNING1 5%, WARNING2 5%)
      seen: bool(true 5%)
      message: text(100)
patterns:
  warnings: {{ find: Log, where: "device = :device and {where}", order: at desc, page: 50, rate: 10/s }}
writes:
  log: {{ create: Log, rate: 33/s }}
"""


def model(where: str) -> Model:
    return parse_model(LOG.format(where=where))


def listed(where: str) -> str:
    found = model(where)
    return str(as_listed(found, "Log", found.patterns["warnings"].where)[1])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("begins_with(state, 'WARNING')", "state in ('WARNING1', 'WARNING2')"),
        ("state > 'NORMAL'", "state in ('WARNING1', 'WARNING2')"),
        ("state != 'NORMAL'", "state in ('WARNING1', 'WARNING2')"),
        ("state between 'WARNING1' and 'WARNING2'", "state in ('WARNING1', 'WARNING2')"),
        ("state < 'WARNING1'", "state = 'NORMAL'"),
        ("seen != true", "seen = False"),
        ("state >= 'NORMAL'", "state >= 'NORMAL'"),  # all of them
        ("begins_with(state, 'X')", "begins_with(state, 'X')"),  # none
        ("begins_with(state, :s)", "begins_with(state, :s)"),
        ("begins_with(message, 'W')", "begins_with(message, 'W')"),
    ],
)
def test_known_values_are_listed(where: str, said: str) -> None:
    assert listed(where) == said


@pytest.mark.parametrize("engine", BUILTIN)
def test_spellings_give_one_design(engine: str) -> None:
    spelt = ("state in ('WARNING1', 'WARNING2')", "begins_with(state, 'WARNING')", "state > 'NORMAL'")
    found = [design(model(where), get_engine(engine), advise=False) for where in spelt]
    assert len({one.objective.value for one in found}) == 1
    assert found[0].views == found[1].views == found[2].views
