"""What work costs on MongoDB: milliseconds of the server per second of the model's traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyplan.engines.mongodb.fit import fit
from keyplan.engines.work import Cost, CostModel, Couplings, LinearRow, Rejection, TouchWork, ViewFacts, Work
from keyplan.model.model import Model
from keyplan.plan.view import View

SCAN_ROWS = 20_000


class MongoCosts(CostModel):
    """Prices work in server time."""

    unit = "server ms/s"
    per_second = 1.0
    transactional = True

    def __init__(self, model: Model) -> None:
        self.model = model

    def fit(self, view: View, facts: ViewFacts) -> View | Rejection:
        return fit(self.model, view, facts)

    def entry_bytes(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        if at:
            embed = facts.embeds[".".join(at)]
            return sum(len(name) + 7 for name in embed.value_bytes) + sum(embed.value_bytes.values()) + 10
        if view.kind == "index":
            return facts.key_bytes + 12
        names = sum(len(name) + 7 for name in facts.value_bytes)
        return names + sum(facts.value_bytes.values()) + 10 + (facts.key_bytes if view.measures else 0)

    def read(self, work: Work) -> Cost:
        entries = work.entries * work.requests
        size = work.entry_bytes
        for role in work.along:
            size += self.entry_bytes(work.view, work.facts, (role,)) * work.facts.embeds[role].per_parent
        per_entry = 1.0 + size * 0.005
        if work.view.kind == "index" and not work.covered:
            per_entry += 2.0 + work.facts.row_bytes * 0.005
        if work.at:
            per_entry = 0.5 + size * 0.005
        requests = max(1.0, work.requests / 100) if work.get else work.requests
        micros = requests * 60.0 + work.requests * 5.0 + entries * per_entry
        worst = micros + max(0.0, work.most_entries - work.entries) * per_entry
        return Cost(micros / 1000, {"entries": entries}, worst / 1000)

    def touch(self, work: TouchWork) -> Cost:
        if work.view.kind == "index":
            changed = work.puts + 2 * work.moves + work.deletes
            return Cost(changed * 8.0 / 1000, {"entries": changed})
        changed = work.puts + work.patches + 2 * work.moves + work.deletes + work.adds
        micros = changed * ((20.0 if work.at else 100.0) + work.entry_bytes * 0.01)
        return Cost(micros / 1000, {"entries": changed}, micros / 1000)

    def keep(self, view: View, facts: ViewFacts) -> float:
        return facts.rows * self.entry_bytes(view, facts) / 1e9 * 0.01

    def round_ms(self, kind: str) -> float:
        return 0.5

    def scans(self, facts: ViewFacts, entries: float) -> bool:
        return entries <= SCAN_ROWS

    def couplings(self, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Couplings:
        """An index is over the documents of its entity: with rows embedded elsewhere it needs a home of their own."""
        rows = []
        for embedding in views:
            for embed in embedding.embeds:
                key = set(self.model.entities[embed.entity].key)
                own = {
                    view.name: -1.0
                    for view in views
                    if view.entity == embed.entity
                    and view.kind == "collection"
                    and not (view.measures or view.where or view.unique)
                    and {part.path for part in view.parts} == key
                    and set(self.model.entities[embed.entity].stored) <= set(view.holds)
                }
                for view in views:
                    if view.kind == "index" and view.entity == embed.entity:
                        rows.append(LinearRow({embedding.name: 1.0, view.name: 1.0, **own}, high=1.0))
        return Couplings(rows=rows)


def cost_model(model: Model) -> MongoCosts:
    """The cost model."""
    return MongoCosts(model)
