"""What the server says about every find of every example: the index that was meant, no sort, nothing examined in vain.

Also that no server-side JavaScript occurs anywhere, and that what an index covers does not touch documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import keyplan
from keyplan.engines.mongodb.operations import Find
from keyplan.engines.mongodb.transport import Link
from keyplan.model.model import Model
from keyplan.store.store import Store
from tests.engines.harness import Harness
from tests.examples_data.calls import Caller
from tests.examples_data.compare import walk
from tests.examples_data.rows import Clock, rows
from tests.test_examples import EXAMPLES, filled, model_of

CALLS = 3
FORBIDDEN = {"COLLSCAN", "SORT", "SORT_KEY_GENERATOR", "SORT_SIMPLE", "SORT_DEFAULT"}


class Recorder:
    """A port that keeps the finds it sends."""

    def __init__(self, store: Store) -> None:
        self.port: Any = store._port
        self.finds: list[Find] = []
        store._port = self
        for name in store.model.patterns:
            method = getattr(store, name)
            if getattr(method, "_quick", None) is not None:
                method._quick = None

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        self.finds += [request for request in round if isinstance(request, Find)]
        return list(self.port.send(round))

    def close(self) -> None:
        self.port.close()

    @property
    def link(self) -> Link:
        found: Link = self.port._link
        return found


def explained(link: Link, find: Find) -> dict[str, Any]:
    """The plan and the figures of a find, as the server ran it."""
    body: dict[str, Any] = {"find": find.collection, "filter": find.filter, "limit": find.limit}
    if find.projection:
        body["projection"] = find.projection
    if find.sort:
        body["sort"] = dict(find.sort)
    if find.hint:
        body["hint"] = find.hint
    return dict(link.database.command("explain", body, codec_options=link.options, verbosity="executionStats"))


def stages(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All stages of a plan; a plan for the slot-based engine is wrapped once more."""
    if "queryPlan" in plan:
        yield from stages(plan["queryPlan"])
        return
    yield plan
    for inner in [plan.get("inputStage"), *plan.get("inputStages", ())]:
        if inner:
            yield from stages(inner)


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Model:
    return model_of(request.param)


def test_every_find_is_what_the_plan_says(mongodb: Harness, example: Model) -> None:
    url = mongodb.url()
    keyplan.apply(example, url)
    clock = Clock()
    database = filled(example, seed=1)
    with keyplan.open(example, url, clock=clock) as store:
        store.load(rows(example, seed=1))
        recorder = Recorder(store)
        for name, arguments in Caller(database, filled(example, seed=2), seed=4).reads(CALLS):
            if name not in store.design.unserved:
                walk(example.patterns[name], getattr(store, name), dict(arguments))
        assert recorder.finds
        unlike = {repr((f.collection, f.filter, f.sort, f.limit, f.projection)): f for f in recorder.finds}
        for find in unlike.values():
            check(recorder.link, find)


def check(link: Link, find: Find) -> None:
    told = explained(link, find)
    found = list(stages(told["queryPlanner"]["winningPlan"]))
    names = {stage["stage"] for stage in found}
    assert not names & FORBIDDEN, f"{find}: {names}"
    used = {stage["indexName"] for stage in found if "indexName" in stage}
    assert used == ({find.hint} if find.hint else set()) or names & {"IDHACK", "EOF"}, f"{find}: {used}"
    figures = told["executionStats"]
    examined, keys, returned = (figures[n] for n in ("totalDocsExamined", "totalKeysExamined", "nReturned"))
    covered = "PROJECTION_COVERED" in names
    assert examined == (0 if covered else returned), f"{find}: {examined} documents for {returned}"
    # One more key per interval of an `$in` or branch of an `$or`: where the scan sees that it ends.
    intervals = 1 + sum(len(value) for value in _lists(find.filter))
    assert keys <= returned + intervals, f"{find}: {keys} keys for {returned}"
    assert "$where" not in repr(find.filter)


def _lists(filter: Any) -> Iterator[list[Any]]:
    if isinstance(filter, dict):
        for name, value in filter.items():
            if name in ("$in", "$or"):
                yield value
            yield from _lists(value)
    elif isinstance(filter, list):
        for value in filter:
            yield from _lists(value)


KEYS = """
keyplan: 1
name: keys
entities:
  Reading:
    count: 10M
    key: [sensor, at]
    fields:
      sensor: string(8), distinct 10k
      at: int
      note: text(400)
  Tag: { count: 100k, fields: { tag: "string(8), key", text: text(400) } }
patterns:
  many: { count: Reading, where: "sensor = :s", rate: 10/s }
  moments: { find: Reading, where: "sensor = :s and at > :at", select: [at], page: 20, rate: 1k/s }
  tags: { find: Tag, where: "tag >= :t", select: [tag], page: 20, rate: 1k/s }
writes:
  report: { create: Reading, rate: 5k/s }
"""


def test_what_is_in_the_key_is_read_from_the_index_of_the_ids(mongodb: Harness) -> None:
    model = keyplan.parse_model(KEYS)
    url = mongodb.url()
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        assert [view.kind for view in store.design.views.values()] == ["collection", "collection"]
        store.load([("Reading", {"sensor": "ab"[n % 2], "at": n, "note": "x"}) for n in range(10)])
        store.load([("Tag", {"tag": f"t{n}", "text": "x"}) for n in range(10)])
        recorder = Recorder(store)
        assert store.many(s="a") == 5
        assert [row["at"] for row in store.moments(s="b", at=2)] == [3, 5, 7, 9]
        assert [row["tag"] for row in store.tags(t="t7")] == ["t7", "t8", "t9"]
        assert len(recorder.finds) == 3
        for find in recorder.finds:
            assert explained(recorder.link, find)["executionStats"]["totalDocsExamined"] == 0
