"""What writes do to views: entries put, patched, moved and deleted, and what has to be read for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import CHECK
from keyplan.design.upkeep.effects import Upkeep
from keyplan.engines import get_engine
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition
from keyplan.plan.view import COPIES, Embed, Part
from tests.unit.design.nouns import SHOP, model_of, upkeep, view

WRITES = """
place: { create: Order, rate: 1/s }
ship: { update: Order, set: { status: shipped }, where: "order_id = :id", if: "status = 'pending'", rate: 1/s }
reprice: { update: Order, set: [total], where: "order_id = :id", rate: 1/s }
flag: { update: Order, set: [flagged], where: "order_id = :id", rate: 1/s }
drop: { delete: Order, where: "order_id = :id", rate: 1/s }
save: { upsert: Order, rate: 1/s }
rename: { update: User, set: [name], where: "user_id = :id", rate: 1/s }
drop_user: { delete: User, where: "user_id = :id", rate: 1/s }
place_all: { create: Order, with: [items], rate: 1/s }
"""


def shop() -> Model:
    return model_of(SHOP, "p: { find: Order, where: \"status = 'pending'\", order: created_at, page: 10 }", WRITES)


def one(parts: list[Upkeep]) -> Upkeep:
    """The part that changes entries; others only check, or record an intent."""
    (found,) = [part for part in parts if part.cost.units or part.demands]
    return found


def checks(parts: list[Upkeep]) -> float:
    """Entries that are checked or noted along; in a transaction each takes two units."""
    return sum(check.cost.units["write units"] / 2 for part in parts for check in part.checks)


def demands(part: Upkeep) -> list[tuple[str, float]]:
    return [(demand.what, demand.times) for demand in part.demands]


def test_a_create_puts_one_entry_per_view() -> None:
    model = shop()
    part = one(upkeep(model, "place", view(model, "user | created_at, order_id")))
    assert (part.work.puts, part.entries, part.demands) == (1, 1, ())


def test_a_moved_entry_counts_twice_and_needs_the_old_row() -> None:
    model = shop()
    part = one(upkeep(model, "reprice", view(model, "user | total, order_id")))
    assert (part.work.moves, part.work.patches) == (1, 0)
    assert part.entries == 2
    assert part.cost.units["write units"] == 2
    assert demands(part) == [("old", 1)]


def test_an_entry_under_the_entitys_key_is_patched_blindly() -> None:
    model = shop()
    part = one(upkeep(model, "reprice", view(model, "order_id")))
    assert (part.work.patches, part.entries, part.demands) == (1, 1, ())


def test_an_entry_elsewhere_is_found_through_the_old_row() -> None:
    model = shop()
    assert demands(one(upkeep(model, "reprice", view(model, "user | order_id")))) == [("old", 1)]
    assert demands(one(upkeep(model, "drop", view(model, "user | order_id")))) == [("old", 1)]
    assert demands(one(upkeep(model, "drop", view(model, "order_id")))) == []


def test_a_view_that_does_not_hold_what_changes_is_left_alone() -> None:
    model = shop()
    assert upkeep(model, "reprice", view(model, "user | order_id", holds=("order_id", "user"))) == []


def test_an_index_that_the_engine_keeps_costs_no_entries_of_ours() -> None:
    model = shop()
    part = one(upkeep(model, "reprice", view(model, "| total, order_id", kind="index"), "sqlite"))
    assert (part.work.moves, part.entries, part.demands) == (1, 0, ())


def test_a_sparse_entry_is_written_by_the_share_of_rows_that_have_it() -> None:
    """One in a hundred orders is flagged; as updates may flag all of these, few are at first."""
    model = shop()
    seen = view(model, "| flagged, order_id")
    assert one(upkeep(model, "place", seen)).work.puts == pytest.approx(0.001)
    writes = {name: write for name, write in model.writes.items() if name != "flag"}
    assert one(upkeep(replace(model, writes=writes), "place", seen)).work.puts == pytest.approx(0.01)


def test_every_row_is_created_with_its_default() -> None:
    model = shop()
    pending = view(model, "| created_at, order_id", where=model.patterns["p"].where)
    assert one(upkeep(model, "place", pending)).work.puts == pytest.approx(1.0)


def test_leaving_a_condition_deletes_the_entry() -> None:
    model = shop()
    pending = view(model, "| created_at, order_id", where=model.patterns["p"].where)
    part = one(upkeep(model, "ship", pending))
    assert (part.work.puts, part.work.moves, part.work.deletes) == (0, 0, pytest.approx(1.0))


def test_a_copied_value_fans_out() -> None:
    model = shop()
    seen = view(model, "order_id", holds=("order_id", "user", "user.name"))
    part = one(upkeep(model, "rename", seen))
    assert part.work.patches == pytest.approx(20)
    assert demands(part) == [("old", 1), ("fan", 2)], "the row; its copies before the write, and behind it"
    assert checks(upkeep(model, "rename", seen)) == 1.5, "an intent in the transaction, and its removal"
    assert checks(upkeep(model, "reprice", seen)) == 0
    keyed = view(model, "user.name | order_id", holds=("order_id", "user", "user.name"))
    assert one(upkeep(model, "rename", keyed)).work.moves == pytest.approx(20)


def test_a_copied_value_is_read_when_the_row_is_created() -> None:
    model = shop()
    seen = view(model, "order_id", holds=("order_id", "user", "user.name"))
    parts = upkeep(model, "place", seen)
    assert demands(one(parts)) == [("copy", 1)]
    assert checks(parts) == 1, "that the value is still the same"
    assert sum(part.entries for part in parts) == 2, "and so it is a transaction"


POSTS = """
User: { count: 1M, fields: { user_id: "ulid, key", name: string(20) } }
Post: { count: 20M, fields: { post_id: "ulid, key", user: "User, as posts", content: text(200) } }
Entry: { count: 100M, key: [of, post], fields: { of: string(8), post: Post } }
"""
RENAME = '\nrename: { update: User, set: [name], where: "user_id = :id", rate: 1/s }'
HAND_OVER = '\nhand_over: { update: Post, set: [user], where: "post_id = :id", rate: 1/s }'
EDIT = '\nedit: { update: Post, set: [content], where: "post_id = :id", rate: 1/s }'


@pytest.mark.parametrize(
    ("writes", "checked"),
    [
        ("", 0),  # nobody changes anything
        (RENAME, 1),
        (EDIT, 1),
        (HAND_OVER, 1),
        (HAND_OVER + EDIT, 1),  # of the same row
        (RENAME + HAND_OVER, 2),
    ],
)
def test_rows_that_values_are_copied_from_are_checked_where_they_may_change(writes: str, checked: int) -> None:
    """As `check_row` of the store does, at every reference on the way."""
    model = model_of(POSTS, "p: { find: Entry, limit: 10 }", f"add: {{ create: Entry, rate: 1/s }}{writes}")
    seen = view(model, "of | post", entity="Entry", holds=("of", "post", "post.content", "post.user.name"))
    assert checks(upkeep(model, "add", seen)) == checked


def test_whoever_gives_a_key_may_have_been_referred_to_before() -> None:
    """Rows may refer to one that is not there yet, and copy its values once it is."""
    for key, expected in (("uuid", []), ("string(8)", [("fan", 2)])):
        entities = SHOP.replace("user_id: uuid, key", f"user_id: {key}, key")
        model = model_of(entities, "p: { find: Order, limit: 10 }", "join: { create: User, rate: 1/s }")
        seen = view(model, "order_id", holds=("order_id", "user", "user.name"))
        assert [demand for part in upkeep(model, "join", seen) for demand in demands(part)] == expected


def test_a_row_that_is_deleted_takes_its_copies_along() -> None:
    model = shop()
    seen = view(model, "order_id", holds=("order_id", "user", "user.name"))
    assert one(upkeep(model, "drop_user", seen)).work.patches == pytest.approx(20)


def test_children_are_written_as_often_as_there_are_of_them() -> None:
    model = shop()
    items = view(model, "order | line", entity="Item")
    assert one(upkeep(model, "place_all", items)).work.puts == 3


def test_a_copy_of_the_parent_that_the_same_call_writes_is_not_read() -> None:
    model = shop()
    items = view(model, "order | line", entity="Item", holds=("order", "line", "order.created_at"))
    assert one(upkeep(model, "place_all", items)).demands == ()


def test_elements_of_a_set_are_entries_each() -> None:
    model = shop()
    assert one(upkeep(model, "place", view(model, "each(tags) | order_id"))).work.puts == 3


def test_a_copied_value_follows_into_every_entry_of_a_row() -> None:
    model = shop()
    seen = view(model, "each(tags) | order_id", holds=("order_id", "tags", "user", "user.name"))
    part = one(upkeep(model, "rename", seen))
    assert part.work.patches == pytest.approx(20 * 3)
    assert part.entries == pytest.approx(20 * 3)


@pytest.mark.parametrize("write", ["place", "drop"])
def test_a_computed_value_changes_in_every_entry_of_a_row(write: str) -> None:
    """Rows that are read too often have copies under several partition keys: a write keeps all of them."""
    model = model_of(SHOP.replace("name: string(20)", "name: string(20)\n    n: count(orders)", 1), writes=WRITES)
    copies = Part("", COPIES, ways=7)
    held = replace(view(model, "| user_id", entity="User", holds=("user_id", "n")), partition=(copies,))
    keyed = replace(held, sort=(Part("n"), Part("user_id")))
    part = next(part for part in upkeep(model, write, held) if part.work.patches)
    assert (part.work.patches, part.work.moves) == (7, 0)
    part = next(part for part in upkeep(model, write, keyed) if part.work.moves)
    assert (part.work.patches, part.work.moves) == (0, 7)
    assert (part.entries, part.most) == (14, 14)


@pytest.mark.parametrize("write", ["drop", "save"])
def test_an_index_follows_a_deleted_or_replaced_row_by_itself(write: str) -> None:
    """Deleting an entry needs its key and so the old row, unless the engine keeps it; a new row is known whole."""
    model = shop()
    by_total = view(model, "user | total, order_id")
    assert demands(one(upkeep(model, write, by_total))) == [("old", 1)]
    index = view(model, "user | total, order_id", kind="gsi")
    assert demands(one(upkeep(model, write, index))) == []
    assert demands(one(upkeep(model, write, view(model, "| total, order_id", kind="index"), "sqlite"))) == []


def test_copies_inside_other_rows_are_found_and_changed() -> None:
    entities = SHOP.replace("    quantity: int\n", "    product: Product, as items\n    quantity: int\n")
    entities += 'Product: { count: 50k, fields: { sku: "string(12), key", name: string(40) } }\n'
    writes = "describe: { update: Product, set: [name], where: 'sku = :sku', rate: 1/s }"
    model = model_of(entities, "p: { find: Order, limit: 10 }", writes)
    plain = view(model, "order_id")
    inside = Embed("items", "Item", (Part("line"),), ("order", "line", "product", "quantity", "product.name"))
    parts = upkeep(model, "describe", replace(plain, embeds=(inside,)))
    assert [demand for part in parts for demand in demands(part)] == [("old", 1), ("fan", 2)]
    assert sum(part.work.patches for part in parts) == pytest.approx(2400)  # 120M items of 50k products
    assert not upkeep(model, "describe", plain)


TALKS = """
Talk: { count: 20k, fields: { tid: "uuid, key", title: string(40), topic: string(10), host: "Person, as hosts" } }
Person: { count: 1k, fields: { pid: "uuid, key", name: string(20) } }
Member: { count: 100k, fields: { mid: "uuid, key", talk: "Talk, as members", who: "string(6), distinct 5000" } }
"""
ASKED = """
titles: { find: Member, where: "who = :w", with: [talk.title, talk.host.name], rate: 900/s }
topics: { find: Member, where: "talk = :t", with: [talk.topic], rate: 900/s }
"""
CHANGED = """
join: { create: Member, rate: 1/h }
rename: { update: Talk, set: [title, topic], where: "tid = :t", rate: 1/h }
call: { update: Person, set: [name], where: "pid = :p", rate: 1/h }
"""


def test_whatever_views_copy_of_a_row_it_is_read_and_checked_once() -> None:
    """One lookup and one check per row and write, which all views that copy from it ask for."""
    found = build_problem(model_of(TALKS, ASKED, CHANGED), get_engine("dynamodb")).problem
    once: dict[tuple[str, str], list[str]] = {}
    for root in found.roots:
        if root.kind in ("copy", CHECK):
            once.setdefault((root.name, root.kind), []).append(root.label)
    assert sorted(once["join", "copy"]) == ["Member.talk", "Member.talk.host"]
    assert sorted(once["join", CHECK]) == ["Member.talk", "Member.talk.host"]
    assert once["rename", CHECK] == ["Talk, noted"]
    asking = next(root for root in found.roots if (root.name, root.kind, root.label) == ("join", CHECK, "Member.talk"))
    copied = {text for name in asking.demanded_by for text in found.views[name].holds if text.startswith("talk.")}
    assert {"talk.title", "talk.topic"} <= copied
    only_key = next(view for view in found.views.values() if view.entity == "Member" and view.holds == ("mid",))
    assert only_key.name not in asking.demanded_by


def test_an_update_that_says_that_a_row_leaves_an_index_needs_no_old_row() -> None:
    model = shop()
    pending = model.patterns["p"].where
    asked = {"user | created_at, order_id": [], "user | flagged, order_id": [("old", 1)]}
    for key, wanted in asked.items():  # what an order may lack tells its entry from others in the same place
        index = view(model, key, kind="gsi", where=pending)
        part = one(upkeep(model, "ship", index))
        assert part.work.deletes > 0
        assert demands(part) == wanted
    assert demands(one(upkeep(model, "ship", view(model, "user | created_at, order_id", where=pending)))) == [
        ("old", 1)
    ]
    both = (*pending, Condition(path_of("flagged", model, "Order"), "present"))
    assert demands(one(upkeep(model, "ship", view(model, "user | order_id", kind="gsi", where=both)))) == [("old", 1)]
