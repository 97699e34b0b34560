"""Rows and their children as documents of one collection: one find brings them together, and they mean the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.errors import WriteError

import keyplan
from keyplan.engines.mongodb.limits import CHUNK
from keyplan.errors import ArgumentError, ConflictError, DesignMismatchError
from keyplan.plan.design import Design
from keyplan.plan.walk import searches
from tests import discussion
from tests.conformance.pair import NOON, Pair, designed, opened, parsed
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.harness import Harness
from tests.engines.mongodb.test_emit import compare_pipelines, described, run_script
from tests.engines.mongodb.test_explain import Recorder, check
from tests.engines.mongodb.test_packed_writers import at_once
from tests.strategies.designs import Designs
from tests.strategies.families import families

FORUM = """
entities:
  Author: { count: 1k, fields: { author_id: "int, key", name: string(10) } }
  Post:
    count: 1M
    fields:
      post_id: int, key
      slug: string(10), unique
      author: Author, as posts
      title: string(10), optional 50%
  Comment:
    count: 100M
    fields:
      comment_id: ulid, key
      post: Post, as comments
      author: Author, as comments
      link: string(10), unique
      score: int, default 0
      body: string(200), optional 50%
patterns:
  post: { find: Post, where: post_id = :post_id, with: { comments: { order: "score desc", limit: 2 } }, rate: 10k/s }
  many: { find: Post, where: post_id = :post_id, with: { comments: { order: score, limit: 3 } }, rate: 1/s }
  named:
    find: Post
    where: post_id in :posts
    with: [author.name, { comments: { order: "score desc", limit: 3 } }, comments.author.name]
    rate: 100/s
  of_post: { find: Comment, where: post = :post_id and score < :score, order: score, page: 2, rate: 1k/s }
  by_link: { find: Comment, where: link = :link, rate: 1/s }
  by_slug: { find: Post, where: slug = :slug, rate: 1/s }
  of_author: { find: Comment, where: author = :author_id, page: 20, rate: 1/s }
  authors: { from: Comment, where: post = :post_id, group: [author], compute: { n: count() }, rate: 1/day }
  posts: { from: Comment, where: author = :author_id, group: [post.title], compute: { n: max(score) }, rate: 1/day }
writes:
  join: { create: Author, rate: 1/day }
  rename: { update: Author, set: [name], where: author_id = :author_id, rate: 1/day }
  start: { create: Post, rate: 1/s }
  start_with: { create: Post, with: [comments], rate: 1/day }
  retitle: { update: Post, set: [title, slug], where: post_id = :post_id, rate: 1/day }
  drop: { delete: Post, where: post_id = :post_id, rate: 1/day }
  purge: { delete: Post, with: [comments], where: post_id = :post_id, rate: 1/day }
  say: { create: Comment, rate: 20k/s }
  say_again: { upsert: Comment, rate: 1/day }
  edit: { update: Comment, set: [body], where: comment_id = :comment_id, rate: 1/day }
  vote: { update: Comment, add: [score], where: comment_id = :comment_id, rate: 1/day }
  move: { update: Comment, set: [post], where: comment_id = :comment_id, rate: 1/day }
  relink: { update: Comment, set: [link], where: comment_id = :comment_id, rate: 1/day }
  erase: { delete: Comment, where: comment_id = :comment_id, rate: 1/day }
transactions:
  swap: [erase, say]
"""
POSTS, AUTHORS = 3, 3


@cache
def forum() -> Design:
    """The design of the forum: comments stand behind their posts, the best first."""
    model = parsed(FORUM)
    design = designed(model, "mongodb")
    view = design.views[design.homes["Post"][0]]
    assert (view.kind, [str(part) for part in view.embeds[0].sort]) == ("shared", ["score desc", "comment_id desc"])
    assert design.homes["Comment"] == (view.name, ("comments",))
    assert not design.unserved
    return design


def rows() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [("Author", {"author_id": n, "name": f"a{n}"}) for n in range(AUTHORS)]
    found += [("Post", {"post_id": n, "slug": f"s{n}", "author": n, "title": f"t{n}"}) for n in range(POSTS)]
    return found + [("Comment", comment(n, 1 if n < 2 else 2, n % 3)) for n in range(9)]


def comment(number: int, post: int, score: int) -> dict[str, Any]:
    about = {"post": post, "author": number % AUTHORS, "link": f"l{number}", "score": score, "body": None}
    return {"comment_id": f"{number:026d}", **about}


def reads() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [("named", {"posts": [2, 0, 1, 77]})]
    for post in range(POSTS + 1):
        found += [("post", {"post_id": post}), ("many", {"post_id": post}), ("by_slug", {"slug": f"s{post}"})]
        found += [("of_post", {"post_id": post, "score": score}) for score in (-1, 2, 100)]
    found += [("of_author", {"author_id": author}) for author in range(AUTHORS)]
    return [*found, *(("by_link", {"link": f"l{number}"}) for number in (0, 5, 101))]


def some_write(draw: random.Random, pair: Pair) -> tuple[str, dict[str, Any]]:
    """A call that makes comments come, go, rise, fall and change places."""
    known = sorted(key for (key,) in pair.database.rows["Comment"])
    one = {"comment_id": draw.choice(known) if known and draw.random() < 0.9 else f"{99:026d}"}
    number = draw.randrange(100, 120)
    new = comment(number, draw.randrange(POSTS + 1), draw.randrange(4))
    key = new.pop("comment_id")
    post, author = {"post_id": draw.randrange(POSTS + 1)}, draw.randrange(AUTHORS)
    able: dict[str, dict[str, Any]] = {
        "say": new,
        "say_again": {**new, **(one if draw.random() < 0.5 else {"comment_id": key})},
        "edit": {**one, "body": draw.choice(["$x", None, "b"])},
        "vote": {**one, "score": draw.choice([-2, 1, 3])},
        "move": {**one, "post": post["post_id"]},
        "relink": {**one, "link": f"l{number}"},
        "erase": one,
        "swap": {"erase": one, "say": new},
        "start": {**post, "slug": f"s{draw.randrange(POSTS + 1)}", "author": author, "title": None},
        "retitle": {**post, "title": draw.choice([None, "x"]), "slug": f"s{draw.randrange(POSTS + 1)}"},
        "drop": post,
        "purge": post,
        "rename": {"author_id": author, "name": draw.choice("xyz")},
    }
    names = [*able, "say", "say", "vote", "vote", "start"]
    name = draw.choice([name for name in names if name not in ("drop", "purge") or draw.random() < 0.3])
    return name, able[name]


@pytest.mark.parametrize("seed", range(2))
def test_posts_come_with_their_best_comments(mongodb: Harness, seed: int) -> None:
    draw = random.Random(seed)
    with opened(parsed(FORUM), mongodb.url(), rows(), forum()) as pair:
        for number in range(50):
            name, arguments = some_write(draw, pair)
            with contextlib.suppress(ConflictError):
                pair.same(name, **arguments)
            pair.agrees(reads())
            if number % 20 == 0:
                pair.verified()
        pair.verified()


INBOX = """
entities:
  User: { count: 1M, fields: { user_id: "int, key", name: string(10) } }
  Note:
    count: 100M
    key: [user, number]
    fields: { user: "User, as notes", number: int, seen: timestamp }
    ttl: 1h since seen
patterns:
  inbox: { find: User, where: user_id = :user_id, with: { notes: { order: number desc, limit: 3 } }, rate: 10k/s }
writes:
  join: { create: User, rate: 1/s }
  tell: { create: Note, rate: 20k/s }
"""


def test_expired_notes_give_way_to_the_next_ones(mongodb: Harness) -> None:
    """Documents stay for a while when they have expired; another find brings more."""
    model = parsed(INBOX)
    design = designed(model, "mongodb")
    view = design.views[design.homes["User"][0]]
    assert (view.kind, [str(part) for part in view.embeds[0].sort]) == ("shared", ["number desc"])
    notes = [
        ("Note", {"user": user, "number": number, "seen": NOON + timedelta(hours=8 * (number < live))})
        for user, live in ((1, 20), (2, 19), (3, 12), (4, 2), (5, 0))
        for number in range(20)
    ]
    users = [("User", {"user_id": number, "name": "u"}) for number in range(1, 7)]
    with opened(model, mongodb.url(), [*users, *notes], design) as pair:
        recorder = Recorder(pair.store)

        def asked_of(user: int) -> tuple[list[int], list[int]]:
            recorder.finds.clear()
            found = pair.same("inbox", user_id=user)
            return [one["number"] for one in found["notes"]], [find.limit for find in recorder.finds]

        assert asked_of(2) == ([19, 18, 17], [4])
        pair.clock.advance(hours=2)
        assert asked_of(1) == ([19, 18, 17], [4])
        assert asked_of(2) == ([18, 17, 16], [4, 7])
        assert asked_of(3) == ([11, 10, 9], [4, 7, 13])
        assert asked_of(4) == ([1, 0], [4, 7, 13, 25])
        assert asked_of(5) == ([], [4, 7, 13, 25])
        assert asked_of(6) == ([], [4])


def collection(url: str) -> Any:
    client: MongoClient[dict[str, Any]] = MongoClient(url)
    return client.get_default_database()["Post"]


def test_one_find_brings_a_post_and_no_more_comments_than_are_wanted(mongodb: Harness) -> None:
    """As the server says: each find is one scan of the index that was meant, and examines nothing in vain."""
    url = mongodb.url()
    with opened(parsed(FORUM), url, rows(), forum()) as pair:
        pair.load([("Comment", comment(number, 7, number % 97)) for number in range(100, 110 + CHUNK)])
        pair.same("start", post_id=7, slug="s7", author=1, title="x")
        recorder = Recorder(pair.store)
        found = pair.same("post", post_id=7)
        (find,) = recorder.finds
        assert (len(found["comments"]), find.limit, find.sort, find.hint) == (2, 3, [("_id", -1)], "_id_")
        pair.agrees([*(call for call in reads() if call[0] != "of_author"), ("many", {"post_id": 7})])
        assert {"_id_", "comment_id", "unique_link", "unique_slug"} - {find.hint for find in recorder.finds} == {
            "comment_id"
        }
        for find in recorder.finds:
            check(recorder.link, find)
        documents = list(collection(url).find({"_id.post_id": 2}).sort("_id", -1))
        assert documents[0]["_id"] == {"post_id": 2, "of": "~Post"}
        assert list(documents[1]["_id"]) == ["post_id", "of", "score", "comment_id"]
        assert documents[1]["_id"]["of"] == "Comment"


def test_the_validator_knows_both_sorts_of_documents(mongodb: Harness) -> None:
    url = mongodb.url()
    with opened(parsed(FORUM), url, rows(), forum()):
        posts = collection(url)
        for document in (
            {"_id": {"post_id": 9, "of": "Other"}, "slug": "s", "author": 1},
            {"_id": {"post_id": 9, "of": "~Post"}, "author": 1},
            {"_id": {"post_id": 9, "of": "~Post"}, "slug": "s", "author": 1, "link": "x"},
            {"_id": {"post_id": 9, "of": "Comment"}, "author": 1, "link": "x"},
            {"_id": 9, "slug": "s", "author": 1},
        ):
            with pytest.raises(WriteError, match="validation"):
                posts.insert_one(document)
        posts.insert_one({"_id": {"post_id": 9, "of": "~Post"}, "slug": "s", "author": 1})


@pytest.mark.parametrize("what", ["missing", "wrong"])
def test_verify_finds_and_mends_what_the_server_has_lost(mongodb: Harness, children_beside: None, what: str) -> None:
    """Of copies in comments, and of an index."""
    model = parsed(FORUM.replace("rate: 20k/s", "rate: 1/day"))
    design = keyplan.design(model, "mongodb")
    assert "author.name" in design.views[design.homes["Comment"][0]].embeds[0].holds
    url = mongodb.url()
    with opened(model, url, rows(), design) as pair:
        if what == "wrong":
            collection(url).update_one({"link": "l5"}, {"$set": {"author_name": "nobody"}})
        else:
            collection(url).drop_index("unique_link")
        assert not pair.store.verify().ok
        pair.store.verify(repair=True)
        pair.agrees(reads())
        pair.verified()


def test_documents_of_another_order_are_not_taken_for_those_of_this_design(mongodb: Harness) -> None:
    url = mongodb.url()
    with opened(parsed(FORUM), url, rows(), forum()):
        assert keyplan.apply(parsed(FORUM), url, design=forum()) is not None
    other = parsed(FORUM.replace('"score desc", limit: 2', '"score", limit: 2'))
    with pytest.raises(DesignMismatchError, match="laid out for another design"):
        keyplan.apply(other, url)


def test_the_script_makes_what_apply_makes_and_pipelines_answer(mongodb: Harness) -> None:
    model = parsed(FORUM)
    url, other = mongodb.url(), mongodb.url()
    compare_pipelines(model, forum(), url)
    client: MongoClient[dict[str, Any]] = MongoClient(other)
    target = client.get_default_database()
    run_script(keyplan.emit(model, forum(), "mongosh")["test.mongosh.js"], target)
    assert described(target) == described(MongoClient(url).get_default_database())
    schemas = keyplan.emit(model, forum(), "json-schema")
    assert len(json.loads(schemas["test.Post.schema.json"])["oneOf"]) == 2


def test_comments_under_given_keys_are_refused_twice(mongodb: Harness, children_beside: None) -> None:
    """Their keys are in a collection besides, which holds nothing else."""
    model = parsed(discussion.MODEL.replace("as comments\n      author", "as comments, max 50000\n      author"))
    design = keyplan.design(model, "mongodb")
    assert design.homes["Comment"] == (design.homes["Post"][0], ("comments",))
    keys = [view.holds for view in design.views.values() if (view.entity, view.kind) == ("Comment", "collection")]
    assert keys == [("comment_id",)]
    with opened(model, mongodb.url(), discussion.rows(), design) as pair:
        for name, arguments in discussion.writes(300, 60):
            with contextlib.suppress(ArgumentError, ConflictError):
                pair.same(name, **arguments)
            pair.agrees(discussion.reads())
        pair.verified()


def test_writers_of_the_same_comments(mongodb: Harness) -> None:
    """Each moves them from post to post, up and down: none is lost, none is there twice."""
    with opened(parsed(FORUM), mongodb.url(), rows(), forum()) as pair:
        store = pair.store

        def write(writer: int) -> None:
            draw = random.Random(writer)
            for _ in range(20):
                one = f"{draw.randrange(9):026d}"
                with contextlib.suppress(ConflictError):
                    store.vote(comment_id=one, score=1)
                    store.move(comment_id=one, post=draw.randrange(POSTS))

        at_once(write)
        found = [row["comment_id"] for author in range(AUTHORS) for row in store.of_author(author_id=author).rows]
        assert sorted(found) == [f"{number:026d}" for number in range(9)]
        pair.verified()


# generated programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 10)

COUNTED: list[bool] = []
"""Per program that reads rows with the children beside them: whether some children live there alone."""


@pytest.fixture(autouse=True)
def some_share(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the generated programs would say nothing."""
    before = len(COUNTED)
    yield
    if request.node.originalname == "test_shared_collections_answer_as_the_reference":
        assert len(COUNTED) - before > EXAMPLES / 10
        assert any(COUNTED[before:])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_shared_collections_answer_as_the_reference(
    mongodb: Harness, children_beside: None, designs: Designs, data: st.DataObject
) -> None:
    """Generated programs on designs in which children are beside their parents; every view is compared at the end."""
    program = data.draw(families())
    model = replace(data.draw(statistics(program.model)), targets=mongodb.targets)
    design = designs.of(model, "mongodb")
    if any(search.along for plan in design.plans.values() for search in searches(plan.node)):
        COUNTED.append(any(at for _, at in design.homes.values()))
        run(program, model, mongodb.url(), design)
