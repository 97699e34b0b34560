"""Posts whose comments are in their documents up to a number, and apart as well: most are one read, giants are two."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

import keyplan
from keyplan.design.candidates import overflow
from keyplan.design.options import extras
from keyplan.engines.mongodb import fit
from keyplan.engines.work import Rejection
from keyplan.errors import ArgumentError, ConflictError
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Order, Param, Path, Pattern, Select, Traffic
from keyplan.plan.design import Design
from keyplan.plan.steps import Attach, Extend, Node
from keyplan.plan.view import Embed
from tests import discussion
from tests.conformance.pair import Pair, opened, parsed
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.harness import Harness
from tests.engines.mongodb.test_explain import Recorder, check
from tests.engines.mongodb.test_packed_writers import at_once
from tests.strategies.families import Extended
from tests.strategies.programs import operations, programs

ROOM = 3
"""Comments that a post's document has room for."""

WHOLE = """
  post: { find: Post, where: post_id = :post_id, with: [comments, comments.author.name], rate: 10k/s }
  best:
    find: Post
    where: post_id = :post_id
    with: { comments: { order: "score desc, body", select: [score, body] } }
    rate: 1k/s
  five: { find: Post, where: post_id = :post_id, with: { comments: { order: place desc, limit: 5 } }, rate: 1k/s }
  posts: { find: Post, order: post_id desc, with: [comments, comments.author.name], page: 2, rate: 1k/s }
  titled: { find: Post, where: title = :title, with: [comments], page: 2, rate: 1k/s }
"""


def model() -> Model:
    """The discussion with patterns that want every comment of a post, of which there may be very many."""
    head, _, rest = discussion.MODEL.partition("patterns:\n")
    for old, new in (
        ("10k", "10M"),
        ("1M", "10M"),
        ("as comments\n      author", "as comments, max 50000\n      author"),
    ):
        head = head.replace(old, new)
    _, _, rest = rest.partition("  comments: {")
    return parsed(f"{head}patterns:{WHOLE}  comments: {{{rest}")


@cache
def overflowing(lengths: tuple[int, ...] = (ROOM,)) -> Design:
    """Its design, in which documents have room for three comments; if no such forms are tried, for the first five by
    their place, which one of the patterns wants."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(overflow, "lengths", lambda *_: lengths)
        patched.setattr(fit, "_shared", lambda *_: Rejection("comments are inside their posts, or apart here"))
        design = keyplan.design(model(), "mongodb")
    embeds = design.views[design.homes["Post"][0]].embeds
    room, sort = (ROOM, ["comment_id"]) if lengths else (5, ["place desc", "comment_id desc"])
    assert [(one.role, one.limit, [str(part) for part in one.sort]) for one in embeds] == [("comments", room, sort)]
    assert design.homes["Comment"][1] == ()
    for name in ("post", "best", "five", "posts", "titled"):
        wanted = [room] if name != "five" or lengths else []
        assert [one.beyond for one in attached(design.plans[name].node) if one.many] == wanted, name
    return design


def attached(node: Node) -> Iterator[Attach]:
    """Everything that a plan adds to its rows."""
    if isinstance(node, Extend):
        for one in node.adds:
            yield one
            yield from attached(one.plan)
        yield from attached(node.rows)


def reads() -> list[discussion.Call]:
    of_posts = [(name, {"post_id": n}) for n in range(discussion.POSTS) for name in ("post", "best", "five")]
    return [*of_posts, ("posts", {}), *(("titled", {"title": text}) for text in ("new", "full", "p2", "t"))]


@contextlib.contextmanager
def discussed(url: str, lengths: tuple[int, ...] = (ROOM,)) -> Iterator[Pair]:
    with opened(model(), url, discussion.rows(), overflowing(lengths)) as pair:
        yield pair


@pytest.mark.parametrize("lengths", [(ROOM,), ()], ids=["room", "subset"])
@pytest.mark.parametrize("seed", range(2))
def test_every_comment_is_read_wherever_it_is(mongodb: Harness, seed: int, lengths: tuple[int, ...]) -> None:
    """Comments come, go, move and are changed; posts become full and have room again."""
    with discussed(mongodb.url(), lengths) as pair:
        numbers = set()
        for number, (name, arguments) in enumerate(discussion.writes(200 + seed, 120)):
            with contextlib.suppress(ArgumentError, ConflictError):
                pair.same(name, **arguments)
            pair.agrees(reads())
            found = (pair.store.post(post_id=post) for post in range(discussion.POSTS))
            numbers |= {len(post["comments"]) for post in found if post is not None}
            if number % 10 == 0:
                pair.verified()
        pair.verified()
        full = ROOM if lengths else 5
        assert min(numbers) < full < max(numbers)


def requests(pair: Pair, name: str, **arguments: Any) -> list[str]:
    """The views that a call reads, one for each request."""
    _, told = getattr(pair.store, name)(**arguments, explain=True)
    return [step["view"] for step in told.steps for _ in range(step["requests"])]


def documents(url: str) -> Any:
    client: MongoClient[dict[str, Any]] = MongoClient(url)
    return client.get_default_database()[overflowing().homes["Post"][0]]


def test_only_full_documents_lead_to_a_second_read(mongodb: Harness) -> None:
    url = mongodb.url()
    with discussed(url) as pair:
        post = overflowing().homes["Post"][0]
        assert requests(pair, "post", post_id=1) == [post]
        first, second, *_ = requests(pair, "post", post_id=2)
        assert first == post
        assert second.startswith("Comment by post, ")  # any index that begins with the post would do
        assert [one["comment_id"] for one in documents(url).find_one({"_id": 2})["comments"]] == [2, 3, 4]
        for number in range(5, 9):
            pair.same("erase", comment_id=number)
        pair.same("erase", comment_id=2)
        assert requests(pair, "post", post_id=2) == [post]
        pair.agrees(reads())


def test_every_find_uses_its_index_and_examines_nothing_in_vain(mongodb: Harness) -> None:
    """As the server says; full documents and others."""
    with discussed(mongodb.url()) as pair:
        recorder = Recorder(pair.store)
        for name, arguments in reads():
            getattr(pair.store, name)(**arguments)
        by_index = {find.hint for find in recorder.finds}
        assert "post_place" in by_index
        for find in recorder.finds:
            check(recorder.link, find)


def test_a_giant_has_its_first_comments_in_the_document_and_is_read_whole(mongodb: Harness) -> None:
    url = mongodb.url()
    with discussed(url) as pair:
        pair.load([("Comment", discussion.comment(n, 1, n % 97)) for n in range(100, 2600)])
        pair.agrees(reads())
        assert len(documents(url).find_one({"_id": 1})["comments"]) == ROOM
        assert len(pair.store.post(post_id=1)["comments"]) == 2502
        pair.same("purge", post_id=1)
        pair.agrees(reads())
        pair.verified()


@pytest.mark.parametrize("what", ["missing", "extra", "wrong"])
def test_verify_finds_and_mends(mongodb: Harness, what: str) -> None:
    """A full document that has lost a comment would be taken for one that has them all."""
    url = mongodb.url()
    with discussed(url) as pair:
        change: dict[str, Any] = {
            "missing": {"$pull": {"comments": {"comment_id": 3}}},
            "wrong": {"$set": {"comments.1.author_name": "nobody"}},
            "extra": {"$set": {"comments.0.comment_id": 0}},
        }[what]
        documents(url).update_one({"_id": 2}, change)
        report = pair.store.verify().views[overflowing().homes["Post"][0]]
        assert (report.missing, report.extra, report.wrong) == (what != "wrong", what == "extra", what == "wrong")
        pair.store.verify(repair=True)
        pair.agrees(reads())
        pair.verified()


def test_writers_below_one_post(mongodb: Harness) -> None:
    """Several at once fill and empty it: what is read meanwhile is there, and in the end it is what it should be."""
    with discussed(mongodb.url()) as pair:
        store = pair.store

        def write(writer: int) -> None:
            mine = range(1000 + 100 * writer, 1006 + 100 * writer)
            for _ in range(3):
                for number in mine:
                    store.say(**discussion.comment(number, 1, writer))
                    found = {one["comment_id"] for one in store.post(post_id=1)["comments"]}
                    assert {0, 1, *range(mine[0], number + 1)} <= found
                for number in mine:
                    store.erase(comment_id=number)
                    found = {one["comment_id"] for one in store.post(post_id=1)["comments"]}
                    assert found.isdisjoint(range(mine[0], number + 1))

        at_once(write)
        assert [one["comment_id"] for one in store.post(post_id=1)["comments"]] == [0, 1]
        pair.agrees(reads())
        pair.verified()


# generated programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 10)


COUNTED: list[int] = []


@pytest.fixture(autouse=True)
def some_overflow(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the generated programs would say nothing."""
    before = len(COUNTED)
    yield
    if request.node.originalname == "test_overflowing_children_answer_as_the_reference":
        assert len(COUNTED) - before > EXAMPLES / 10


def with_all_children(draw: st.DrawFn, model: Model) -> Model:
    """The model with patterns per to-many role that take all children, or more than there is room for, of one row and
    of all rows in pages."""
    patterns = dict(model.patterns)
    for entity in model.entities.values():
        where = tuple(Condition(Path((), column), "=", (Param(column),)) for column in entity.key)
        params = {column: entity.columns[column].type for column in entity.key}
        order = tuple(Order(Path((), column)) for column in entity.key)
        for role in entity.roles.values():
            if role.many:
                child = model.entities[role.entity]
                shown = tuple(column for column in child.stored if not child.columns[column].hidden)
                able = [None, *(one for one in shown if child.columns[one].type.is_ordered)]
                by = draw(st.sampled_from(able))
                sorts = () if by is None else (Order(Path((), by), draw(st.booleans())),)
                select = Select(
                    entity.key, {role.name: Select(shown, {}, sorts, draw(st.sampled_from([None, None, 4])))}
                )
                one = Pattern(f"all_{role.name}_of_{entity.name}", "find", entity.name, where, select=select)
                one = replace(one, one=True, traffic=Traffic(1000.0), params=params)
                many = replace(one, name=f"pages_{role.name}_of_{entity.name}", where=(), order=order, params={})
                many = replace(many, one=False, page=2)
                patterns |= {one.name: one, many.name: many}
    return replace(model, patterns=patterns)


@st.composite
def extended(draw: st.DrawFn) -> Extended:
    program = draw(programs())
    more = with_all_children(draw, program.model)
    assume(len(more.patterns) > len(program.model.patterns))  # without children there is nothing to see here
    called = draw(operations(more, program.rows, 24))
    return Extended(program.model_text, program.rows, called, more)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_overflowing_children_answer_as_the_reference(
    mongodb: Harness, first_children_embedded: None, data: st.DataObject
) -> None:
    """Generated programs on designs in which documents have room for one or two children; every view is compared."""
    program = data.draw(extended())
    model = replace(data.draw(statistics(program.model)), targets=mongodb.targets)
    room = data.draw(st.integers(1, 2))

    def lengths(about: Any, entity: str, embed: Embed, wanted: float) -> list[int]:
        able = model.entities[embed.entity].ttl is None and embed.entity != entity and bool(embed.sort)
        return [room] if able and room < wanted else []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(overflow, "lengths", lengths)
        patched.setattr(extras, "chance_of_more", lambda *_: 0.01)  # as few as there are, documents are often full
        design = keyplan.design(model, "mongodb", advise=False)
        full = [one for plan in design.plans.values() for one in attached(plan.node) if one.beyond is not None]
        if full:
            COUNTED.append(len(full))
            run(program, model, mongodb.url(), design)
