"""Talks, whose members have the moment of their last message in their entries, and workers that change few of them.

What is computed of the messages of a talk is copied by its members, whether the talk is there or not, so that talks
come and go as well. Talks that were split off refer to another talk: what copies is of the same entity there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import keyplan
from keyplan.model.model import Model

MODEL = """
keyplan: 1
name: chat
entities:
  Talk:
    count: 1M
    fields:
      tid: int, key
      title: string(8), default 'x'
      origin: Talk, as offshoots, optional 20%
      last_at: max(messages.sent_at)
      said: count(messages)
      weight: sum(messages.weight)
      spread: count(offshoots)
  Member:
    count: 3M
    key: [talk, person]
    fields:
      talk: Talk, as members, max 50
      person: int
      role: enum(guest 90%, host 10%), default guest
  Message:
    count: 20M
    fields:
      mid: int, key
      talk: Talk, as messages, optional 99%
      sent_at: timestamp, optional 95%
      weight: int, default 1
patterns:
  talks_of:
    find: Member
    where: person = :person
    order: talk.last_at desc
    page: 2
    with: [talk.title, talk.last_at]
    rate: 2k/s
  quiet: { find: Member, where: "person = :person and talk.said < :n", order: talk.said, page: 2, rate: 2k/s }
  heaviest:
    find: Member
    where: person = :person
    order: talk.weight desc
    limit: 2
    select: [talk, talk.weight]
    rate: 2k/s
  member: { find: Member, where: "talk = :talk and person = :person", with: [talk.said, talk.title], rate: 2k/s }
  split_off:
    find: Talk
    where: title = :title
    order: origin.said
    page: 2
    select: [tid, origin.spread]
    rate: 2k/s
  messages_of: { find: Message, where: "talk = :talk", order: sent_at desc, page: 3, rate: 2k/s }
  members_of: { find: Member, where: "talk = :talk", page: 3, rate: 2k/s }
  offshoots_of: { find: Talk, where: "origin = :talk", page: 3, rate: 2k/s }
writes:
  start: { upsert: Talk, with: [members], rate: 1/min }
  begin: { create: Talk, rate: 1/min }
  rename: { update: Talk, set: [title], where: "tid = :tid", rate: 1/min }
  split: { update: Talk, set: [origin], where: "tid = :tid", rate: 1/min }
  abandon: { delete: Talk, where: "tid = :tid", rate: 1/min }
  clear: { delete: Talk, with: [messages, members], where: "tid = :tid", rate: 1/min }
  join: { upsert: Member, rate: 1/min }
  promote: { update: Member, set: [role], where: "talk = :talk and person = :person", rate: 1/min }
  leave: { delete: Member, where: "talk = :talk and person = :person", rate: 1/min }
  say: { upsert: Message, rate: 1/min }
  mend: { update: Message, set: [sent_at, weight], where: "mid = :mid", rate: 1/min }
  move: { update: Message, set: [talk], where: "mid = :mid", rate: 1/min }
  retract: { delete: Message, where: "mid = :mid", rate: 1/min }
transactions:
  announce: [start, say x1 max 3]
"""

TALKS, PEOPLE, MESSAGES = 3, 3, 8
NOON = datetime(2052, 5, 15, 12, 0, tzinfo=UTC)


def model() -> Model:
    return keyplan.parse_model(MODEL)


def rows() -> list[tuple[str, dict[str, Any]]]:
    """Some talks, one of which is missing, with members and messages; children come before their parents."""
    return [
        *(("Message", {"mid": n, "talk": n % TALKS, "sent_at": moment(n)}) for n in range(0, MESSAGES, 2)),
        *(("Member", {"talk": n % TALKS, "person": n // TALKS}) for n in range(TALKS * 2)),
        *(("Talk", {"tid": n, "origin": (n + 1) % TALKS}) for n in range(TALKS - 1)),
    ]


def moment(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def reads() -> list[tuple[str, dict[str, Any]]]:
    """Calls of every pattern."""
    people = [{"person": person} for person in range(PEOPLE)]
    found = [("talks_of", one) for one in people] + [("heaviest", one) for one in people]
    found += [("quiet", {**one, "n": n}) for one in people for n in (1, 3)]
    found += [("member", {"talk": talk, **one}) for talk in range(TALKS) for one in people]
    found += [("split_off", {"title": title}) for title in ("x", "y")]
    return found


def steps(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Random writes without an end, all of them on the same few rows."""
    source = random.Random(seed)
    while True:
        yield step(source)


def step(source: random.Random) -> tuple[str, dict[str, Any]]:
    talk, person, mid = source.randrange(TALKS), source.randrange(PEOPLE), source.randrange(MESSAGES)
    sent_at = moment(source.randrange(9)) if source.random() < 0.9 else None
    origin = source.choice((0, 1, 2, None))
    message = {"mid": mid, "talk": talk, "sent_at": sent_at, "weight": source.randrange(3)}
    choices: list[tuple[str, dict[str, Any]]] = [
        *[("say", message)] * 4,
        ("say", {**message, "talk": None}),
        ("mend", {"mid": mid, "sent_at": sent_at, "weight": source.randrange(3)}),
        *[("move", {"mid": mid, "talk": talk})] * 2,
        *[("retract", {"mid": mid})] * 2,
        *[("join", {"talk": talk, "person": person})] * 2,
        ("promote", {"talk": talk, "person": person, "role": source.choice(("host", "guest"))}),
        ("leave", {"talk": talk, "person": person}),
        ("start", {"tid": talk, "origin": origin, "members": [{"person": person}]}),
        ("begin", {"tid": talk, "title": source.choice("xy")}),
        ("rename", {"tid": talk, "title": source.choice("xy")}),
        ("split", {"tid": talk, "origin": origin}),
        ("abandon", {"tid": talk}),
        ("clear", {"tid": talk}),
        ("announce", {"start": {"tid": talk, "members": []}, "say": [message]}),
    ]
    return source.choice(choices)
