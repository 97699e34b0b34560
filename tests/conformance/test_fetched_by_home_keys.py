"""The rest of rows, fetched by all that the key of their home is made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import keyplan
from tests.conformance.pair import NOON, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Ticket: { count: 8M, fields: { tid: "int, key", title: string(20) } }
  Note:
    count: 40M
    key: [ticket, n]
    fields:
      ticket: Ticket, as notes, max 500
      n: int
      agent: string(8), distinct 500
      text: text(300)
      at: timestamp
patterns:
  ticket: { find: Ticket, where: "tid = :tid", with: { notes: { order: at desc, limit: 20 } }, rate: 30/s }
  latest: { find: Note, where: "ticket = :tid", order: at desc, limit: 1, rate: 10/s }
  note: { find: Note, where: "ticket = :tid and n = :n", rate: 5/s }
  by_agent:
    find: Note
    where: agent = :agent and at between :start and :end
    order: at desc
    page: 3
    rows: 100
    rate: 0.1/s
writes:
  begin: { create: Ticket, rate: 1/s }
  say: { create: Note, rate: 1/s }
  rewrite: { update: Note, set: [text], where: "ticket = :tid and n = :n", rate: 0.1/s }
  drop: { delete: Note, where: "ticket = :tid and n = :n", rate: 0.01/s }
"""
ROWS = [
    *(("Ticket", {"tid": tid, "title": f"t{tid}"}) for tid in range(3)),
    *(
        (
            "Note",
            {"ticket": n % 3, "n": n, "agent": "ab"[n % 2], "text": "x" * n, "at": NOON - timedelta(minutes=n // 2)},
        )
        for n in range(20)
    ),
]
WRITES = [
    ("say", {"ticket": 1, "n": 30, "agent": "a", "text": "new", "at": NOON - timedelta(minutes=1)}),
    ("rewrite", {"tid": 0, "n": 6, "text": "other"}),
    ("drop", {"tid": 1, "n": 4}),
    ("say", {"ticket": 1, "n": 4, "agent": "a", "text": "again", "at": NOON - timedelta(minutes=9)}),
    ("rewrite", {"tid": 7, "n": 6, "text": "nobody"}),
]


def test_rows_are_found_by_what_their_pointers_have_of_their_homes(harness: Harness) -> None:
    model = parsed(MODEL)
    span = {"start": NOON - timedelta(minutes=9), "end": NOON}
    reads = [("by_agent", {"agent": agent, **span}) for agent in "abc"]
    reads += [(name, {"tid": tid}) for name in ("ticket", "latest") for tid in range(4)]
    reads += [("note", {"tid": n % 3, "n": n}) for n in (4, 6, 30)]
    with opened(model, harness.url(), ROWS) as pair:
        pair.stays_right(WRITES, reads)


def test_no_pattern_finds_homes_one_by_one(harness: Harness) -> None:
    """Wherever rows lie, a page of pointers and the rest of its rows are a few requests."""
    design = keyplan.design(parsed(MODEL), harness.name, advise=False)
    figures = design.plans["by_agent"].figures
    assert (figures.requests <= 3, figures.trips <= 2) == (True, True)


LARGE = """
entities:
  Ticket: { count: 25k, fields: { tid: "int, key", title: string(20) } }
  Note:
    count: 4M
    fields:
      n: ulid, key
      ticket: Ticket, as notes
      weight: int
      code: string(8), distinct 1M
      text: text(2000)
patterns:
  heaviest:
    find: Note
    where: ticket = :tid
    order: weight desc
    limit: 20
    consistency: strong
    rate: 300/s
  coded: { find: Note, where: "code = :code", order: weight desc, page: 2, select: [n, ticket, weight], rate: 1/s }
  whole: { find: Note, where: "code = :code", order: weight desc, page: 2, rate: 0.001/s }
writes:
  say: { create: Note, rate: 100/s }
"""
"""Of more text than a partition should hold: the home of notes is in shards where these are small."""


def test_rows_are_found_in_shards_by_what_their_pointers_have(harness: Harness) -> None:
    rows = [
        ("Note", {"n": f"{n:026}", "ticket": n % 2, "weight": n % 5, "code": "ab"[n % 3 == 0], "text": f"t{n}"})
        for n in range(20)
    ]
    writes = [
        ("say", {"n": f"{30:026}", "ticket": 1, "weight": 3, "code": "a", "text": "new"}),
        ("say", {"n": f"{31:026}", "ticket": 1, "weight": 2, "code": "b", "text": "newer"}),
    ]
    reads = [(name, {"code": code}) for name in ("coded", "whole") for code in "abc"]
    reads += [("heaviest", {"tid": tid}) for tid in range(3)]
    for targets in (harness.targets, *harness.other_targets):
        with opened(replace(parsed(LARGE), targets=targets), harness.url(), rows) as pair:
            pair.stays_right(writes, reads)
