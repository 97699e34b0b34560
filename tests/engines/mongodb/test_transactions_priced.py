"""A write that is sent as a transaction is priced as one, also where it is one because others are looked for in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keyplan
from keyplan.design.program.cheapest import cheapest
from keyplan.engines import get_engine
from keyplan.engines.mongodb.writes import WriteRequest
from keyplan.model.load import parse_model
from keyplan.plan.view import View
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: wall
entities:
  User: { count: 1M, fields: { uid: "int, key", name: "string(20)", town: "string(8)" } }
  Post:
    count: 1M
    fields: { pid: "int, key", user: "User, as posts", body: "string(8)", kind: "enum(x, y)" }
patterns:
  user: { find: User, where: "uid = :uid", rate: 1/s }
  sorted: { find: Post, where: "kind = :kind", order: user.name, limit: 10, rate: 5000/s }
writes:
  join: { create: User, rate: 1/s }
  save: { upsert: User, rate: 1/s }
  rename: { update: User, set: [name], where: "uid = :uid", rate: 1/s }
  settle_in: { update: User, set: [town], where: "uid = :uid", rate: 1/s }
  say: { update: Post, set: [body], where: "pid = :pid", rate: 1/s }
"""
CALLS: dict[str, dict[str, Any]] = {
    "join": {"uid": 1, "name": "a", "town": "t"},
    "save": {"uid": 2, "name": "b", "town": "t"},
    "rename": {"uid": 1, "name": "c"},
    "settle_in": {"uid": 1, "town": "u"},
}


def is_home_of_users(view: View) -> bool:
    return view.entity == "User" and not view.base and not view.where


def test_what_is_a_transaction_costs_what_one_does(mongodb: Harness) -> None:
    model = parse_model(MODEL)
    built, solution = cheapest(model, get_engine("mongodb"))
    assert solution is not None
    chosen = set(solution.chosen)
    url = mongodb.url()
    keyplan.apply(model, url)
    sent: list[WriteRequest] = []
    with keyplan.open(model, url) as store:
        assert any("user.name" in view.holds for view in store._core.design.views.values())
        send = store._port.send

        def noted(round: Sequence[Any]) -> Sequence[Any]:
            sent.extend(one for one in round if isinstance(one, WriteRequest))
            return send(round)

        store._port.send = noted  # type: ignore[method-assign]
        for name, arguments in CALLS.items():
            sent.clear()
            getattr(store, name)(**arguments)
            (request,) = sent
            (home,) = [view for view in chosen if is_home_of_users(built.problem.views[view])]
            priced = built.problem.premiums(name, chosen)[home]
            assert priced == float(request.is_transaction), name
