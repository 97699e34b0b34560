"""Rows, distinct values, fan-out, heat and retention follow from the model, and contradictions are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keyplan.design.candidates.facts import Facts
from keyplan.design.findings.contradictions import contradictions
from keyplan.design.statistics.derived import HOT_FACTOR, Statistics, zipf_top
from keyplan.model.load import parse_model
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition
from keyplan.plan.view import Part, View
from tests.unit.design.nouns import SHOP, model_of


def where(model: Model, text: str) -> tuple[Condition, ...]:
    """The conditions of `where` on orders."""
    found = model_of(SHOP, f'p: {{ count: Order, where: "{text}" }}')
    return found.patterns["p"].where


def more_items() -> Model:
    """Counts that changed after the model was read: the loader itself refuses a `max` under the average."""
    model = model_of()
    return replace(model, entities={**model.entities, "Item": replace(model.entities["Item"], count=4e9)})


def distinct(model: Model, entity: str, path: str, cut: str | None = None) -> float:
    return Statistics(model).distinct(entity, path_of(path, model, entity), cut)


@pytest.mark.parametrize(
    ("entity", "path", "expected"),
    [
        ("Order", "order_id", 40e6),
        ("Order", "user", 2e6),
        ("Order", "status", 3),
        ("Item", "order", 40e6),
        ("Item", "line", 3),  # 120M items over 40M orders
        ("Order", "user.name", 2e6),
    ],
)
def test_distinct_values(entity: str, path: str, expected: float) -> None:
    assert distinct(model_of(), entity, path) == pytest.approx(expected)


def test_distinct_days_follow_from_retention() -> None:
    model = model_of(SHOP, writes="place: { create: Order, rate: 10/s }")
    assert Statistics(model).retention_s("Order") == pytest.approx(4e6)
    assert distinct(model, "Order", "created_at", "day") == pytest.approx(4e6 / 86400)


def test_ttl_is_the_retention() -> None:
    model = model_of("Session:\n  count: 1M\n  ttl: 2h\n  fields:\n    id: uuid, key\n")
    assert Statistics(model).retention_s("Session") == 7200


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("order_id = :id", 1),
        ("user = :user", 20),
        ("status = 'pending'", 1.2e6),
        ("status != 'pending'", 38.8e6),
        ("status in ('pending', 'shipped')", 4e6),
        ("status in ('pending', 'pending')", 1.2e6),
        ("status in :some[2]", 40e6 * 2 / 3),
        ("user = :user and status in ('pending', 'shipped')", 2),
        ("user = :user and status = 'pending'", 0.6),
        ("present(flagged)", 400e3),
        ("missing(flagged)", 39.6e6),
        ("contains(tags, :tag)", 40e6 * 3 / 1000),
    ],
)
def test_rows_that_meet_conditions(text: str, rows: float) -> None:
    model = model_of()
    assert Statistics(model).matched("Order", where(model, text)) == pytest.approx(rows)


def test_rows_of_a_pattern_are_a_floor_but_never_more_than_there_are() -> None:
    statistics = Statistics(model_of())
    conditions = where(statistics.model, "user = :user and status = 'pending'")
    assert statistics.matched("Order", conditions, at_least=5) == 5
    assert statistics.matched("Order", conditions, at_least=1e12) == 40e6


def test_fan_out_counts_only_rows_with_a_reference() -> None:
    model = model_of("A:\n  count: 100\n  fields:\n    a: int, key\nB:\n  count: 1000\n  fields:\n    b: int, key\n"
                     "    a: A, as bs, optional 50%\n")  # fmt: skip
    assert Statistics(model).fan_out("A", "bs") == 5
    assert Statistics(model).fan_out("B", "a") == 1


def test_fan_out_is_never_over_max() -> None:
    statistics = Statistics(model_of())
    assert statistics.fan_out("Order", "items") == 3
    assert Statistics(more_items()).fan_out("Order", "items") == 50


def test_hottest_share_takes_what_the_model_says_first() -> None:
    model = model_of(SHOP.replace("user: User, as orders", "user: User, as orders, skew zipf 1"))
    statistics = Statistics(model)
    assert statistics.hottest_share("Order", path_of("user", model, "Order")) == zipf_top(2e6, 1.0)
    assert statistics.hottest_share("Order", path_of("status", model, "Order")) == pytest.approx(0.9)
    plain = Statistics(model_of())
    assert plain.hottest_share("Order", path_of("user", model, "Order")) == pytest.approx(HOT_FACTOR / 2e6)
    assert plain.hottest_share("Order", path_of("order_id", model, "Order")) == pytest.approx(1 / 40e6)


@pytest.mark.parametrize(("values", "exponent"), [(1, 1.0), (50, 0.8), (10_000, 1.2)])
def test_zipf_top_is_the_share_of_the_first(values: int, exponent: float) -> None:
    assert zipf_top(values, exponent) == pytest.approx(1 / sum(1 / n**exponent for n in range(1, values + 1)))


def test_zipf_top_of_many_values_is_continued_by_its_integral() -> None:
    exact = 1 / sum(1 / n for n in range(1, 200_001))
    assert zipf_top(200_000, 1.0) == pytest.approx(exact, rel=1e-3)


def test_rows_written_with_children() -> None:
    model = model_of(SHOP, writes="place: { create: Order, with: [items], rate: 2/s }")
    statistics = Statistics(model)
    assert statistics.written("Order") == [(model.writes["place"], 1.0)]
    assert statistics.written("Item") == [(model.writes["place"], 3.0)]
    assert statistics.written("User") == []
    assert statistics.create_rate("Item") == 6
    assert statistics.most_rows_written(model.writes["place"]) == 51


def test_a_count_that_creates_outgrow_is_a_finding() -> None:
    (found,) = contradictions(Statistics(model_of(SHOP, writes="place: { create: Order, rate: 100/s }")))
    assert found.path == "entities.Order"
    assert "creates make 3.15G rows within a year" in found.message


def test_a_ttl_bounds_what_creates_make() -> None:
    entities = "Session:\n  count: 1M\n  ttl: 1h\n  fields:\n    id: uuid, key\n"
    assert contradictions(Statistics(model_of(entities, writes="sign_in: { create: Session, rate: 100/s }"))) == []
    (found,) = contradictions(Statistics(model_of(entities, writes="sign_in: { create: Session, rate: 1000/s }")))
    assert "within its ttl" in found.message


def test_upserts_may_be_of_rows_that_are_there() -> None:
    assert contradictions(Statistics(model_of(SHOP, writes="put: { upsert: Order, rate: 100/s }"))) == []


@pytest.mark.parametrize(
    ("text", "most"), [("status in ('pending', 'shipped')", 4e6), ("status in :some[2]", 40e6), ("status in ()", 1)]
)
def test_the_most_rows_of_listed_values(text: str, most: float) -> None:
    model = model_of()
    assert Statistics(model).most_matched("Order", where(model, text)) == pytest.approx(most)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("boss = :b", 2000),
        ("boss in :some[2]", 4000),
        ("present(boss)", 10_000),
        ("missing(boss)", 990_000),
        ("a = :a", 1),
    ],
)
def test_the_hottest_of_values_that_few_rows_have(text: str, most: float) -> None:
    """One in a hundred has any, and a fifth of these the same one."""
    model = model_of(
        "A: { count: 1M, fields: { a: 'int, key', boss: 'string(4), optional 1%, distinct 50, top 20%' } }\n",
        f'p: {{ count: A, where: "{text}" }}',
    )
    assert Statistics(model).most_matched("A", model.patterns["p"].where) == pytest.approx(most)


def test_a_max_under_the_average_is_a_finding() -> None:
    (found,) = contradictions(Statistics(more_items()))
    assert found.path == "entities.Item.order"
    assert "max 50, but 100 on average" in found.message


def test_a_consistent_model_has_no_findings() -> None:
    assert contradictions(Statistics(model_of(SHOP, writes="place: { create: Order, rate: 100k/day }"))) == []


def test_a_condition_on_children_holds_if_any_of_them_meets_it() -> None:
    """An order has three items; two conditions on them speak of the same one."""
    model = model_of()
    statistics = Statistics(model)
    lines = 3
    one = 1 - (1 - 1 / lines) ** 3
    assert statistics.matched("Order", where(model, "items.line = :line")) == pytest.approx(40e6 * one)
    values = statistics.distinct("Item", path_of("quantity", model, "Item"))
    both = 1 - (1 - 1 / lines / values) ** 3
    found = statistics.matched("Order", where(model, "items.line = :line and items.quantity = :n"))
    assert found == pytest.approx(40e6 * both)
    assert statistics.most_matched("Order", where(model, "items.quantity = :n")) >= 3 * 40e6 / values


def test_a_condition_on_rare_children_holds_no_more_often_than_there_are_any() -> None:
    entities = (
        "A:\n  count: 1000\n  fields: { a: 'int, key' }\nB:\n  count: 100\n  fields: { b: 'int, key', a: 'A, as bs' }\n"
    )
    model = model_of(entities, 'p: { count: A, where: "present(bs.b)" }')
    assert Statistics(model).matched("A", model.patterns["p"].where) == pytest.approx(100)


# what goes together

FORGE = """
Account: { count: 10k, fields: { name: "string(12), key" } }
Repo:
  count: 40k
  key: [owner, name]
  fields: { owner: "Account, as repos", name: string(12), parent: "Repo, as forks, optional 20%" }
Issue:
  count: 200k
  key: [repo, number]
  fields: { repo: "Repo, as issues", number: int, author: Account, state: "enum(open 20%, closed 80%)" }
"""


@pytest.mark.parametrize(
    ("entity", "text", "rows"),
    [
        ("Issue", "repo.owner = :o and repo.name = :n", 5),
        ("Issue", "repo.owner = :o", 20),
        ("Issue", "repo.owner = :o and repo.name = :n and state = 'open'", 1),
        ("Issue", "repo.owner in :owners and repo.name = :n", 50),
        ("Issue", "repo.owner = :o and repo.name = :n and repo.parent.name = :p", 5),
        ("Issue", "repo.owner = :o and repo.name = :n and number = :m", 1),
        ("Issue", "repo.owner = :o and author = :a", 1),  # nobody asks for what nowhere is
        ("Repo", "parent.owner = :o and parent.name = :n", 1),
        ("Repo", "parent.owner = :o", 0.8),
    ],
)
def test_the_columns_of_a_reference_go_together(entity: str, text: str, rows: float) -> None:
    model = model_of(FORGE, f'p: {{ count: {entity}, where: "{text}" }}')
    assert Statistics(model).matched(entity, model.patterns["p"].where) == pytest.approx(rows)


def test_a_missing_reference_is_missing_once() -> None:
    model = model_of(FORGE, "p: { count: Repo }")
    paths = [path_of(text, model, "Repo") for text in ("parent.owner", "parent.name")]
    assert Statistics(model).all_present("Repo", paths) == pytest.approx(0.2)


def test_parts_of_a_key_are_counted_per_row_that_it_refers_to() -> None:
    model = model_of(FORGE, "p: { count: Repo }")
    assert distinct(model, "Issue", "number") == pytest.approx(5)


@pytest.mark.parametrize(
    ("kind", "usual"),
    [("string(40)", 6), ("text(200)", 31), ("text(2000)", 308), ("text(50000)", 500), ("string(3)", 1)],
)
def test_words_follow_from_the_size_of_a_text(kind: str, usual: float) -> None:
    """Of each, an entry per word; a word is in so many more rows, and long texts repeat theirs."""
    model = model_of(
        f'Page: {{ count: 1M, fields: {{ id: "int, key", body: {kind} }} }}',
        'p: { find: Page, where: "search(body, :w)" }',
    )
    seen = View("v", "Page", "table", (Part("body", "words"),), (Part("id"),), ("id",))
    assert Facts(model, Statistics(model)).multiplicity(seen) == pytest.approx(usual, abs=0.5)
    rows = Statistics(model).matched("Page", model.patterns["p"].where)
    assert rows == pytest.approx(1e6 * usual / 5000, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "usual"), [("set(string(8))", 3), ("set(string(8), max 2)", 2), ("set(string(8), avg 7)", 7)]
)
def test_elements_follow_from_the_size_of_a_set(kind: str, usual: float) -> None:
    """As the generated rows have them."""
    model = model_of(f'Page: {{ count: 1M, fields: {{ id: "int, key", tags: "{kind}" }} }}')
    seen = View("v", "Page", "table", (Part("tags", "each"),), (Part("id"),), ("id",))
    assert Facts(model, Statistics(model)).multiplicity(seen) == usual


def test_words_are_only_in_rows_that_have_the_text() -> None:
    rows = []
    for optional in ("", ", optional 10%"):
        fields = f'id: "int, key", note: "string(40){optional}"'
        model = model_of(
            f"Page: {{ count: 1M, fields: {{ {fields} }} }}", 'p: { find: Page, where: "search(note, :w)" }'
        )
        rows.append(Statistics(model).matched("Page", model.patterns["p"].where))
    assert rows[1] == pytest.approx(rows[0] / 10)


def test_several_texts_are_searched_together() -> None:
    fields = 'id: "int, key", a: string(13), b: string(26)'
    model = model_of(f"Page: {{ count: 1M, fields: {{ {fields} }} }}", 'p: { find: Page, where: "search(a, b, :w)" }')
    assert Statistics(model).matched("Page", model.patterns["p"].where) == pytest.approx(1e6 * 6 / 5000)


ESCALATED = """
keyplan: 1
name: complaints
entities:
  Agent: {{ count: 500, fields: {{ agent_id: "int, key" }} }}
  Complaint:
    count: 1M
    fields:
      complaint_id: ulid, key
      escalated_to: Agent, as escalations, optional 1%
      escalated_at: timestamp, optional 2%
      closed_at: timestamp, optional 50%
patterns:
  of_agent: {{ find: Complaint, where: "escalated_to = :agent", order: escalated_at, rate: 1/s }}
writes:
  make: {{ create: Complaint, rate: 1/s }}
  finish: {{ update: Complaint, set: [closed_at], where: "complaint_id = :c", rate: 1/s }}
  {writes}
"""
BOTH = 'escalate: { update: Complaint, set: [escalated_to, escalated_at], where: "complaint_id = :c", rate: 1/s }'
ONE = BOTH.replace("escalated_to, ", "").replace("escalate:", "delay:")


@pytest.mark.parametrize(
    ("writes", "conditions", "share"),
    [
        (BOTH, "present(escalated_to) and present(escalated_at)", 0.01),
        (BOTH, "present(escalated_at) and escalated_to = :a", 0.01 / 500),
        (BOTH, "escalated_to = :a and missing(escalated_at)", 0.01 / 500 * 0.01 * 0.98),
        (BOTH, "present(escalated_at) and missing(escalated_to)", 0.02 * 0.5),
        (BOTH, "present(escalated_at) and present(closed_at)", 0.02 * 0.5),
        (f"{BOTH}\n  {ONE}", "present(escalated_to) and present(escalated_at)", 0.01 * 0.02),
    ],
)
def test_fields_that_are_set_together_are_there_together(writes: str, conditions: str, share: float) -> None:
    source = ESCALATED.format(writes=writes).replace("escalated_to = :agent", conditions)
    model = parse_model(source)
    assert Statistics(model).share("Complaint", model.patterns["of_agent"].where) == pytest.approx(share)
