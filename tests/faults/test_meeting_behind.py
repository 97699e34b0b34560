"""Two writers who meet, one of them between any two requests of the other: what rows copy of others, computed or not.

Owls copy what is computed for their boss, who may be themselves;
kids copy what is computed for two owls, who may be the same one, and in which they count themselves.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest

import keyplan
from keyplan.design.needs.computed import computed_behind
from keyplan.errors import ConflictError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.store import Store
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: herd
entities:
  Owl:
    count: 1M
    fields:
      o: int, key
      name: string(4), default 'x'
      boss: Owl, as staff, optional 50%
      n: count(kids)
      top: max(kids.v)
  Kid:
    count: 3M
    fields:
      k: int, key
      owl: Owl, as kids, optional 80%
      ward: Owl, as wards, optional 60%
      v: int, default 1
      tag: string(3), optional 30%
patterns:
  staff: { find: Owl, where: "name = :name", order: boss.n, page: 2, with: [boss.top, boss.name], rate: 2k/s }
  led: { find: Owl, where: "boss.top >= :v", order: boss.top, page: 2, select: [o, boss.top], rate: 2k/s }
  wards: { find: Kid, where: "v = :v", order: ward.n, page: 2, with: [ward.top], rate: 2k/s }
  tagged: { find: Kid, where: "tag = :tag", order: owl.n desc, page: 2, with: [owl.name], rate: 2k/s }
  owl: { find: Owl, where: "o = :o", rate: 2k/s }
  kid: { find: Kid, where: "k = :k", rate: 1/s }
  kids_of: { find: Kid, where: "owl = :owl", page: 3, rate: 2k/s }
writes:
  put_kid: { upsert: Kid, rate: 1/min }
  mend_kid: { update: Kid, set: [v, tag], where: "k = :k", rate: 1/min }
  move_kid: { update: Kid, set: [owl], where: "k = :k", rate: 1/min }
  give_kid: { update: Kid, set: [ward], where: "k = :k", rate: 1/min }
  drop_kid: { delete: Kid, where: "k = :k", rate: 1/min }
  put_owl: { upsert: Owl, rate: 1/min }
  name_owl: { update: Owl, set: [name], where: "o = :o", rate: 1/min }
  give_owl: { update: Owl, set: [boss], where: "o = :o", rate: 1/min }
  drop_owl: { delete: Owl, where: "o = :o", rate: 1/min }
  clear_owl: { delete: Owl, with: [kids], where: "o = :o", rate: 1/min }
transactions:
  settle_in: [put_kid, put_owl]
"""
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Kid", {"k": 1, "owl": 0, "ward": 1, "v": 1}),
    ("Kid", {"k": 2, "owl": 1, "ward": 0, "v": 2, "tag": "a"}),
    ("Owl", {"o": 0, "boss": 1}),
    ("Owl", {"o": 1}),
    ("Owl", {"o": 3, "boss": 2}),
]
Call = tuple[str, dict[str, Any]]
NEW_KID: Call = ("put_kid", {"k": 3, "owl": 0, "ward": 1, "v": 3})
NO_KID: Call = ("drop_kid", {"k": 1})
OTHER_KID: Call = ("put_kid", {"k": 1, "owl": 2, "ward": 0, "v": 4, "tag": "b"})
WARD: Call = ("give_kid", {"k": 1, "ward": 0})
OWN_BOSS: Call = ("give_owl", {"o": 0, "boss": 0})
NEW_BOSS: Call = ("give_owl", {"o": 0, "boss": 2})
NO_OWL: Call = ("drop_owl", {"o": 0})
ROOM: Call = ("clear_owl", {"o": 0})
SETTLE: Call = ("settle_in", {"put_kid": {"k": 1, "owl": 1, "v": 6}, "put_owl": {"o": 2, "name": "y", "boss": 1}})
LONE: Call = ("drop_owl", {"o": 3})
NO_ONES_KID: Call = ("put_kid", {"k": 3, "owl": 2, "ward": 1, "v": 3})
MEETINGS: list[tuple[Call, Call]] = [
    (NO_KID, OWN_BOSS),  # the owl that counts one less copies from itself by now
    (NEW_KID, WARD),  # a kid that copies from it anyway does so by its other reference as well
    (NEW_BOSS, NEW_KID),  # the entry that is put elsewhere holds how many kids there are
    (LONE, NO_ONES_KID),  # it had no entry, since nothing was computed for its boss, who is not there
    (NEW_KID, NO_OWL),
    (WARD, NO_OWL),
    (OTHER_KID, SETTLE),
    (SETTLE, OTHER_KID),
    (ROOM, WARD),
    (NEW_KID, ROOM),
]

LEAN = (0, 3)


@cache
def made(harness: Harness, lean: bool) -> tuple[Model, Design]:
    """In `lean` cases no entry that copies holds how many kids there are, since that would be tested along."""
    text = "".join(line for line in MODEL.splitlines(True) if not lean or "staff: {" not in line)
    model = replace(keyplan.parse_model(text), targets=harness.targets)
    return model, keyplan.design(model, harness.name, advise=False)


def reset(store: Store) -> None:
    """The rows that there are at first, and no others."""
    store.drop_kid(k=3)
    store.drop_owl(o=2)
    store.load(ROWS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(len(MEETINGS)))
def test_every_view_is_true(quick_harness: Harness, number: int) -> None:
    (name, arguments), (other_name, other_arguments) = MEETINGS[number]
    model, design = made(quick_harness, number in LEAN)
    url = quick_harness.url()
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url) as one, keyplan.open(model, url) as other:
        assert any(computed_behind(model, view) for view in one.design.views.values())
        send = one._port.send
        for moment in count():
            reset(other)
            rounds: list[Any] = []

            def meet(round: Any, moment: int = moment, rounds: list[Any] = rounds) -> Any:
                rounds.append(round)
                if len(rounds) == moment + 1:
                    getattr(other, other_name)(**other_arguments)
                return send(round)

            one._port.send = meet  # type: ignore[method-assign]
            with suppress(ConflictError):
                getattr(one, name)(**arguments)
            one._port.send = send  # type: ignore[method-assign]
            if len(rounds) <= moment:
                return
            found = other.verify()
            assert found.ok, (moment, found.problems)
