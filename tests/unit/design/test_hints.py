"""A range finer than its groups reads the rows at its ends; the design says which form of it would not, and for how
much."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from keyplan.design import design, document
from keyplan.design.candidates.given import identity
from keyplan.design.problem.build import Built, build_problem
from keyplan.design.program.solve import solve
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from keyplan.plan.steps import Extend, Intersect, Search
from tests.strategies.design import any_problems, proof
from tests.unit.design.nouns import model_of

SALES = """
Sale:
  count: 40M
  fields:
    id: uuid, key
    at: timestamp
    shop: enum(a 50%, b 50%)
    amount: decimal(2)
"""
WRITES = "sell: { create: Sale, rate: 1/s }"


def takings(where: str, more: str = "") -> Model:
    pattern = f'p: {{ sum: Sale.amount, group: {{ d: day(at), shop: shop }}, where: "{where}", rate: 1/s{more} }}'
    return model_of(SALES, pattern, WRITES)


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_dear_range_has_a_cheaper_form(engine: str) -> None:
    model = takings("at >= ago('30d')")
    found = design(model, get_engine(engine))
    (note,) = [one for one in found.findings if one.path == "patterns.p"]
    assert "write day(at) >= ago('30d') in place of at >= ago('30d')" in note.fix
    milder = design(takings("day(at) >= ago('30d')"), get_engine(engine))
    cost, now = (one.objective.value - one.objective.carrying for one in (milder, found))
    assert note.evidence["would_cost"] == pytest.approx(cost)
    texts = [f"{value:,.0f}" if value >= 1000 else f"{value:.4g}" for value in (cost, now)]
    assert f"{texts[0]} {milder.objective.unit} instead of {texts[1]}" in note.fix
    assert cost < now * 0.9
    assert not [one for one in milder.findings if one.path.startswith("patterns")]
    assert any(view.measures for view in milder.views.values())


BOXES = """
Box:
  count: 100k
  fields:
    id: uuid, key
Thing:
  count: 2M
  key: [box, line]
  fields:
    box: Box, as things, max {most}
    line: int
    shop: string(6), distinct 2000
    colour: string(6), distinct 2000
"""
COUNTS = """
box: { find: Box, where: "id = :id", with: [things], rate: 1/s }
shops: { count: Thing, where: "shop = :shop", rate: 100/s, consistency: strong }
colours: { count: Thing, where: "colour = :colour", rate: 100/s, consistency: strong }
"""
PACK = "pack: { create: Box, with: [things], rate: 1/day }"


def test_a_rare_large_write_that_keeps_cheap_counters_away_is_told() -> None:
    """Of 45 things each counts in two groups: 136 entries, of 98 that a transaction of DynamoDB has room for. Read
    strongly, counts cannot follow their rows."""
    engine = get_engine("dynamodb")
    found = design(model_of(BOXES.format(most=45), COUNTS, PACK), engine)
    (note,) = [one for one in found.findings if one.path == "writes.pack"]
    assert "an atomic request at most 98" in note.message
    assert "lower the 'max'" in note.fix
    smaller = design(model_of(BOXES.format(most=30), COUNTS, PACK), engine)
    assert not [one for one in smaller.findings if one.path == "writes.pack"]
    cost, now = (one.objective.value - one.objective.carrying for one in (smaller, found))
    assert cost < now * 0.9
    assert note.evidence["would_cost"] == pytest.approx(cost, rel=0.01)


def test_counters_that_may_follow_are_not_kept_away_by_a_large_write() -> None:
    engine = get_engine("dynamodb")
    eventual = COUNTS.replace(", consistency: strong", "")
    found = design(model_of(BOXES.format(most=45), eventual, PACK), engine)
    (note,) = [one for one in found.findings if one.path == "writes.pack"]
    assert "write 46 entries and add to 90 sums, too many for one request: the sums follow it" in note.message
    assert found.writes["pack"].how == "converges"
    smaller = design(model_of(BOXES.format(most=20), eventual, PACK), engine)
    assert smaller.writes["pack"].how == "atomic"
    assert found.objective.value == pytest.approx(smaller.objective.value, rel=0.01)
    refused = design(model_of(BOXES.format(most=120), eventual, PACK), engine)
    assert [one.severity for one in refused.findings if one.path == "writes.pack"] == ["warning"]


@pytest.mark.parametrize(
    "write",
    [
        'repaint: { update: Thing, set: [colour], where: "shop = :shop", rows: 90, rate: 1/day }',
        'move: { update: Shop, set: [city], where: "id = :id", rate: 1/day }',
    ],
)
def test_rows_that_follow_or_are_changed_one_by_one_do_not_keep_counters_away(write: str) -> None:
    """What they come to together is not one request."""
    entities = """
Shop: { count: 10k, fields: { id: "string(6), key", city: "string(6), distinct 100" } }
Thing: { count: 1M, fields: { id: "string(8), key", shop: "Shop, as things", colour: "string(6), distinct 2000" } }
"""
    patterns = """
things: { find: Thing, where: "shop = :shop", page: 20, rate: 1/s }
colours: { count: Thing, where: "colour = :colour", rate: 1k/s }
cities: { count: Thing, where: "shop.city = :city", rate: 1k/s }
"""
    made = model_of(entities, patterns, f"add: {{ create: Thing, rate: 1/s }}\n{write}")
    built = build_problem(made, get_engine("dynamodb"))
    found = solve(built.problem)
    assert found is not None
    counters = [view for name in found.chosen if (view := built.problem.views[name]).measures]
    assert sorted(str(view.parts[0]) for view in counters) == ["colour", "shop.city"]


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_range_that_cannot_be_served_would_be_in_that_form(engine: str) -> None:
    whole = design(takings("day(at) >= ago('30d')"), get_engine(engine)).plans["p"].figures.p99_ms
    model = takings("at >= ago('30d')", f", p99: {max(1.0, 1.5 * whole):.0f}ms")
    told = document(model, design(model, get_engine(engine)))["patterns"]["p"]
    assert not told["served"]
    assert told["change"].startswith(
        "write day(at) >= ago('30d') in place of at >= ago('30d'); the whole design would "
    )


def test_what_is_asked_too_often_could_be_asked_less_often() -> None:
    """A rank counts what comes before: so many rows of one place cannot be read a thousand times a second."""
    scores = "Score: { count: 100k, fields: { name: 'string(8), key', game: 'string(4), distinct 10', points: int } }"
    asked = 'p: { rank: Score, of: "name = :name", where: "game = :game", order: "points desc", rate: RATE }'
    engine = get_engine("dynamodb")
    found = design(model_of(scores, asked.replace("RATE", "1k/s"), "play: { upsert: Score, rate: 1/s }"), engine)
    change = found.unserved["p"].change
    assert change.startswith("ask less often, 1")
    rate = change.split()[3].removesuffix("/s")
    calm = model_of(scores, asked.replace("RATE", f"{rate}/s"), "play: { upsert: Score, rate: 1/s }")
    cost = design(calm, engine).objective
    assert not design(calm, engine).unserved
    assert f"the whole design would cost {cost.value - cost.carrying:.4g} {cost.unit}" in change


@pytest.mark.parametrize("more", ["", ", p99: 1ms"])
def test_a_design_without_advice_is_the_same_otherwise(more: str) -> None:
    model, engine = takings("at >= ago('30d')", more), get_engine("dynamodb")
    told, quick = design(model, engine), design(model, engine, advise=False)
    assert (quick.views, quick.plans, quick.writes) == (told.views, told.plans, told.writes)
    assert quick.unserved.keys() == told.unserved.keys()
    assert all(one.reason == told.unserved[name].reason and not one.change for name, one in quick.unserved.items())
    assert any(one.change for one in told.unserved.values()) == bool(more)
    assert len(quick.findings) == len(told.findings) - (not more)


@pytest.mark.parametrize("where", ["at between :low and :high", "shop = :shop and at < :high"])
def test_every_finer_range_is_named(where: str) -> None:
    model = takings(where)
    (note,) = [one for one in design(model, get_engine("sqlite")).findings if one.path == "patterns.p"]
    assert note.fix.startswith("write day(at) ")


def test_what_costs_little_needs_no_hint() -> None:
    model = takings("at >= ago('30d')")
    few = replace(model, entities={"Sale": replace(model.entities["Sale"], count=30.0)})
    assert not [one for one in design(few, get_engine("sqlite")).findings if one.path == "patterns.p"]


@pytest.mark.parametrize("engine", BUILTIN)
@proof(20)
@given(model=any_problems())
def test_a_problem_made_from_another_is_as_if_made_anew(engine: str, model: Model) -> None:
    """What a hint takes from the design's own problem: neither views, nor ways, nor upkeep, nor the answer differ."""
    fewer = replace(model, patterns=dict(list(model.patterns.items())[1:]))
    anew = build_problem(model, get_engine(engine))
    made = build_problem(model, get_engine(engine), like=build_problem(fewer, get_engine(engine)))
    assert _what_matters(made) == _what_matters(anew)
    values = [solution.value if solution is not None else None for solution in map(solve, (made.problem, anew.problem))]
    assert values[0] == (None if values[1] is None else pytest.approx(values[1], rel=1e-9))


@pytest.mark.parametrize("engine", BUILTIN)
def test_patterns_that_ask_the_same_are_both_paid_for_in_a_problem_made_from_another(engine: str) -> None:
    """The second was taken for the first there, so that the program knew the cost of one."""
    asked = 'find: P, where: "n = :n", order: id, page: 20, rate: 100/s'
    model = model_of(
        'P: { count: 100k, fields: { id: "int, key", n: "int, distinct 1000", t: string(40) } }',
        f"one: {{ {asked} }}\nother: {{ {asked} }}",
        "put: { create: P, rate: 10/s }",
    )
    anew = build_problem(model, get_engine(engine))
    made = build_problem(model, get_engine(engine), like=anew)
    known, found = solve(anew.problem), solve(made.problem)
    assert known is not None
    assert found is not None
    assert found.value == pytest.approx(known.value)
    assert found.gap == known.gap == 0


def _what_matters(built: Built) -> object:
    problem = built.problem
    names = {name: identity(view) for name, view in problem.views.items()}
    options = [
        (root.name, root.kind, root.rate, [(option.kind, option.cost, option.rows) for option in root.goal.options])
        for root in problem.roots
    ]
    upkeep = {
        (write, names[name]): [(part.cost, part.entries, part.most, part.demands) for part in parts]
        for (write, name), parts in problem.upkeep.items()
    }
    return list(names.values()), [problem.facts[name] for name in names], options, upkeep, built.unserved


@pytest.mark.parametrize("engine", BUILTIN)
def test_conditions_on_two_lists_find_both_and_then_the_rows_of_both(engine: str) -> None:
    model = model_of(
        """
P: { count: 100k, fields: { id: "int, key" } }
K: { count: 200k, fields: { id: "int, key", p: "P, as kids", n: int } }
L: { count: 200k, fields: { id: "int, key", p: "P, as more", n: int } }
""",
        'both: { find: P, where: "kids.n = :x and more.n = :y", rate: 1/s }',
    )
    found = design(model, get_engine(engine))
    node = found.plans["both"].node
    assert isinstance(node, Extend)
    assert isinstance(node.rows, Intersect)
    assert node.rows.keys == (("p",), ("p",))
    assert all(isinstance(part, Search) for part in node.rows.parts)


ACCOUNTS = """
Account:
  count: 1M
  fields: { id: "uuid, key", region: "string(6), distinct 20", label: string(20), score: float }
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_where_everything_would_be_read_another_type_is_offered(engine: str) -> None:
    pattern = "avgs: { avg: Account.score, group: [region], rate: 10/s, p99: 20ms }"
    write = "open_: { create: Account, rate: 1/s }"
    change = design(model_of(ACCOUNTS, pattern, write), get_engine(engine)).unserved["avgs"].change
    assert change.startswith("make 'score' of 'Account' decimal(2), whose sums can be kept exactly; the whole design")
    changed = design(model_of(ACCOUNTS.replace("float", "decimal(2)"), pattern, write), get_engine(engine))
    assert not changed.unserved
    cost = changed.objective.value - changed.objective.carrying
    assert f"would cost {cost:,.0f} " in change or f"would cost {cost:.4g} " in change


@pytest.mark.parametrize("engine", ["mongodb", "sqlite"])
def test_where_everything_would_be_read_one_group_at_a_call_is_offered(engine: str) -> None:
    entities = ACCOUNTS.replace("distinct 20", "distinct 100k").replace("fields:", "ttl: 90d\n  fields:")
    pattern = "counts: { count: Account, group: [region], rate: 10/s }"
    change = design(model_of(entities, pattern, "open_: { create: Account, rate: 1/s }"), get_engine(engine))
    told = change.unserved["counts"].change
    assert told.startswith("ask for one 'region' at a call (region = :region); the whole design would cost ")


@pytest.mark.parametrize("engine", ["dynamodb", "mongodb"])
def test_the_least_whole_p99_that_serves_is_offered(engine: str) -> None:
    def asked(p99: int) -> Model:
        pattern = f'quick: {{ find: Account, where: "region = :r", limit: 10, rate: 10/s, p99: {p99}ms }}'
        return model_of(ACCOUNTS, pattern, "open_: { create: Account, rate: 1/s }")

    change = design(asked(1), get_engine(engine)).unserved["quick"].change
    least = int(change.removeprefix("raise p99 to ").partition("ms")[0])
    assert not design(asked(least), get_engine(engine)).unserved
    assert design(asked(least - 1), get_engine(engine)).unserved


SESSIONS = """
Session:
  count: 10M
  fields:
    id: uuid, key
    user: uuid, distinct 6M
    seen: timestamp, now
    data: json(1900), max 16000
"""


def log_out() -> Model:
    patterns = """
    session: { find: Session, where: "id = :i", rate: 10/s }
    of_user: { find: Session, where: "user = :u", select: [id], rate: 1/s }
    """
    writes = """
    log_in: { create: Session, rate: 10/s }
    touch: { update: Session, set: { seen: now }, where: "id = :i", rate: 10/day }
    out: { delete: Session, where: "user = :u", rows: 1.7, rate: 1/s }
    """
    return model_of(SESSIONS, patterns, writes)


def test_a_rare_write_that_has_to_find_its_rows_as_they_are_is_told_what_that_costs() -> None:
    """Only a second item of each row tells who has sessions at that moment, so that logins are transactions."""
    found = design(log_out(), get_engine("dynamodb"))
    (note,) = [one for one in found.findings if one.path.startswith("writes")]
    assert note.path == "writes.out"
    assert "find their keys by a pattern, which may be a moment behind, and delete each row by its key" in note.fix
    asked_first = model_of(
        SESSIONS,
        """
        session: { find: Session, where: "id = :i", rate: 10/s }
        of_user: { find: Session, where: "user = :u", select: [id], rate: 1/s }
        leaving: { find: Session, where: "user = :u", select: [id], rows: 1.7, rate: 1/s }
        """,
        """
        log_in: { create: Session, rate: 10/s }
        touch: { update: Session, set: { seen: now }, where: "id = :i", rate: 10/day }
        out: { delete: Session, where: "id = :i", rate: 1.7/s }
        """,
    )
    cheaper = design(asked_first, get_engine("dynamodb"))
    assert note.evidence["would_cost"] == pytest.approx(cheaper.objective.value - cheaper.objective.carrying)
    assert not [one for one in cheaper.findings if one.path.startswith("writes")]


def test_where_every_index_is_up_to_date_there_is_nothing_to_tell() -> None:
    assert not [one for one in design(log_out(), get_engine("mongodb")).findings if one.path == "writes.out"]
