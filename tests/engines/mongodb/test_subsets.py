"""Posts that keep their best comments in their documents: the same answers as without, whatever comes and goes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.errors import WriteError

import keyplan
from keyplan.errors import ArgumentError, ConflictError, DesignMismatchError
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Order, Param, Path, Pattern, Select, Traffic
from keyplan.plan.design import Design
from tests import discussion
from tests.conformance.pair import designed, opened, parsed
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.harness import Harness
from tests.strategies.designs import Designs
from tests.strategies.programs import programs


def subset_design() -> Design:
    """The design of the discussion, in which documents of posts have three comments at most."""
    design = designed(parsed(discussion.MODEL), "mongodb")
    embeds = design.views[design.homes["Post"][0]].embeds
    assert [(one.role, one.limit) for one in embeds] == [("comments", 3)]
    assert [str(part) for part in embeds[0].sort] == ["score desc", "place", "comment_id"]
    assert "author.name" in embeds[0].holds
    assert design.homes["Comment"][1] == ()
    return design


@pytest.mark.parametrize("seed", range(6))
def test_posts_keep_their_best_comments(mongodb: Harness, seed: int) -> None:
    design = subset_design()
    with opened(parsed(discussion.MODEL), mongodb.url(), discussion.rows(), design) as pair:
        for number, (name, arguments) in enumerate(discussion.writes(100 + seed, 150)):
            with contextlib.suppress(ArgumentError, ConflictError):
                pair.same(name, **arguments)
            pair.agrees(discussion.reads())
            if number % 10 == 0:
                pair.verified()
        pair.verified()


def documents(url: str) -> Any:
    """The posts as the server has them."""
    client: MongoClient[dict[str, Any]] = MongoClient(url)
    return client.get_default_database()[subset_design().homes["Post"][0]]


def test_the_document_has_the_first_ones_sorted_and_counts_what_is_written_below_it(mongodb: Harness) -> None:
    url = mongodb.url()
    with opened(parsed(discussion.MODEL), url, discussion.rows(), subset_design()) as pair:
        posts = documents(url)
        before = posts.find_one({"_id": 2})["_comments_version"]
        pair.same("say", **discussion.comment(10, 2, 7, body="first"))
        pair.same("edit", comment_id=3, body="not among them")
        found = posts.find_one({"_id": 2})
        assert [one["comment_id"] for one in found["comments"]] == [10, 2, 8]
        assert found["_comments_version"] == before + 2
        pair.same("erase", comment_id=8)
        pair.same("erase", comment_id=10)
        assert [one["comment_id"] for one in posts.find_one({"_id": 2})["comments"]] == [2, 5, 4]
        pair.verified()


def test_the_validator_knows_how_many_there_are(mongodb: Harness) -> None:
    url = mongodb.url()
    with opened(parsed(discussion.MODEL), url, discussion.rows(), subset_design()):
        posts = documents(url)
        more = posts.find_one({"_id": 2})["comments"][0] | {"comment_id": 77}
        with pytest.raises(WriteError, match="validation"):
            posts.update_one({"_id": 2}, {"$push": {"comments": more}})
        with pytest.raises(WriteError, match="validation"):
            posts.update_one({"_id": 2}, {"$set": {"_comments_version": "many"}})


@pytest.mark.parametrize("what", ["missing", "extra", "wrong"])
def test_verify_finds_and_mends(mongodb: Harness, what: str) -> None:
    url = mongodb.url()
    with opened(parsed(discussion.MODEL), url, discussion.rows(), subset_design()) as pair:
        change: dict[str, Any] = {
            "missing": {"$pull": {"comments": {"comment_id": 8}}},
            "wrong": {"$set": {"comments.1.author_name": "nobody"}},
            "extra": {"$set": {"comments.0.comment_id": 99}},
        }[what]
        documents(url).update_one({"_id": 2}, change)
        report = pair.store.verify().views[subset_design().homes["Post"][0]]
        assert (report.missing, report.extra, report.wrong) == (what != "wrong", what == "extra", what == "wrong")
        pair.store.verify(repair=True)
        pair.agrees(discussion.reads())
        pair.verified()


def test_documents_with_fewer_of_them_are_not_taken_for_those_of_another_design(mongodb: Harness) -> None:
    url = mongodb.url()
    longer = parsed(discussion.MODEL.replace("limit: 3 } }, comments", "limit: 4 } }, comments"))
    with opened(parsed(discussion.MODEL), url, discussion.rows(), subset_design()):
        pass
    with pytest.raises(DesignMismatchError, match="laid out for another design"):
        keyplan.apply(longer, url)


def test_a_load_of_many_rows_below_one_keeps_the_first(mongodb: Harness) -> None:
    with opened(parsed(discussion.MODEL), mongodb.url(), discussion.rows(), subset_design()) as pair:
        rows = [("Comment", discussion.comment(number, number % 2, number % 97)) for number in range(100, 700)]
        reads = [call for call in discussion.reads() if call[0] != "comments"]
        pair.load(rows)
        pair.agrees(reads)
        pair.load([("Comment", {**row, "score": 97 - row["score"]}) for _, row in rows[::7]])
        pair.agrees(reads)
        pair.same("purge", post_id=1)
        pair.agrees(reads)
        pair.verified()


EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 5)


COUNTED: list[int] = []


@pytest.fixture(autouse=True)
def some_keep_first_children(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the generated programs would say nothing."""
    before = len(COUNTED)
    yield
    if request.node.originalname == "test_first_children_answer_as_the_reference":
        assert len(COUNTED) - before > EXAMPLES / 20


def with_first_children(model: Model, limit: int) -> Model:
    """The model with a pattern per to-many role that takes the last children by some column of theirs."""
    patterns = dict(model.patterns)
    for entity in model.entities.values():
        where = tuple(Condition(Path((), column), "=", (Param(column),)) for column in entity.key)
        params = {column: entity.columns[column].type for column in entity.key}
        for role in entity.roles.values():
            if role.many:
                child = model.entities[role.entity]
                ordered = (one for one in child.columns.values() if one.type.is_ordered and not one.optional)
                plain = [one.name for one in ordered if one.computed is None and not one.hidden]
                order = (Order(Path((), next((one for one in plain if one not in child.key), plain[0])), True),)
                shown = tuple(column for column in child.stored if not child.columns[column].hidden)
                taken = Select(shown, {}, order, limit)
                select = Select(entity.key, {role.name: taken})
                name = f"first_{role.name}_of_{entity.name}"
                patterns[name] = Pattern(
                    name, "find", entity.name, where, select=select, one=True, traffic=Traffic(1000.0), params=params
                )
    return replace(model, patterns=patterns)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_first_children_answer_as_the_reference(
    mongodb: Harness, first_children_embedded: None, designs: Designs, data: st.DataObject
) -> None:
    """Generated programs on designs that keep a subset wherever one can be; every view is compared at the end."""
    program = data.draw(programs())
    more = with_first_children(data.draw(statistics(program.model)), data.draw(st.integers(1, 2)))
    model = replace(more, targets=mongodb.targets)
    design = designs.of(model, "mongodb")
    if design.refills:
        COUNTED.append(len(design.refills))
        run(program, model, mongodb.url(), design)
