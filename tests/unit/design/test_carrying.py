"""What a home carries for an index is stored, read and written with the home, and priced there."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.design.candidates.carrying import copied_by_index
from keyplan.design.candidates.facts import Facts
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import INFEASIBLE, coupling_cost
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import get_engine
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design

GAMES = """
keyplan: 1
name: games
entities:
  Game: { count: 5M, fields: { game_id: "uuid, key", map: string(150), created_at: "timestamp, now" } }
  Seat:
    count: 200M
    key: [game, user]
    fields: { game: "Game, as seats, max 50", user: "string(12), distinct 1M", joined_at: "timestamp, now" }
patterns:
  game: { find: Game, where: "game_id = :game_id", with: [seats], rate: READS/s }
  games_of_user: { find: Seat, where: "user = :user", order: joined_at desc, page: 20, with: [game.map], rate: 20/s }
writes:
  create_game: { create: Game, rate: 1/min }
  take_seat: { create: Seat, rate: SEATS/s }
"""


def games(reads: str = "50", seats: str = "0.2") -> Model:
    return parse_model(GAMES.replace("READS", reads).replace("SEATS", seats))


def stored(model: Model, found: Design) -> float:
    """What the views of a design cost to store as they are in the end, all that they carry included."""
    costs = get_engine(found.engine).costs(model)
    facts = Facts(model, Statistics(model), costs)
    return sum(costs.keep(view, facts.of(view)) for view in found.views.values())


@pytest.mark.parametrize("engine", ["dynamodb", "mongodb"])
@pytest.mark.parametrize(("reads", "seats"), [("50", "0.2"), ("0.1", "0.2"), ("0.1", "50")])
def test_a_design_stores_what_it_is_priced_for(engine: str, reads: str, seats: str) -> None:
    model = games(reads, seats)
    found = design(model, get_engine(engine), advise=False)
    assert sum(view.storage for view in found.figures.values()) == pytest.approx(stored(model, found))


def test_an_index_that_copies_wants_a_home_that_carries() -> None:
    """Wherever the answer is an index with the map of the game, the seats that it is kept over have the map."""
    model, engine = games("0.1", "50"), get_engine("dynamodb")
    built = build_problem(model, engine)
    views = built.problem.views
    index = next(v for v in views.values() if copied_by_index(model, engine.kinds, v) == {"game.map"})
    homes = {text: names for text, names in built.problem.required if "home" in text}
    game = homes["a home of 'Game'"][0]
    for name in homes["a home of 'Seat'"]:
        view = views[name]
        held = view.holds if view.entity == "Seat" else next(e.holds for e in view.embeds if e.entity == "Seat")
        chosen = {game, name, index.name}
        assert (coupling_cost(built.problem.couplings, chosen) < INFEASIBLE) == ("game.map" in held)


def test_larger_homes_are_dearer_to_read() -> None:
    """Reading a game with its seats takes more where these have the map of their game along for an index."""
    built = build_problem(games(), get_engine("dynamodb"))
    (root,) = [root for root in built.problem.roots if root.name == "game"]
    along = {o.view.embeds[0].holds: o.cost.units["read units"] for o in root.goal.options if o.view and o.view.embeds}
    plain, carrying = sorted(along, key=len)
    assert set(carrying) - set(plain) == {"game.map"}
    assert along[carrying] >= along[plain] + 0.5
