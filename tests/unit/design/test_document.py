"""The design document: as its schema says, as its page says, and the same from every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonschema
import pytest

from keyplan.design import design, document
from keyplan.design.report.difference import difference
from keyplan.design.report.document_schema import document_schema
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.load import parse_model
from keyplan.plan.lockfile import lock_text
from tests.unit.design.support import EXAMPLES, PLACES, ROOT, designed, example

PAGE = ROOT / "docs" / "design-document.md"
DESIGN_ALL = """
import json, sys
from keyplan.design import design, document
from keyplan.engines import get_engine
from keyplan.model.load import load_model
from keyplan.plan.lockfile import lock_text
for name in sys.argv[2:]:
    model = load_model(f"examples/{name}.yaml")
    found = design(model, get_engine(sys.argv[1]))
    told = document(model, found)
    del told["objective"]["seconds"]
    print(json.dumps(told))
    print(lock_text(model, found))
"""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = document_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "engine"), PLACES)
def test_every_document_is_as_the_schema_says(
    validator: jsonschema.Draft202012Validator, name: str, engine: str
) -> None:
    told = document(example(name), designed(name, engine))
    validator.validate(json.loads(json.dumps(told, allow_nan=False)))


def test_a_document_with_a_difference_is_as_the_schema_says(validator: jsonschema.Draft202012Validator) -> None:
    locked = designed("shop", "sqlite")
    told = document(example("shop"), locked)
    validator.validate({**told, "against_lock": difference(example("shop"), locked, locked)})


def test_the_schema_is_strict(validator: jsonschema.Draft202012Validator) -> None:
    told = json.loads(json.dumps(document(example("sessions"), designed("sessions", "sqlite"))))
    for path in ([], ["objective"], ["structures", 0], ["structures", 0, "views", 0], ["patterns", "session"]):
        place: Any = told
        for step in path:
            place = place[step]
        place["more"] = 1
        assert not validator.is_valid(told), path
        del place["more"]
    del told["patterns"]["session"]["cost"]
    assert not validator.is_valid(told)


def properties(schema: Any) -> Iterator[str]:
    """The names of all properties in a schema."""
    if isinstance(schema, dict):
        for name, inner in schema.items():
            if name == "properties":
                yield from inner
            yield from properties(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from properties(inner)


def test_the_page_has_every_property() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = {name for name in properties(document_schema()) if f"`{name}`" not in page}
    assert not missing


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
def test_two_processes_make_the_same_bytes(engine: str) -> None:
    """The other one, with other hashes, designs anew; what this one made is checked by every test here."""
    command = [sys.executable, "-c", DESIGN_ALL, engine, *EXAMPLES]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as other:
        mine = "".join(map(partial(told, engine), EXAMPLES))
        theirs, _ = other.communicate()
    assert other.returncode == 0
    assert len(mine) > 10_000
    assert mine == theirs


def told(engine: str, name: str) -> str:
    """What DESIGN_ALL prints of an example."""
    model, found = example(name), designed(name, engine)
    said = document(model, found)
    del said["objective"]["seconds"]
    return f"{json.dumps(said)}\n{lock_text(model, found)}\n"


@pytest.mark.parametrize("engine", BUILTIN)
def test_findings_have_the_line_of_what_they_name(engine: str) -> None:
    model = parse_model(OUTGROWN, "outgrown.yaml")
    found = {one.path: one.line for one in design(model, get_engine(engine)).findings if one.severity == "warning"}
    lines = OUTGROWN.splitlines()
    assert {"entities.Order", "writes.place"} <= found.keys()
    for path, line in found.items():
        assert path.partition(".")[2] in lines[line - 1], (path, line)


OUTGROWN = """
keyplan: 1
name: outgrown
entities:
  Order: { count: 1k, fields: { order_id: "uuid, key", total: int } }
patterns:
  order: { find: Order, where: "order_id = :order_id", rate: 1/s }
writes:
  place: { create: Order, rate: 1/s }
transactions:
  checkout: { writes: [place x3 max 200], rate: 9/s }
"""


def test_an_index_tells_its_projection() -> None:
    told = document(example("shop"), designed("shop", "dynamodb"))
    views = [(one["kind"], view["projection"]) for one in told["structures"] for view in one["views"]]
    assert {said for kind, said in views if kind == "gsi"} <= {"ALL", "INCLUDE", "KEYS_ONLY"}
    assert {said for kind, said in views if kind == "table"} == {None}
