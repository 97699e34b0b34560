"""What `return:` of a write says is what that very write left behind, however many others write the same row."""

from __future__ import annotations

import threading
from dataclasses import replace

import keyplan
from keyplan.errors import ConflictError
from keyplan.model.load import parse_model
from keyplan.store.store import Store
from tests.engines.harness import Harness

WRITERS, WRITES = 4, 8

MODEL = """
keyplan: 1
name: tickets
entities:
  Desk:
    count: 10k
    fields:
      desk_id: string(8), key
      hall: string(8)
      next: int, default 0
patterns:
  desk: { find: Desk, where: "desk_id = :desk", rate: 1000/s, consistency: strong }
  desks: { find: Desk, where: "hall = :hall", order: next desc, limit: 10, rate: 1000/s, consistency: strong }
writes:
  add_desk: { create: Desk, rate: 1/day }
  draw: { update: Desk, add: { next: 1 }, where: "desk_id = :desk", return: [next], rate: 1/s }
  close_desk: { delete: Desk, where: "desk_id = :desk", return: [next], rate: 1/day }
"""


def opened(harness: Harness, url: str) -> Store:
    return keyplan.open(replace(parse_model(MODEL), targets=harness.targets), url)


def test_no_number_is_drawn_twice(harness: Harness) -> None:
    """The row stands in two places, so that one call writes several entries; each caller sees a number of its own."""
    url = harness.replicated.url()
    model = replace(parse_model(MODEL), targets=harness.targets)
    keyplan.apply(model, url)
    drawn: list[int] = []
    failed: list[BaseException] = []

    def draw() -> None:
        try:
            with opened(harness, url) as store:
                for _ in range(WRITES):
                    while True:
                        try:
                            drawn.append(store.draw(desk="d")["next"])
                            break
                        except ConflictError:  # too many others at once; nothing was drawn
                            continue
        except BaseException as error:
            failed.append(error)

    with opened(harness, url) as store:
        store.add_desk(desk_id="d", hall="h")
        threads = [threading.Thread(target=draw) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed
        assert sorted(drawn) == list(range(1, WRITERS * WRITES + 1))
        assert store.desk(desk="d")["next"] == WRITERS * WRITES
        assert store.close_desk(desk="d") == {"next": WRITERS * WRITES}
        assert store.verify().ok
