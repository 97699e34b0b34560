"""Rows of one partition in several orders, each read strongly: what was written a moment ago is there, in its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyplan.errors import ConflictError
from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Room:
    count: 1k
    fields:
      room_id: int, key
      title: string(20)
  Message:
    count: 1M
    key: [room, seq]
    fields:
      room: Room, as messages
      seq: int
      sender: string(12), distinct 50
      stars: int
      pinned: int, optional 10%
      body: string(300)
  Reply:
    count: 20k
    key: [room, number]
    fields:
      room: Room, as replies, max 1000
      number: int
      votes: int
      text: string(200)
patterns:
  recent: { find: Message, where: "room = :room", order: seq desc, page: 3, consistency: strong, rate: 50/s }
  starred: { find: Message, where: "room = :room", order: stars desc, page: 3, consistency: strong, rate: 20/s }
  of_sender:
    { find: Message, where: "room = :room and sender = :sender", order: seq desc, consistency: strong, rate: 20/s }
  pinned: { find: Message, where: "room = :room and present(pinned)", order: pinned, consistency: strong, rate: 10/s }
  with_stars: { find: Message, where: "room = :room and stars between :low and :high", consistency: strong, rate: 5/s }
  voted: { find: Reply, where: "room = :room", order: votes desc, page: 2, consistency: strong, rate: 20/s }
  room:
    find: Room
    where: "room_id = :room"
    with: { replies: { limit: 10, order: number } }
    consistency: strong
    rate: 50/s
writes:
  open_room: { create: Room, rate: 1/s }
  post: { create: Message, rate: 1/s }
  star: { update: Message, where: "room = :room and seq = :seq", add: [stars], rate: 1/s }
  pin: { update: Message, where: "room = :room and seq = :seq", set: [pinned], rate: 10/s }
  rewrite: { update: Message, where: "room = :room and seq = :seq", set: [sender, body], rate: 1/s }
  remove: { delete: Message, where: "room = :room and seq = :seq", rate: 1/s }
  reply: { create: Reply, rate: 1/s }
  vote: { update: Reply, where: "room = :room and number = :number", set: [votes], rate: 1/s }
"""


@pytest.fixture
def chat(harness: Harness) -> Iterator[Pair]:
    """Figures of its own: rooms with many messages, so that it pays to keep each order."""
    with opened(parsed(MODEL), harness.url()) as pair:
        written(pair)
        yield pair
        pair.verified()


def written(pair: Pair) -> None:
    for room in (1, 2):
        pair.same("open_room", room_id=room, title=f"room {room}")
        for seq in range(1, 6):
            sender = "ann" if seq % 2 else "bob"
            pair.same("post", room=room, seq=seq, sender=sender, stars=seq * 3 % 5, pinned=None, body="x" * seq)
            pair.same("reply", room=room, number=seq, votes=-seq, text="y")


def everything(chat: Pair) -> None:
    for room in (1, 2, 3):
        for name in ("recent", "starred", "pinned", "voted", "room"):
            chat.same(name, room=room)
        for sender in ("ann", "bob", ""):
            chat.same("of_sender", room=room, sender=sender)
        chat.same("with_stars", room=room, low=1, high=3)


def test_every_order_shows_what_was_written(chat: Pair) -> None:
    everything(chat)


def test_a_row_moves_in_one_order_and_stays_in_the_others(chat: Pair) -> None:
    chat.same("star", room=1, seq=2, stars=10)
    assert chat.same("starred", room=1)[0]["seq"] == 2
    chat.same("rewrite", room=1, seq=4, sender="ann", body="new")
    chat.same("vote", room=2, number=5, votes=7)
    everything(chat)


def test_a_value_that_comes_and_goes(chat: Pair) -> None:
    chat.same("pin", room=1, seq=3, pinned=2)
    chat.same("pin", room=1, seq=1, pinned=5)
    everything(chat)
    chat.same("pin", room=1, seq=3, pinned=None)
    everything(chat)


def test_a_row_that_is_gone_is_gone_from_all_orders(chat: Pair) -> None:
    chat.same("remove", room=1, seq=4)
    with pytest.raises(ConflictError):
        chat.same("post", room=1, seq=5, sender="ann", stars=0, pinned=None, body="again")
    everything(chat)
