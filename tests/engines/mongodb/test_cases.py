"""What an expert would choose for four well-known cases, and what turns each choice round: the statistics alone."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.design.problem.build import build_problem
from keyplan.engines import get_engine
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.view import View
from tests.examples_data import designs as examples

EXAMPLES = Path(__file__).parents[3] / "examples"


@cache
def designed(name: str, *changes: tuple[str, str]) -> tuple[Model, Design]:
    """The design of an example, its text changed; each change has to be there to be made."""
    if not changes:
        return examples.example(name), examples.designed(name, "mongodb")
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    model = keyplan.parse_model(text, file=f"{name}.yaml")
    return model, keyplan.design(model, "mongodb")


def embedded(design: Design, entity: str) -> bool:
    """Whether the rows of an entity live inside their parents' documents."""
    view, at = design.homes[entity]
    return bool(at) and design.views[view].kind != "shared"


def beside(design: Design, entity: str) -> list[str]:
    """How rows of an entity are sorted behind their parents, in whose collection they are; nothing if they are not."""
    view, at = design.homes[entity]
    shared = design.views[view].kind == "shared" and bool(at)
    return [str(part) for part in design.views[view].embeds[0].sort] if shared else []


def copies(design: Design, entity: str) -> set[str]:
    """What the documents of an entity repeat of others."""
    view, _ = design.homes[entity]
    return {path for path in design.views[view].holds if "." in path}


def requests(design: Design, pattern: str) -> float:
    return design.plans[pattern].figures.requests


# a shop

POPULAR = ("rate: 100k/day\n    p99: 10ms", "rate: 1k/s\n    p99: 10ms")
"""Order pages that are looked at a thousand times a second."""


def documents_embed(design: Design, entity: str) -> set[str]:
    """The roles whose rows stand in the documents of an entity."""
    return {embed.role for embed in design.views[design.homes[entity][0]].embeds}


def test_an_order_is_one_document_with_its_items_and_its_address() -> None:
    _, design = designed("shop")
    assert documents_embed(design, "Order") == {"items"}
    assert {"ship_street", "ship_city"} <= set(design.views[design.homes["Order"][0]].holds)


def test_embedded_items_are_found_by_product_through_an_index_over_the_array() -> None:
    _, design = designed("shop")
    found = [view for view in design.views.values() if view.kind == "elements"]
    assert [(view.entity, view.partition[0].path, view.base) for view in found] == [
        ("Item", "product", design.homes["Order"][0])
    ]


def test_items_come_along_with_orders_that_are_found_by_an_index() -> None:
    """The index leads to the documents, and these have the items in them: no second read brings them."""
    _, design = designed("shop")
    steps = [(step["op"], step["view"]) for step in design.plans["order_history"].steps]
    assert [op for op, _ in steps] == ["query", "batch_get"]
    assert design.views[str(steps[0][1])].kind == "index"
    assert steps[1][1] == design.homes["Product"][0]


def test_placing_an_order_writes_one_document_for_it() -> None:
    """The parent and its items are one insert; what is kept besides for other patterns makes it a transaction."""
    _, design = designed("shop")
    units = {touch.view: touch.units.get("documents written", 0.0) for touch in design.writes["place_order"].touches}
    order = design.homes["Order"][0]
    assert units[order] == pytest.approx(1.0, abs=0.01) or units[order] == 0.0


def test_more_items_than_an_array_should_have_are_documents_of_their_own() -> None:
    """Where order pages are looked at far more often than orders are placed, those of nearly all are in their documents
    as well."""
    _, design = designed("shop", ("as items, max 40 ", "as items, max 5000 "))
    assert not embedded(design, "Item")
    assert not design.views[design.homes["Order"][0]].embeds
    # Not that there is nothing but a scan; an order with its items beside it would be read by one find.
    assert re.match("reading '(Order|Item)' takes", design.unserved["order_page"].reason)
    popular = (POPULAR[0], "rate: 1k/s\n    p99: 100ms")
    _, design = designed("shop", ("as items, max 40 ", "as items, max 5000 "), popular)
    assert not beside(design, "Item")
    assert [str(embed) for embed in design.views[design.homes["Order"][0]].embeds] == ["first 50 items"]
    allowed = ("name: shop", "name: shop\ntargets: { mongodb: { array_elements: 10000, document_bytes: 8MB } }")
    _, design = designed("shop", ("as items, max 40 ", "as items, max 5000 "), allowed)
    assert [str(embed) for embed in design.views[design.homes["Order"][0]].embeds] == ["items"]


def test_names_are_fetched_for_pages_that_are_as_rare_as_orders_and_copied_for_popular_ones() -> None:
    """A copy is checked against its source when the order is placed, which costs as much as fetching it once."""
    _, design = designed("shop")
    assert "user.name" not in copies(design, "Order")
    _, design = designed("shop", POPULAR)
    assert "user.name" in copies(design, "Order")
    assert requests(design, "order_page") < 3


def test_a_name_that_changes_all_the_time_is_fetched() -> None:
    renamed = 'set: [name], where: "user_id = :user_id", rate: '
    _, design = designed("shop", POPULAR, (f"{renamed}100/day", f"{renamed}5k/s"))
    assert "user.name" not in copies(design, "Order")


# a blog


def test_comments_of_a_viral_post_are_documents_of_their_own() -> None:
    """60,000 comments on one post: nothing bounds them, so that no array holds them."""
    _, design = designed("blog")
    assert not embedded(design, "Comment")
    assert requests(design, "comments") == 1


def newest_comments(design: Design) -> list[tuple[str, int | None, list[str]]]:
    """What the documents of posts have of their comments."""
    embeds = design.views[design.homes["Post"][0]].embeds
    return [(embed.role, embed.limit, [str(part) for part in embed.sort]) for embed in embeds]


def test_the_newest_comments_are_in_the_document_of_the_post() -> None:
    """Fifty of them, with the names of those who wrote them: the page of a post is one read, be it a viral one."""
    _, design = designed("blog")
    assert newest_comments(design) == [("comments", 50, ["created_at desc", "comment_id desc"])]
    assert "author.name" in design.views[design.homes["Post"][0]].embeds[0].holds
    assert requests(design, "post") == 1
    assert "Post.comments" in design.refills


@pytest.mark.parametrize(
    "changes",
    [
        (("rate: 500/s\n", "rate: 1/h\n"),),
        (("comment: { create: Comment, rate: 24k/day", "comment: { create: Comment, rate: 240M/day"),),
        (("body: text(200), max 5000", "body: text(60000), max 100000"),),
        (("name: blog", "name: blog\ntargets: { mongodb: { array_elements: 10 } }"),),
        (("count: 24M  ", "count: 24M\n    ttl: 365d  "),),
    ],
    ids=["rarely read", "often written", "large", "longer than wanted", "expiring"],
)
def test_the_newest_comments_are_apart_when_that_is_better(changes: tuple[tuple[str, str], ...]) -> None:
    _, design = designed("blog", *changes)
    assert not newest_comments(design)
    assert not design.refills


def test_arrays_that_are_to_be_shorter_than_a_page_have_all_comments_of_most_posts() -> None:
    _, design = designed("blog", ("name: blog", "name: blog\ntargets: { mongodb: { array_elements: 20 } }"))
    assert newest_comments(design) == [("comments", 20, ["comment_id"])]
    assert 1 < requests(design, "post") < 1.3


def test_the_number_of_comments_is_kept() -> None:
    """In the post's own document, so that no page of posts looks for it elsewhere."""
    _, design = designed("blog")
    assert "comment_count" in design.views[design.homes["Post"][0]].holds
    assert requests(design, "newest") == 1


def test_an_index_that_keeps_values_unique_finds_rows_too() -> None:
    _, design = designed("blog")
    over = [view.parts[0].path for view in design.views.values() if view.entity == "Post" and view.kind == "index"]
    assert over.count("slug") == 1


def test_the_number_of_comments_is_counted_when_it_is_asked_for_rarely() -> None:
    rare = [(f"rate: {rate}\n", "rate: 1/day\n") for rate in ("500/s", "100/s", "50/s")]
    often = ("comment: { create: Comment, rate: 24k/day", "comment: { create: Comment, rate: 24M/day")
    patient = [(f"p99: {budget}", "p99: 10m") for budget in ("50ms", "100ms")]
    _, design = designed("blog", *rare, often, *patient)
    assert not [view for view in design.views.values() if view.measures and view.entity == "Comment"]


# sensors


def packed(design: Design, entity: str) -> list[list[str]]:
    """The partitions of the entity's packed views."""
    found = (view for view in design.views.values() if view.packed and view.entity == entity)
    return [[str(part) for part in view.partition] for view in found]


def test_readings_of_an_hour_are_one_document_for_who_wants_a_week_of_them() -> None:
    """The newest ones, whenever they were, are still found in the order of the home's key."""
    _, design = designed("sensors")
    view, at = design.homes["Reading"]
    assert (at, [str(part) for part in design.views[view].parts]) == ((), ["sensor", "at"])
    assert requests(design, "readings_between") == 1
    assert packed(design, "Reading") == [["sensor", "hour(at)"]]
    steps = [design.views[str(step["view"])] for step in design.plans["by_hour"].steps if step["op"] == "query"]
    assert [(view.kind, view.packed) for view in steps] == [("totals", False), ("collection", True)]
    assert steps[0].base == steps[1].name
    figures = design.plans["by_hour"].figures
    assert figures.units["documents"] == pytest.approx(169, abs=0.5)
    assert figures.bytes < 50_000  # 167 hours as they come to, and the readings of two


def test_totals_are_candidates_for_aggregates_alone() -> None:
    """Those of a partition for each form in which its rows can be packed, and of nothing else."""

    def totals(name: str) -> list[View]:
        model, _ = designed(name)
        views = build_problem(model, get_engine("mongodb")).problem.views.values()
        return [view for view in views if view.kind == "totals"]

    assert totals("social") == []
    assert [[str(part) for part in view.parts] for view in totals("sensors")] == [["sensor", "hour(at)"]]
    assert all(view.measures for view in totals("sensors"))


HOURS = """
  hours:
    from: Reading
    compute: {{ low: min(value), high: max(value), total: sum(value) }}
    group: {{ hour: hour(at) }}
    where: meter = :meter and at between :start and :end
    rows: 1000
    rate: HOURS
writes:
  correct: {{ update: Reading, set: [value], where: "meter = :meter and at = :at", rate: CORRECTIONS }}
"""


def test_hours_whose_readings_are_corrected_all_the_time_have_no_totals() -> None:
    """Who wants a day of readings has them as documents all the same."""

    def kept(corrections: str, hours: str) -> list[str]:
        more = HOURS.replace("CORRECTIONS", corrections).replace("HOURS", hours)
        text = METERS.replace("writes:\n", more)
        text = text.format(readings="100M", reads="500/s", writes="15/s", ttl="ttl: 70d", note=20, targets="")
        views = keyplan.design(keyplan.parse_model(text), "mongodb").views.values()
        return sorted({view.kind for view in views if view.packed or view.measures})

    assert kept("1/h", "10/s") == ["collection", "totals"]
    assert kept("50/s", "10/s") == ["collection"]
    assert kept("50/s", "1k/s") == ["collection", "totals"]


def test_readings_of_an_hour_are_not_packed_for_who_asks_once_an_hour() -> None:
    _, design = designed("sensors", ("rate: 50/s\n    p99: 200ms", "rate: 1/h\n    p99: 200ms"))
    assert packed(design, "Reading") == []


# a social network


def test_posts_repeat_the_handle_of_their_author_and_are_found_by_multikey_index() -> None:
    _, design = designed("social")
    assert "user.handle" in copies(design, "Post")
    hashtags = [view for view in design.views.values() if any(part.cut == "each" for part in view.parts)]
    assert [view.kind for view in hashtags] == ["index"]
    assert requests(design, "posts_by_hashtag") == 1


def test_a_handle_that_changes_is_fetched() -> None:
    _, design = designed(
        "social", ("rename: { update: User, set: [name]", "rename: { update: User, set: [name, handle]"),
        ("rate: 5k/day }", "rate: 1k/s }"),
    )  # fmt: skip
    assert "user.handle" not in copies(design, "Post")


# embedding by itself

THREADS = """
keyplan: 1
name: threads
entities:
  Thread:
    count: 1M
    fields: {{ thread_id: "uuid, key", title: string(40) }}
  Reply:
    count: {replies}
    key: [thread, number]
    fields:
      thread: Thread, as replies{bound}
      number: int
      text: text({size})
patterns:
  thread:
    find: Thread
    where: thread_id = :thread_id
    with: [{{ replies: {{ order: number, limit: 200 }} }}]
    rate: {reads}
writes:
  begin: {{ create: Thread, rate: 1/s }}
  reply: {{ create: Reply, rate: {writes} }}
"""


def thread(
    *, replies: str = "50M", bound: str = ", max 200", size: int = 100, reads: str = "100/s", writes: str = "10/s"
) -> Design:
    text = THREADS.format(replies=replies, bound=bound, size=size, reads=reads, writes=writes)
    return keyplan.design(keyplan.parse_model(text), "mongodb")


def replies_are_embedded(**figures: Any) -> bool:
    return embedded(thread(**figures), "Reply")


def test_what_is_read_together_is_kept_together() -> None:
    assert replies_are_embedded()


def test_what_is_written_far_more_often_than_read_is_a_document_of_its_own() -> None:
    """A reply that is added to an array rewrites all of it; behind its thread it is found with it all the same."""
    often = thread(reads="50/s", writes="1k/s")
    assert not embedded(often, "Reply")
    assert beside(often, "Reply") == ["number"]


def test_what_has_no_bound_is_kept_apart() -> None:
    assert not replies_are_embedded(bound="")


def test_what_would_be_a_large_document_is_several() -> None:
    assert not replies_are_embedded(size=20_000)


# all comments of a post, of which most have few

JOURNAL = """
keyplan: 1
name: journal
{targets}
entities:
  Author: {{ count: 100k, fields: {{ author_id: "int, key", name: string(20) }} }}
  Post: {{ count: 1M, fields: {{ post_id: "ulid, key", title: string(60) }} }}
  Comment:
    count: {comments}
    {ttl}
    fields:
      comment_id: ulid, key
      post: Post, as comments, max {most}
      author: Author
      body: text({size})
      created_at: timestamp, now
patterns:
  post: {{ find: Post, where: "post_id = :post_id", with: [comments, comments.author.name], rate: {reads} }}
writes:
  publish: {{ create: Post, rate: 1/s }}
  comment: {{ create: Comment, rate: {writes} }}
  erase: {{ delete: Comment, where: "comment_id = :comment_id", rate: 100/day }}
"""


def journal(
    *,
    comments: str = "12M",
    most: int = 50_000,
    size: int = 200,
    reads: str = "500/s",
    writes: str = "5/s",
    ttl: str = "",
    targets: str = "",
) -> tuple[list[str], float]:
    """What the documents of posts have of their comments, and how many requests a post takes on average."""
    given = {"comments": comments, "most": most, "size": size, "reads": reads, "writes": writes, "ttl": ttl}
    model = keyplan.parse_model(JOURNAL.format(targets=targets, **given))
    design = keyplan.design(model, "mongodb")
    view = design.views[design.homes["Post"][0]]
    kept = [f"{embed} behind it" if view.kind == "shared" else str(embed) for embed in view.embeds]
    return kept, requests(design, "post")


def test_comments_are_in_the_document_of_their_post_as_far_as_nearly_every_post_goes() -> None:
    """Twelve on average, 50,000 on the viral one: the usual post is one read, the viral one two."""
    kept, each = journal()
    assert kept == ["first 200 comments"]
    assert 1 < each < 1.01


def test_few_comments_are_in_the_document_all_of_them() -> None:
    assert journal(most=100) == (["comments"], 1)


def test_comments_are_apart_if_all_posts_have_very_many() -> None:
    """Two thousand on average: nearly every document would be full."""
    kept, each = journal(comments="2000M")
    assert kept == []
    assert each >= 2


@pytest.mark.parametrize(
    "changes",
    [{"reads": "1/s", "writes": "50/s"}, {"size": 60_000}, {"ttl": "ttl: 365d"}],
    ids=["rarely read", "large", "expiring"],
)
def test_comments_are_documents_behind_their_post_when_that_is_better(changes: dict[str, Any]) -> None:
    assert journal(**changes)[0] == ["comments behind it"]


# rows and their children in one collection

TALK = """
keyplan: 1
name: talk
{targets}
entities:
  Post: {{ count: 1M, fields: {{ post_id: "ulid, key", title: string(60) }} }}
  Comment:
    count: 100M
    {ttl}
    fields:
      comment_id: ulid, key
      post: Post, as comments
      body: text(200)
      created_at: timestamp, now
patterns:
  post:
    find: Post
    where: {by} = :{by}
    with: {{ comments: {{ order: {order}, limit: 200 }} }}
    rate: {reads}
writes:
  publish: {{ create: Post, rate: 100/day }}
  comment: {{ create: Comment, rate: {writes} }}
  erase: {{ delete: Comment, where: "comment_id = :comment_id", rate: {erases} }}
"""


def talk(
    *,
    by: str = "post_id",
    order: str = "created_at desc",
    reads: str = "500/s",
    writes: str = "800/s",
    erases: str = "100/day",
    ttl: str = "",
    targets: str = "",
) -> tuple[list[str], str, float]:
    """How comments stand behind their posts, what posts have of them in their documents, and what a post takes."""
    given = {"by": by, "order": order, "reads": reads, "writes": writes, "erases": erases}
    design = keyplan.design(keyplan.parse_model(TALK.format(ttl=ttl, targets=targets, **given)), "mongodb")
    view = design.views[design.homes["Post"][0]]
    inside = [str(embed) for embed in view.embeds if view.kind != "shared"]
    return beside(design, "Comment"), ", ".join(inside), requests(design, "post")


def test_comments_that_come_all_the_time_stand_behind_their_post_in_the_order_they_are_wanted_in() -> None:
    """200 of them in an array would be sorted at each comment; in a collection of their own they were a second find."""
    assert talk() == (["created_at desc", "comment_id desc"], "", 1)
    assert talk(order="created_at") == (["created_at", "comment_id"], "", 1)


def test_comments_are_in_the_document_of_their_post_if_few_come() -> None:
    assert talk(writes="5/s") == ([], "first 200 comments", 1)
    short = talk(writes="5/s", targets="targets: { mongodb: { array_elements: 50 } }")
    assert short == (["created_at desc", "comment_id desc"], "", 1)


@pytest.mark.parametrize(
    "changes",
    [{"erases": "700/s"}, {"reads": "1/h"}, {"by": "title"}],
    ids=["found by their own key", "rarely read", "not by the key of the post"],
)
def test_comments_have_a_collection_of_their_own_when_that_is_better(changes: dict[str, Any]) -> None:
    """A comment behind its post is found by its own key through an index, which leads to its `_id`."""
    assert talk(**changes) == ([], "", 2)


def test_comments_that_expire_are_behind_their_post_as_well() -> None:
    """Where some of the first 200 are out of date, as many more are read."""
    assert talk(ttl="ttl: 365d") == talk()


def test_fewer_comments_are_in_the_document_if_they_are_large_or_arrays_are_to_be_short() -> None:
    assert journal(size=8000)[0] == ["first 50 comments"]
    assert journal(targets="targets: { mongodb: { array_elements: 40 } }")[0] == ["first 20 comments"]


LONELY = """
keyplan: 1
name: lonely
entities:
  Bee: { count: 3M, fields: { k: "int, key", a: string(40), n: min(cats.a) } }
  Cat: { count: 30M, fields: { id: "int, key", bee: "Bee, as cats", a: int } }
patterns:
  lonely: { find: Bee, where: missing(n), limit: 20, rate: 10k/s }
writes:
  new_bee: { create: Bee, rate: 1/day }
  new_cat: { create: Cat, rate: 1/day }
"""


def test_documents_hold_the_computed_value_that_an_index_over_them_tests() -> None:
    model = keyplan.parse_model(LONELY)
    design = keyplan.design(model, "mongodb")
    assert [str(c.path) for view in design.views.values() if view.kind == "index" for c in view.where] == ["n"]
    assert "n" in design.views[design.homes["Bee"][0]].holds


# packing by itself

METERS = """
keyplan: 1
name: meters
{targets}
entities:
  Meter: {{ count: 1k, fields: {{ meter_id: "int, key", name: string(20) }} }}
  Reading:
    count: {readings}
    key: [meter, at]
    {ttl}
    fields:
      meter: Meter, as readings
      at: timestamp
      value: decimal(2)
      note: string({note})
patterns:
  day: {{ find: Reading, where: "meter = :meter and day(at) = :day", order: at, page: 2000, rate: {reads} }}
  one: {{ find: Reading, where: "meter = :meter and at = :at", rate: 1/s }}
writes:
  report: {{ create: Reading, rate: {writes} }}
"""


def packed_by(
    *,
    readings: str = "100M",
    reads: str = "50/s",
    writes: str = "15/s",
    ttl: str = "ttl: 70d",
    note: int = 20,
    targets: str = "",
) -> list[str] | None:
    """How the readings are cut into documents, if they are; their partition."""
    text = METERS.format(readings=readings, reads=reads, writes=writes, ttl=ttl, note=note, targets=targets)
    design = keyplan.design(keyplan.parse_model(text), "mongodb")
    found = [view for view in design.views.values() if view.packed and view.entity == "Reading"]
    return [str(part) for part in found[0].partition] if found else None


def test_readings_that_are_read_by_the_day_are_documents_of_an_hour() -> None:
    assert packed_by() == ["meter", "hour(at)"]
    assert packed_by(ttl="") == ["meter", "hour(at)"]


def test_readings_that_are_rarely_read_or_come_all_the_time_are_documents_of_their_own() -> None:
    assert packed_by(reads="1/h") is None
    assert packed_by(writes="15k/s") is None


def test_how_long_the_time_of_a_document_is_follows_from_reads_and_writes() -> None:
    large = "targets: { mongodb: { packed_bytes: 8MB } }"
    assert packed_by(targets=large) == ["meter", "day(at)"]
    assert packed_by(targets=large, reads="5/s") == ["meter", "hour(at)"]
    assert packed_by(targets=large, writes="50/s") == ["meter", "hour(at)"]


def test_the_largest_document_stays_within_the_target() -> None:
    assert packed_by(note=500) is None
    assert packed_by(note=500, targets="targets: { mongodb: { packed_bytes: 1MB } }") == ["meter", "hour(at)"]


PAGES = """
keyplan: 1
name: pages
entities:
  Video: {{ count: 5M, fields: {{ vid: "int, key", name: string(20) }} }}
  Comment:
    count: 100M
    fields:
      cid: ulid, key
      video: Video, as comments{limit}, immutable
      text: text(60)
patterns:
  comments: {{ find: Comment, where: "video = :video", rate: 5k/s }}
writes:
  comment: {{ create: Comment, rate: 1/s }}
"""


def test_what_may_grow_for_ever_is_not_packed() -> None:
    """However few there are on average: the one with a million of them would not fit a document."""
    packed = {}
    for limit in ("", ", max 100"):
        design = keyplan.design(keyplan.parse_model(PAGES.format(limit=limit)), "mongodb")
        packed[limit] = [str(view.partition[0]) for view in design.views.values() if view.packed]
    assert packed == {"": [], ", max 100": ["video"]}
