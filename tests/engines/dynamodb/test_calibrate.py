"""Measured latencies in place of the assumed ones."""

from __future__ import annotations

from dataclasses import fields

import pytest

import keyplan
from keyplan.engines.dynamodb import calibrate
from keyplan.engines.dynamodb.cost import cost_model
from keyplan.engines.dynamodb.limits import LATENCIES, Latencies
from keyplan.engines.dynamodb.operations import Request
from keyplan.model.model import Model
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import drive, lab, url_of


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "SAMPLES", 20)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")


def test_a_table_of_its_own_is_made_and_deleted(dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    found = keyplan.calibrate(url)
    assert set(found.target["latencies"]) <= {each.name for each in fields(Latencies)}
    assert 0.01 < found.latencies["get_ms"] < 1000
    again = keyplan.calibrate(url)  # the table is gone, or this would find it
    assert again.target.keys() == found.target.keys()


def test_a_table_in_use_keeps_what_it_has(dynoxide: Server) -> None:
    with lab(dynoxide.url) as here:
        before = here.items()
        drive(calibrate.calibrate(lambda share: None), here.port)
        assert here.items() == before
        (about,) = here.port.send([Request("DescribeTable", {})])
        assert about["Table"]["TableStatus"] == "ACTIVE"


def test_measured_latencies_are_used() -> None:
    usual = cost_model(Model("m", {})).latencies
    assert usual == LATENCIES
    measured = cost_model(Model("m", {}, targets={"dynamodb": {"latencies": {"get_ms": "1.5"}}})).latencies
    assert (measured.get_ms, measured.query_ms) == (1.5, usual.query_ms)
