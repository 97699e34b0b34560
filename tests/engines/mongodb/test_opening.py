"""What opening a store, and looking whether anything has to be applied, asks the server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import keyplan
from keyplan.engines import get_engine
from keyplan.engines.changing import Catalog
from keyplan.engines.rounds import Proc
from tests.conformance.pair import parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  User: { fields: { uid: "int, key", name: string(8) } }
  Post: { fields: { pid: "int, key", user: "User, as posts", at: timestamp } }
  Tag: { fields: { word: "string(8), key" } }
patterns:
  user: { find: User, where: "uid = :uid" }
  posts: { find: Post, where: "user = :uid", order: at desc, page: 10 }
  tag: { find: Tag, where: "word = :word" }
writes:
  join: { create: User }
  post: { create: Post }
  tagged: { create: Tag }
"""


def test_opening_takes_two_requests_however_many_collections_there_are(mongodb: Harness) -> None:
    model, url = parsed(MODEL), mongodb.url()
    design = keyplan.design(model, "mongodb", advise=False)
    keyplan.apply(model, url, design=design)
    engine = get_engine("mongodb")
    glanced, asked = _answered(engine.glance(model, design), url)
    assert asked == {"listCollections": 1, "find": 1}
    inspected, asked = _answered(engine.inspect(model, design), url)
    collections = inspected.found["collections"]
    assert len(collections) == 3
    # Whether they are empty is asked only where documents would be in the way.
    assert asked == {"listCollections": 1, "find": 1, "listIndexes": 3}
    assert glanced.found["collections"].keys() == collections.keys()
    assert (glanced.design_hash, glanced.lock) == (inspected.design_hash, inspected.lock)


def _answered(proc: Proc[Catalog], url: str) -> tuple[Catalog, Counter[str]]:
    """What is found, and the commands that it took."""
    port = get_engine("mongodb").connect(url, parsed(MODEL), None)
    asked: Counter[str] = Counter()
    replies: Any = None
    try:
        while True:
            round: Any = proc.send(replies)
            asked.update(next(iter(request.body)) for request in round)
            replies = port.send(round)
    except StopIteration as done:
        return done.value, asked
    finally:
        port.close()
