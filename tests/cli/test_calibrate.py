"""calibrate: measured figures, and a model that uses them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import yaml

import keyplan as api
from keyplan.engines.calibration import Calibration
from keyplan.engines.sqlite import calibrate
from tests.cli.conftest import EXAMPLES, Keyplan, assert_fails

URL = "sqlite:scratch.db"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, keyplan: Keyplan) -> None:
    """A smaller measurement of the same form, beside a copy of the shop."""
    monkeypatch.setattr(calibrate, "ROWS", 12_000)
    monkeypatch.setattr(calibrate, "RUNS", 2)
    Path("shop.yaml").write_text((EXAMPLES / "shop.yaml").read_text())
    sqlite3.connect("scratch.db").close()


@pytest.mark.usefixtures("quick")
def test_it_measures_and_leaves_nothing_behind(keyplan: Keyplan) -> None:
    done = keyplan("calibrate", URL, "--yes")
    assert done.exit_code == 0, done.output
    assert "R2 0." in done.stdout
    found = yaml.safe_load(done.stdout)["targets"]["sqlite"]["coefficients"]
    assert set(found) == {"statement", "seek", "entry", "byte", "lookup", "insert", "index_insert", "commit"}
    assert 0.5 < found["statement"] < 500
    left = {path.name: path.stat().st_size for path in Path().iterdir()}
    assert left == {"scratch.db": 0, "shop.yaml": Path("shop.yaml").stat().st_size}


@pytest.mark.thorough
@pytest.mark.usefixtures("quick")
def test_a_model_uses_what_was_saved(keyplan: Keyplan) -> None:
    usual = api.design(api.load_model("shop.yaml"), "sqlite").objective.value
    done = keyplan("calibrate", "shop.yaml", URL, "--save", "--yes", "--format", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["r2"] > 0.8
    assert len(told["samples"]) > 10
    saved = yaml.safe_load(Path("shop.sqlite.calibration.yaml").read_text())
    assert saved == told["targets"]["sqlite"]
    named = "\ntargets: { sqlite: { calibration: shop.sqlite.calibration.yaml } }\n"
    Path("shop.yaml").write_text((EXAMPLES / "shop.yaml").read_text() + named)
    used = api.load_model("shop.yaml").targets["sqlite"]["coefficients"]
    assert isinstance(used, dict)
    assert {name: float(text) for name, text in used.items()} == saved["coefficients"]
    assert api.design(api.load_model("shop.yaml"), "sqlite").objective.value != usual


@pytest.mark.usefixtures("quick")
def test_what_is_said_in_the_model_wins(keyplan: Keyplan) -> None:
    Path("figures.yaml").write_text("coefficients: { statement: 1, seek: 2 }\n")
    named = "\ntargets: { sqlite: { calibration: figures.yaml, coefficients: { statement: 9 } } }\n"
    Path("shop.yaml").write_text((EXAMPLES / "shop.yaml").read_text() + named)
    assert api.load_model("shop.yaml").targets["sqlite"] == {"coefficients": {"statement": "9"}}


@pytest.mark.usefixtures("quick")
def test_a_file_that_was_not_there_is_not_there_afterwards(keyplan: Keyplan) -> None:
    assert keyplan("calibrate", "sqlite:a%20new.db?synchronous=full", "--yes").exit_code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["scratch.db", "shop.yaml"]


@pytest.mark.usefixtures("quick")
def test_without_yes_nothing_is_done(keyplan: Keyplan) -> None:
    done = keyplan("calibrate", URL)
    assert done.exit_code == 0
    assert "nothing was done; add --yes" in done.stderr
    document = json.loads(keyplan("calibrate", URL, "--format", "json").stdout)
    assert document == {"engine": "sqlite", "measured": None, "targets": {}}


@pytest.mark.usefixtures("quick")
def test_what_is_wrong_is_one_line(keyplan: Keyplan) -> None:
    assert_fails(keyplan("calibrate"), "keyplan calibrate: give a URL, or a model and a URL")
    Path("shop.yaml").write_text("")
    forgotten = "keyplan calibrate: 'shop.yaml' is a file; give the URL of a server after it"
    assert_fails(keyplan("calibrate", "shop.yaml"), forgotten)
    assert_fails(keyplan("calibrate", "nothing:there"), "no engine for 'nothing:'…")
    assert_fails(keyplan("calibrate", "sqlite:no/where.db", "--yes"), "no: no such file or directory; check the name")
    assert_fails(keyplan("calibrate", URL, "--save", "--yes"), "keyplan calibrate: …give the model before the URL")
    assert_fails(keyplan("calibrate", "nothing:there", "--yes"), "no engine for 'nothing:'…")
    line = "gone.yaml: no such file or directory; check the name"
    assert_fails(keyplan("calibrate", "gone.yaml", URL, "--yes"), line)
    text = (EXAMPLES / "shop.yaml").read_text()
    Path("shop.yaml").write_text(text + "\ntargets: { sqlite: { calibration: gone.yaml } }\n")
    assert_fails(
        keyplan("design", "shop.yaml", "--engine", "sqlite"), "shop.yaml:…'keyplan calibrate --save' writes one"
    )
    Path("shop.yaml").write_text(text + "\ntargets: { sqlite: { coefficients: { sek: 1 } } }\n")
    assert_fails(
        keyplan("design", "shop.yaml", "--engine", "sqlite"),
        "shop.yaml:…: targets.sqlite.coefficients: there is no 'sek'; did you mean 'seek'?",
    )


def test_small_figures_keep_their_digits() -> None:
    figures = {"statement": 5.85, "entry": 10.0, "byte": 6.03e-05}
    made = Calibration("sqlite", "", {"coefficients": figures}, figures)
    assert yaml.safe_load(made.text) == {"coefficients": figures}
