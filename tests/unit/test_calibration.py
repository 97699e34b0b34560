"""Coefficients fitted to measurements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import keyplan
from keyplan.engines.calibration import Calibration, Sample, fitted, given
from keyplan.errors import ArgumentError
from keyplan.model.model import Model

PRICES = {"command": 60.0, "document": 1.5, "byte": 0.001}


def sample(name: str, noise: float = 1.0, **work: float) -> Sample:
    return Sample(name, work, sum(PRICES[each] * amount for each, amount in work.items()) * noise)


def test_prices_are_found_again() -> None:
    samples = [
        sample("get", command=1, document=1, byte=200),
        sample("page", command=1, document=20, byte=4000),
        sample("large", command=1, document=1, byte=60_000),
        sample("many", command=1, document=1000, byte=200_000),
    ]
    found = fitted(samples)
    assert found == pytest.approx(PRICES, rel=1e-3)
    told = Calibration("some", "exactly", {}, found, samples)
    assert told.r2 == pytest.approx(1.0, abs=1e-6)
    assert told.median_error < 1e-3


def test_no_price_is_negative() -> None:
    samples = [
        Sample("one", {"command": 1, "document": 1}, 100.0),
        Sample("ten", {"command": 1, "document": 10}, 90.0),
        Sample("fifty", {"command": 1, "document": 50}, 80.0),
    ]
    found = fitted(samples)
    assert found["document"] == 0.0
    assert 80 < found["command"] < 100


def test_noise_shows_in_the_error() -> None:
    samples = [
        sample("get", 1.2, command=1, document=1, byte=200),
        sample("page", 0.8, command=1, document=20, byte=4000),
        sample("large", 1.1, command=1, document=1, byte=60_000),
        sample("pages", 1.3, command=1, document=40, byte=8000),
        sample("many", 0.9, command=1, document=1000, byte=200_000),
    ]
    told = Calibration("some", "roughly", {}, fitted(samples), samples)
    assert 0.02 < told.median_error < 0.3
    assert 0.8 < told.r2 < 1


@dataclass(frozen=True)
class Prices:
    statement: float = 4.0
    seek: float = 2.0


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"statment": "1"}, "targets.some.prices: there is no 'statment'; did you mean 'statement'"),
        ({"seek": "fast"}, "targets.some.prices.seek: "),
        ("4", "targets.some.prices: not a table of figures"),
    ],
)
def test_bad_coefficients_are_said(told: object, message: str) -> None:
    model = Model("m", {}, targets={"some": {"prices": told}})
    with pytest.raises(ArgumentError) as caught:
        given(model, "some", "prices", Prices)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("engine", "option", "near"),
    [
        ("dynamodb", "biling", "billing"),
        ("mongodb", "document_byte", "document_bytes"),
        ("sqlite", "coefficient", "coefficients"),
    ],
)
def test_options_that_an_engine_does_not_know_are_refused(engine: str, option: str, near: str) -> None:
    entities = {"A": {"count": 5, "fields": {"id": "int, key"}}}
    model = keyplan.parse_model({"keyplan": 1, "entities": entities, "targets": {engine: {option: "1"}}})
    with pytest.raises(ArgumentError) as caught:
        keyplan.design(model, engine)
    assert str(caught.value) == f"targets.{engine}: there is no '{option}'; did you mean '{near}'?"


@pytest.mark.parametrize("engine", ["dynamodb", "mongodb", "sqlite"])
def test_engines_that_are_not_there_are_refused(engine: str) -> None:
    entities = {"A": {"count": 5, "fields": {"id": "int, key"}}}
    model = keyplan.parse_model({"keyplan": 1, "entities": entities, "targets": {"mongdb": {}}})
    with pytest.raises(ArgumentError) as caught:
        keyplan.design(model, engine)
    assert str(caught.value) == "targets: there is no engine 'mongdb'; did you mean 'mongodb'?"


def test_what_is_wrong_in_a_file_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(
        "keyplan: 1\nentities: { A: { count: 5, fields: { id: 'int, key' } } }\n"
        "targets:\n  mongdb: {}\n  sqlite:\n    coeficients: 1\n    coefficients:\n      seek: fast\n      sek: 1\n"
    )
    with pytest.raises(ArgumentError) as caught:
        keyplan.design(keyplan.load_model(file), "sqlite")
    lines = [line.removeprefix(f"{file}:").partition(";")[0] for line in str(caught.value).splitlines()]
    assert lines == [
        "4: targets: there is no engine 'mongdb'",
        "6: targets.sqlite: there is no 'coeficients'",
        "8: targets.sqlite.coefficients.seek: 'fast' is not a number such as 1.1",
        "9: targets.sqlite.coefficients: there is no 'sek'",
    ]


@pytest.mark.parametrize("engine", ["dynamodb", "mongodb", "sqlite"])
@pytest.mark.parametrize(
    ("targets", "told"),
    [
        (
            "  mongodb: { zz: 1 }\n  dynamodb: { billing: foo }\n",
            ["4: targets.mongodb: there is no 'zz'", "5: targets.dynamodb.billing: 'foo' is no mode"],
        ),
        (
            "  sqlit: {}\n  mongodb: { zz: 1 }\n",
            ["4: targets: there is no engine 'sqlit'", "5: targets.mongodb: there is no 'zz'"],
        ),
    ],
)
def test_targets_of_all_engines_are_checked_at_once(tmp_path: Path, engine: str, targets: str, told: list[str]) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(f"keyplan: 1\nentities: {{ A: {{ count: 5, fields: {{ id: 'int, key' }} }} }}\ntargets:\n{targets}")
    with pytest.raises(ArgumentError) as caught:
        keyplan.design(keyplan.load_model(file), engine)
    assert [line.removeprefix(f"{file}:").partition(";")[0] for line in str(caught.value).splitlines()] == told


def test_coefficients_may_be_given_in_part() -> None:
    model = Model("m", {}, targets={"some": {"prices": {"seek": "0.5"}}})
    assert Prices(**given(model, "some", "prices", Prices)) == Prices(4.0, 0.5)


def test_a_calibration_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("")
    there = tmp_path / "shop.some.calibration.yaml"
    there.mkdir()
    found = Calibration("some", "exactly", {}, {}, ())
    with pytest.raises(ArgumentError, match=rf"^{re.escape(str(there))}: it cannot be written: .*; name a file$"):
        keyplan.save_calibration(Model("shop", {}, file=str(file)), found)
    assert sorted(one.name for one in tmp_path.iterdir()) == [there.name, file.name]
