"""Models of any size for measuring the designer: 3 patterns and 1.5 writes per entity, the same for the same size.

Entities form families, as in real systems: a few that stand alone, many that belong to one of those, some that belong
to two. Patterns are the usual ones: gets by key, pages by equality and order, ranges over time, values of a parent,
children along with their parent, counts.
"""

from __future__ import annotations

import random
from typing import Any

import yaml

Fields = dict[str, Any]


def model_text(entities: int, seed: int = 1) -> str:
    """A model as YAML."""
    return yaml.safe_dump(_Maker(entities, seed).model(), sort_keys=False, width=200)


class _Maker:
    def __init__(self, entities: int, seed: int) -> None:
        self.source = random.Random(f"{entities} {seed}")
        self.names = [f"E{number}" for number in range(entities)]
        self.parents: dict[str, list[str]] = {}
        self.children: dict[str, list[tuple[str, str]]] = {name: [] for name in self.names}
        self.counts: dict[str, int] = {}
        for number, name in enumerate(self.names):
            self._place(number, name)

    def _place(self, number: int, name: str) -> None:
        """Every fourth entity stands alone; the others belong to one before them, some to two."""
        near = self.names[max(0, number - 6) : number]
        wanted = 0 if number % 4 == 0 else 2 if number % 4 == 3 and len(near) > 1 else 1
        self.parents[name] = self.source.sample(near, wanted) if near else []
        base = self.source.choice((10_000, 100_000, 1_000_000))
        most = max((self.counts[parent] for parent in self.parents[name]), default=0)
        self.counts[name] = min(2_000_000_000, max(base, most * self.source.choice((3, 10, 30))))
        for parent in self.parents[name]:
            self.children[parent].append((name, f"{name.lower()}s"))

    def _is_few(self, parent: str, child: str) -> bool:
        return self.counts[child] <= 30 * self.counts[parent]

    def model(self) -> Fields:
        model: Fields = {"keyplan": 1, "name": f"generated{len(self.names)}", "entities": {}, "patterns": {}}
        model["writes"] = {}
        for name in self.names:
            model["entities"][name] = self._entity(name)
        for number, name in enumerate(self.names):
            kinds = [self._get, self._page, self._range, self._with_parent, self._with_children, self._count]
            for place in range(3):
                # A get first; then two of the rest, in turn, so that every kind occurs in every size.
                kind = kinds[0] if place == 0 else kinds[1 + (2 * number + place - 1) % 5]
                model["patterns"][f"{name.lower()}_{place}"] = kind(name)
            model["writes"][f"create_{name.lower()}"] = {"create": name, "rate": self._rate(0.1)}
            if number % 2 == 0:
                model["writes"][f"change_{name.lower()}"] = self._change(name, number)
        return model

    def _entity(self, name: str) -> Fields:
        fields: Fields = {"id": f"{self.source.choice(('uuid', 'ulid', 'string(12)'))}, key"}
        for place, parent in enumerate(self.parents[name]):
            most = ", max 200" if self._is_few(parent, name) else ""
            fields[f"p{place}"] = f"{parent}, as {name.lower()}s{most}"
        fields["name"] = "string(20)"
        fields["status"] = "enum(open 5%, active 25%, closed 70%), default open"
        fields["kind"] = f"string(8), distinct {self.source.choice((5, 20, 100))}"
        fields["amount"] = "decimal(2)"
        fields["created_at"] = "timestamp, now"
        fields["note"] = "text(120), optional 20%"
        return {"count": self.counts[name], "fields": fields}

    def _rate(self, scale: float) -> str:
        return f"{max(1, round(self.source.choice((1, 5, 20, 100)) * scale * 86400))}/day"

    def _find(self, name: str, where: str, **more: Any) -> Fields:
        return {"find": name, "where": where, **more, "rate": self._rate(1)}

    def _get(self, name: str) -> Fields:
        return self._find(name, "id = :id")

    def _page(self, name: str) -> Fields:
        """The newest of a parent, or of a kind."""
        where = "p0 = :p0" if self.parents[name] else "kind = :kind"
        return self._find(name, where, order="created_at desc", page=20)

    def _range(self, name: str) -> Fields:
        """Of one parent and status, or of one status, since some time."""
        first = "p0 = :p0 and " if self.parents[name] else ""
        fields = {"order": "created_at desc", "page": 50, "rows": 30}
        return self._find(name, f"{first}status = :status and created_at >= :since", **fields)

    def _with_parent(self, name: str) -> Fields:
        if not self.parents[name]:
            return self._find(name, "kind = :kind", order="name", select=["id", "name", "amount"], page=20)
        last = len(self.parents[name]) - 1
        select = ["id", "name", "amount", "p0.name", *(["p1.name"] if last else [])]
        return self._find(name, f"p{last} = :parent", order="created_at", select=select, page=20)

    def _with_children(self, name: str) -> Fields:
        """A row with what belongs to it, where that is not too much."""
        few = [role for child, role in self.children[name] if self._is_few(name, child)]
        return self._find(name, "id = :id", **({"with": [few[0]]} if few else {"select": ["id", "name", "status"]}))

    def _count(self, name: str) -> Fields:
        where = "p0 = :p0" if self.parents[name] else "status = 'open'"
        return {"count": name, "where": where, "rate": self._rate(0.2)}

    def _change(self, name: str, number: int) -> Fields:
        change: Fields = {"where": "id = :id", "rate": self._rate(0.1)}
        if number % 8 == 6:
            return {"delete": name, **change}
        sets: list[str] = [["status"], ["name"], ["amount", "note"]][number // 2 % 3]
        return {"update": name, "set": sets, **change}
