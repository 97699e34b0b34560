"""An `apply` comes to its end where each of its replies is lost, or each of its requests throttled, the first time."""

from __future__ import annotations

import json
from typing import Any

import pytest

import keyplan
from keyplan.engines.dynamodb import port
from keyplan.engines.dynamodb.transport import Call, Transport
from keyplan.engines.dynamodb.wire import LostReplyError
from keyplan.errors import ThrottledError
from keyplan.store import pump
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.unit.design.nouns import model_of

ENTITIES = """
User: { count: 10k, fields: { uid: "int, key", name: string(20) } }
Note:
  count: 1M
  ttl: 90d
  fields: { nid: "int, key", owner: "User, as notes", made: timestamp, tags: "set(string, avg 2, max 5)" }
"""
NOTE = 'note: { find: Note, where: "nid = :nid", rate: 50/s }'
MORE = """
of_owner: { find: Note, where: "owner = :uid", select: [nid, owner.name], order: made desc, page: 5, rate: 500/s }
tagged: { find: Note, where: "contains(tags, :tag)", select: [nid], order: nid, page: 5, rate: 50/s }
"""
WRITES = """
sign_up: { create: User, rate: 0.1/s }
rename: { update: User, set: [name], where: "uid = :uid", rate: 0.001/s }
jot: { create: Note, rate: 0.1/s }
"""
FEWER, ALL = (model_of(ENTITIES, NOTE + more, WRITES) for more in ("", MORE))
DESIGNS = [keyplan.design(model, "dynamodb", advise=False) for model in (FEWER, ALL)]


class FirstTries(Transport):
    """Knows which calls it has had before."""

    seen: set[str]

    def _is_first(self, call: Call) -> bool:
        assert isinstance(call.body, dict)
        told = json.dumps([call.operation, {**call.body, "ClientRequestToken": ""}], sort_keys=True)
        is_first = told not in self.seen
        self.seen.add(told)
        return is_first


class Losing(FirstTries):
    """Does what it is asked for, and says nothing of it."""

    def _send(self, call: Call) -> dict[str, Any]:
        reply = super()._send(call)
        if self._is_first(call):
            error = LostReplyError("the connection was closed")
            raise self._lost(call, error) from error
        return reply


class Throttling(FirstTries):
    """Refuses everything once."""

    def _send(self, call: Call) -> dict[str, Any]:
        if self._is_first(call):
            raise ThrottledError("throttled")
        return super()._send(call)


@pytest.mark.parametrize("faulty", [Losing, Throttling])
def test_an_apply_gets_on(server: Server, faulty: type[FirstTries], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "_FIRST_WAIT", 0.001)
    url = url_of(server.url)

    def applied(number: int) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(faulty, "seen", set(), raising=False)
            patch.setattr(port, "Transport", faulty)
            return keyplan.apply((FEWER, ALL)[number], url, design=DESIGNS[number])

    assert applied(0)
    assert applied(0) == []
    with keyplan.open(FEWER, url) as store:
        for uid in range(3):
            store.sign_up(uid=uid, name=f"n{uid}")
        for nid in range(9):
            store.jot(nid=nid, owner=nid % 3, made=f"2052-01-01T00:00:0{nid}Z", tags={"a", f"t{nid % 2}"})
        before = store.verify()
        assert before.ok
    assert applied(1)
    assert applied(1) == []
    with keyplan.open(ALL, url) as store:
        assert [(row["nid"], row["owner"]["name"]) for row in store.of_owner(uid=1)] == [
            (7, "n1"),
            (4, "n1"),
            (1, "n1"),
        ]
        assert [row["nid"] for row in store.tagged(tag="t1")] == [1, 3, 5, 7]
        assert store.verify().ok
    assert applied(0)
    with keyplan.open(FEWER, url) as store:
        found = store.verify()
        assert found.ok
        assert found.rows == before.rows
