"""Loads of rows that stand nowhere under their key: what is there already is looked for once, not again and again."""

from __future__ import annotations

from typing import Any

import pytest

import keyplan
from keyplan.engines.dynamodb.transport import Transport
from keyplan.model.load import parse_model
from keyplan.plan.steps import Search
from keyplan.reference import Database
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of

MODEL = """
keyplan: 1
name: audits
targets: { dynamodb: { billing: on_demand } }
entities:
  Org: { count: 1k, fields: { org: "int, key", name: string(10) } }
  Audit:
    count: 10M
    fields: { audit: "ulid, key", org: "Org, as audits", at: timestamp, action: string(10) }
patterns:
  of: { find: Audit, where: "org = :org", order: at desc, page: 50, rate: 500/s }
writes:
  log: { create: Audit, rate: 100/s }
"""


def audit(number: int, org: int, action: str) -> tuple[str, dict[str, Any]]:
    at = f"2025-01-01T00:{number // 60:02}:{number % 60:02}Z"
    return "Audit", {"audit": f"01JGFJJZ00000000000000{number:04}", "org": org, "at": at, "action": action}


def test_what_only_a_scan_finds_is_looked_for_once_a_batch(dynoxide: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse_model(MODEL)
    scans = 0
    send = Transport.send_all

    def counted(self: Any, calls: Any) -> Any:
        nonlocal scans
        scans += sum(call.operation == "Scan" for call in calls)
        return send(self, calls)

    rows = [audit(number, number % 3, "made") for number in range(400)]
    again = [audit(number, 7, "moved") for number in range(3)]  # they lie elsewhere then
    twice = [audit(900, 1, "first"), audit(900, 2, "second")]
    url = url_of(dynoxide.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        plan = store.design.rows["Audit"]
        assert isinstance(plan, Search)
        assert not plan.given, "only a scan finds an audit by its key"
        monkeypatch.setattr(Transport, "send_all", counted)
        store.load(rows)
        assert scans == 1
        store.load([*again, *twice])
        reference = Database(model)
        reference.load([*rows, *again, *twice])

        def expected(org: int) -> list[Any]:
            page = reference.call("of", org=org)
            rows = list(page.rows)
            while page.cursor is not None:
                page = reference.read("of", org=org, cursor=page.cursor)
                rows += page.rows
            return rows

        for org in range(8):
            assert list(store.of.all(org=org)) == expected(org), org
        assert store.verify().ok
