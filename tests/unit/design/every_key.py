"""Candidates by brute force: every sequence of the parts that an entity's needs mention, split at every place.

Contents, homes, guards, embeds and counters are those of the designer; what is measured with it is the family of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations

from keyplan.design.candidates.keys import Keys, Shape
from keyplan.design.candidates.match import RANGES
from keyplan.design.needs.need import Need
from keyplan.model.pattern import Condition, Path
from keyplan.plan.view import Part


class TooManyKeysError(Exception):
    """More keys than a test can afford."""


class EveryKey(Keys):
    """All subsets and permutations instead of closed sets and chains."""

    most_parts = 4
    most_shapes = 150

    def shapes(self, entity: str, needs: list[Need]) -> list[Shape]:
        # The designer's own family comes first, so that this one can never be worse.
        shapes = {(s.partition, s.sort, s.where): s for s in super().shapes(entity, needs)}
        parts = list(dict.fromkeys(part for need in needs for part in self._mentioned(need)))
        if len(parts) > self.most_parts:
            raise TooManyKeysError
        key = [Part(column) for column in self.model.entities[entity].key]
        inverted = any(part.descending for part in parts)
        for where in self._conditions(entity, needs):
            for sequence in _sequences(parts):
                rest = [part for part in key if all(part.path != other.path or other.cut for other in sequence)]
                for down in (False, True) if inverted else (False,):
                    full = (*sequence, *(replace(part, descending=down) for part in rest))
                    for split in range(len(full) + 1):
                        shape = Shape(entity, full[:split], full[split:], where)
                        shapes.setdefault((shape.partition, shape.sort, shape.where), shape)
        if len(shapes) > self.most_shapes:
            raise TooManyKeysError
        return list(shapes.values())

    def _mentioned(self, need: Need) -> Iterator[Part]:
        entity = need.entity
        for condition in need.given:
            part = self.part_of(entity, condition)
            if part is not None:
                yield part
            elif condition.op in RANGES and self._is_ordered(entity, condition.path):
                yield Part(str(condition.path))
        first = need.order[0].descending if need.order else False
        for term in need.order:
            if self._is_ordered(entity, term.path):
                yield Part(str(term.path), descending=term.descending != first)

    def _is_ordered(self, entity: str, path: Path) -> bool:
        """Whether rows can be kept in the order of a path; what is computed there included, where a key follows it."""
        if self.model.is_many(entity, path.roles):
            return False
        return self.model.column(entity, path).type.is_ordered and self._is_keyable(entity, path)

    def _conditions(self, entity: str, needs: list[Need]) -> list[tuple[Condition, ...]]:
        """Every choice of the literal conditions of one need."""
        found: dict[tuple[Condition, ...], None] = {(): None}
        for need in needs:
            for literal in self.sparse(entity, need):
                for size in range(len(literal) + 1):
                    found |= dict.fromkeys(combinations(literal, size))
        return list(found)


def _sequences(parts: list[Part]) -> Iterator[tuple[Part, ...]]:
    for size in range(len(parts) + 1):
        for sequence in permutations(parts, size):
            if len({part.path for part in sequence if part.cut is None}) == sum(part.cut is None for part in sequence):
                yield sequence
