"""Coefficients from a live server, and what the cost model makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from pymongo import MongoClient

import keyplan
from keyplan.engines.mongodb import calibrate
from keyplan.engines.mongodb.cost import Coefficients, cost_model
from keyplan.engines.mongodb.limits import Latencies
from keyplan.model.model import Model
from tests.conftest import started
from tests.engines.harness import Harness


@pytest.fixture(scope="module")
def server() -> Iterator[Harness]:
    for harness in started("mongodb"):
        yield harness.replicated


def test_it_predicts_what_it_measured_and_leaves_nothing_behind(
    server: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "BLOCKS", 2)
    monkeypatch.setattr(calibrate, "SMALL", 4000)
    monkeypatch.setattr(calibrate, "LATENCY_SAMPLES", 20)
    monkeypatch.setattr(calibrate, "TRANSACTIONS", 10)
    monkeypatch.setattr(calibrate, "PACKED", (10, 60))
    monkeypatch.setattr(calibrate, "ARRAYS", (10, 100))
    url = server.url()
    shares: list[float] = []
    found = keyplan.calibrate(url, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert found.r2 > 0.7
    assert found.median_error < 0.5
    # A gigabyte that is kept costs no time.
    assert set(found.coefficients) == {each.name for each in fields(Coefficients)} - {"keep_gb_ms", "total"}
    assert set(found.latencies) == {each.name for each in fields(Latencies)}
    assert min(found.coefficients["command"], found.coefficients["write"]) > 5
    with MongoClient[dict[str, Any]](url) as client:
        assert client.get_default_database().list_collection_names() == []


def test_a_model_may_say_what_work_costs() -> None:
    usual = cost_model(Model("m", {})).coefficients
    told = cost_model(Model("m", {}, targets={"mongodb": {"coefficients": {"key": "9"}}})).coefficients
    assert (told.key, told.command) == (9.0, usual.command)
