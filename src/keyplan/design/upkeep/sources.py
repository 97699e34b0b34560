"""The rows that values are copied from into a new or re-pointed entry: each is read once, and checked once, however
many views copy from it and whatever they copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keyplan.design.upkeep.effects import Check, Demand, Effect
from keyplan.design.upkeep.keeping import Keeping
from keyplan.model.model import path_of
from keyplan.model.pattern import Path
from keyplan.model.write import Write
from keyplan.plan.view import View


class Sources(Keeping):
    """What copying takes besides the entries themselves."""

    def _copies(self, write: Write, effect: Effect, view: View, anew: bool) -> tuple[list[Demand], list[Check]]:
        """The rows to be read for what an entry copies, and those of them that are checked."""
        demands: dict[str, Demand] = {}
        checks: dict[str, Check] = {}
        for path in self._copied_anew(effect, view, anew):
            rows, roles = effect, path.roles
            while rows.above is not None and roles and roles[0] in rows.parents_known:
                rows, roles = rows.above, roles[1:]  # which the same call writes
            owner, times = rows.entity, rows.times
            for depth, name in enumerate(roles):
                role = self.model.entities[owner].roles[name]
                label = f"{rows.entity}.{'.'.join(roles[: depth + 1])}"
                times = min(times * self.statistics.present(owner, role.columns[0]), self.statistics.rows(role.entity))
                demands[label] = Demand(write.name, "copy", label, self._row_behind(owner, name), times)
                if self._may_change(role.entity, Path(roles[depth + 1 :], path.column)) and label not in checks:
                    checks[label] = self._check(label, role.entity, times, rows.most)
                owner = role.entity
        return list(demands.values()), list(checks.values()) if self.costs.transactional else []

    def _copied_anew(self, effect: Effect, view: View, anew: bool) -> Iterator[Path]:
        """The paths whose values are read for an entry: all of one that is `anew`, else those behind references that
        change."""
        roles = self.model.entities[view.entity].roles
        for text in sorted(self._copied(view)):
            path = path_of(text, self.model, view.entity)
            if effect.kind != "update" or anew or set(roles[path.roles[0]].columns) & effect.columns:
                yield path

    def _may_change(self, entity: str, path: Path) -> bool:
        """Whether some write changes, in a row that is there, what is copied from it, or where it leads."""
        here = self.model.entities[entity]
        if path.roles:
            return bool(set(here.roles[path.roles[0]].columns) & self._changing[entity])
        # What is computed changes with other rows, whether or not any write changes its own.
        return here.columns[path.column].computed is not None or path.column in self._changing[entity]

    def _check(self, label: str, entity: str, times: float, most: float) -> Check:
        """In the same request, at the price of writing the row."""
        _, _, size = self._home(entity)
        return replace(self._once(label, entity, times, size=size), most=most)
