"""Indexes that are kept when a model grows keep their names: `apply` makes the new one, and leaves the others alone."""

from __future__ import annotations

import keyplan
from keyplan.engines.dynamodb.naming import named_as_before
from keyplan.model.load import parse_model
from keyplan.plan.design import Design, Structure
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of

PARCELS = """
keyplan: 1
name: parcels
targets: { dynamodb: { billing: on_demand } }
entities:
  Parcel:
    count: 10M
    fields:
      tracking: string(14), key
      depot: string(5), distinct 300
      sender: string(12), distinct 200k
      due: date
      weight: decimal(3)
      address: text(900)
patterns:
  parcel: { find: Parcel, where: "tracking = :tracking", rate: 100/s }
  due_at: { find: Parcel, where: "depot = :depot", order: due, page: 20, select: [tracking, due], rate: 20/s }
  # NEW
writes:
  book: { create: Parcel, rate: 20/s }
"""
NEW = 'of_sender: { find: Parcel, where: "sender = :sender", order: due desc, page: 50, rate: 100/s, p99: 10ms }'


def index_of(design: Design, pattern: str) -> Structure:
    (found,) = (one for one in design.structures if any(pattern in design.figures[v].because for v in one.views))
    return found


def test_what_is_kept_is_not_made_again(dynoxide: Server) -> None:
    before, model = parse_model(PARCELS), parse_model(PARCELS.replace("# NEW", NEW))
    locked = keyplan.design(before, "dynamodb")
    assert index_of(locked, "due_at").name == "GSI1"
    alone = keyplan.design(model, "dynamodb")
    assert index_of(alone, "due_at").name == "GSI2", "whole rows come first; otherwise this says little"
    kept = keyplan.design(model, "dynamodb", keep=locked)
    assert index_of(kept, "due_at").name == "GSI1"
    assert index_of(kept, "of_sender").name == "GSI2"
    assert [one.name for one in kept.structures] == ["parcels", "GSI1", "GSI2"]
    url = url_of(dynoxide.url)
    keyplan.apply(before, url, design=locked)
    row = {"depot": "d1", "sender": "s1", "due": "2025-01-01", "weight": "1.5", "address": "there"}
    with keyplan.open(before, url, design=locked) as store:
        store.load(("Parcel", {"tracking": f"t{number}", **row}) for number in range(30))
    steps = keyplan.apply(model, url, design=kept, wait=False)
    assert not [step for step in steps if "delete" in step]
    assert [step for step in steps if step.startswith("create the index")] == [
        "create the index GSI2 (ALL) and fill it"
    ]
    with keyplan.open(model, url, design=kept) as store:
        assert len(store.of_sender(sender="s1").rows) == 30
        assert len(list(store.due_at.all(depot="d1"))) == 30
        assert store.verify().ok


def test_names_go_to_who_had_them() -> None:
    def index(name: str, *views: str) -> Structure:
        return Structure(name, "gsi", views)

    table = Structure("t", "table", ("home",))
    old = {"a": index("GSI1", "a"), "b": index("GSI2", "b", "c", "d"), "e": index("GSI4", "e")}
    before = {"a": (old["a"], "a"), "e": (old["e"], "e")} | {name: (old["b"], name) for name in "bcd"}
    packed = (table, index("GSI1", "n"), index("GSI2", "a", "b"), index("GSI3", "c", "d"), index("GSI4", "e", "m"))
    found = named_as_before(packed, before)
    assert [(one.name, one.views) for one in found] == [
        ("t", ("home",)),
        ("GSI1", ("a", "b")),
        ("GSI2", ("c", "d")),
        ("GSI3", ("n",)),
        ("GSI4", ("e", "m")),
    ]
    assert named_as_before(packed, {}) == packed
