"""Posts that keep their best comments in their documents: the same answers as without, whatever comes and goes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import WriteError

import keyplan
from keyplan.errors import ArgumentError, ConflictError, DesignMismatchError
from keyplan.plan.design import Design
from tests import discussion
from tests.conformance.pair import designed, opened, parsed
from tests.engines.harness import Harness


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
