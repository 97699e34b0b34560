"""Two writers that change the same child at once: what its parents' computed values lose is what the child was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import keyplan
from keyplan.model.load import parse_model
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: family
entities:
  Parent: { count: 1M, fields: { pid: "int, key", n: count(kids), most: max(kids.v) } }
  Kid: { count: 10M, fields: { kid: "int, key", parent: "Parent, as kids", v: "int, optional 20%" } }
patterns:
  parent: { find: Parent, where: "pid = :pid", rate: 1000/s }
  by_number: { find: Parent, where: "n >= :n", order: n desc, page: 3, rate: 1000/s }
  kids: { find: Kid, where: "parent = :parent", rows: 10, rate: 1000/s }
writes:
  found: { upsert: Parent, rate: 0.1/s }
  put: { upsert: Kid, rate: 0.1/s }
  value: { update: Kid, set: [v], where: "kid = :kid", rate: 0.1/s }
  leave: { delete: Kid, where: "kid = :kid", rate: 0.1/s }
"""
CALLS: dict[str, dict[str, Any]] = {
    "put": {"kid": 1, "parent": 2, "v": 5},
    "value": {"kid": 1, "v": 7},
    "leave": {"kid": 1},
}


@pytest.mark.parametrize("name", CALLS)
def test_another_moves_the_child_meanwhile(name: str, harness: Harness) -> None:
    model = replace(parse_model(MODEL), targets=harness.targets)
    url = harness.replicated.url()
    keyplan.apply(model, url)
    with keyplan.open(model, url) as one, keyplan.open(model, url) as other:
        for pid in (1, 2, 3):
            one.found(pid=pid)
        send = one._port.send
        for moment in range(5):
            other.put(kid=1, parent=1, v=9)
            rounds: list[Any] = []

            def meet(round: Any, moment: int = moment, rounds: list[Any] = rounds) -> Any:
                rounds.append(round)
                if len(rounds) == moment + 1:
                    other.put(kid=1, parent=3, v=4)
                return send(round)

            one._port.send = meet  # type: ignore[method-assign]
            getattr(one, name)(**CALLS[name])
            one._port.send = send  # type: ignore[method-assign]
            checked = other.verify()
            assert checked.ok, (moment, checked.problems)
