"""Lock files: the same design gives the same text, and the text the same design."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

import keyplan
from keyplan.errors import DesignError
from keyplan.model.load import load_model, parse_model
from keyplan.plan.lockfile import decode, design_hash, encode, lock_text, model_hash, read_lock
from tests.naive import EVERYTHING, naive_design

TEXT = """
keyplan: 1
name: shop
entities:
  User: {count: 10, fields: {name: "string(8), key", born: "date, optional 50%", tags: "set(string(4), avg 2)"}}
  Order:
    count: 100
    fields:
      number: int, key
      user: User, as orders
      status: enum(open 10%, done 90%), default open
      total: decimal(2)
patterns:
  orders_of_user: {find: Order, where: "user = :name and total >= 1.50", order: total desc, page: 10, rate: 1/s}
writes:
  order: {create: Order, rate: 1/s}
"""


@pytest.mark.parametrize("extras", list(EVERYTHING))
def test_round_trip(extras: str) -> None:
    model = parse_model(TEXT)
    design = naive_design(model, EVERYTHING[extras])
    text = lock_text(model, design)
    found = read_lock(text, model)
    assert found == design
    assert lock_text(model, found) == text
    assert design_hash(text) == design_hash(lock_text(model, naive_design(parse_model(TEXT), EVERYTHING[extras])))


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1.50"),
        datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        date(2024, 2, 29),
        UUID(int=7),
        b"\0\xff",
        frozenset({"b", "a"}),
        (1, "1", True, None, 1.0),
        {"$": "a key that looks like a noun"},
        [1, (2,)],
        float("inf"),
    ],
)
def test_values_keep_their_types(value: object) -> None:
    found = decode(json.loads(json.dumps(encode(value))))
    assert found == value
    assert type(found) is type(value)


def test_statistics_do_not_change_what_a_model_means() -> None:
    model = parse_model(TEXT)
    other = parse_model(TEXT.replace("count: 100", "count: 5M").replace("10%, done 90%", "1%, done 99%"))
    assert model_hash(model) == model_hash(other)
    renamed = parse_model(TEXT.replace("total desc", "total"))
    assert model_hash(model) != model_hash(renamed)


def test_a_lock_of_another_model_is_refused() -> None:
    model = parse_model(TEXT)
    text = lock_text(model, naive_design(model))
    with pytest.raises(DesignError, match="the model has changed"):
        read_lock(text, parse_model(TEXT.replace("total desc", "total")))
    with pytest.raises(DesignError, match="not for 'store'"):
        read_lock(text, parse_model(TEXT.replace("name: shop", "name: store")))


def test_a_lock_that_was_edited_is_refused() -> None:
    """What it says may still be a design, of which parts no longer fit each other."""
    model = parse_model(TEXT)
    document = json.loads(lock_text(model, naive_design(model)))
    next(iter(document["design"]["views"].values()))["name"] += "x"
    with pytest.raises(DesignError, match=r"it was changed since keyplan wrote it; make it again"):
        read_lock(json.dumps(document), model)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"keyplan": 99}', '{"keyplan": 1, "design": {"$": "View"}}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(DesignError):
        read_lock(text)


def test_a_lock_file_that_cannot_be_written(tmp_path: Path) -> None:
    """One line that names the file, and nothing half-written beside it."""
    file = tmp_path / "shop.yaml"
    file.write_text(TEXT)
    model = load_model(file)
    design = replace(naive_design(model, EVERYTHING[next(iter(EVERYTHING))]), engine="sqlite")
    lock = tmp_path / "shop.sqlite.lock.json"
    lock.mkdir()
    with pytest.raises(DesignError, match=rf"^{re.escape(str(lock))}: it cannot be written: .*; name a file$"):
        keyplan.save_lock(model, design)
    assert sorted(one.name for one in tmp_path.iterdir()) == [lock.name, file.name]
