"""What children tell of the row that they come with: where all of them are read, nothing else has to be for how many
there are, or for sums, least and greatest values of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from keyplan.design.needs.need import Tree, computed_needs
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from keyplan.model.pattern import Compute, term_paths
from keyplan.plan.steps import Tell


@dataclass(frozen=True)
class Told:
    """Trees of children, and what they tell."""

    trees: tuple[Tree, ...]
    tells: tuple[Tell, ...] = ()

    @cached_property
    def paths(self) -> frozenset[str]:
        """What need not be looked up any more."""
        return frozenset(path for tell in self.tells for path in tell.paths)


NOTHING_TOLD = Told(())


def told_by(model: Model, entity: str, asked: Set[str], trees: Sequence[Tree], *, widened: bool) -> Told:
    """The computed columns among those `asked` for that trees of children tell.

    More is taken of the children for it only if the trees may be `widened`, and nothing that is computed itself.
    """
    found: list[Tree] = []
    tells: list[Tell] = []
    for tree in trees:
        *above, role = tree.role.split(".")
        owner = model.entities[model.entity_at(entity, tuple(above))]
        child = model.entities[owner.roles[role].entity]
        taken = {*child.key, *tree.select.columns}
        able = taken.union(child.stored) if widened else taken
        computes = [one for one in _computes(model, owner, role, above, asked) if _made_of(one) <= able]
        if tree.select.limit is not None or len(above) > 1:
            computes = []  # not all of them come; or, of a row behind one that is gone, nothing is computed
        if computes:
            more = set().union(*map(_made_of, computes)) - taken
            columns = tuple(name for name in child.columns if name in {*tree.select.columns, *more})
            reference = model.entities[entity].roles[above[0]].columns if above else ()
            tells.append(Tell(tree.role, tuple(computes), reference=reference))
            tree = replace(tree, select=replace(tree.select, columns=columns)) if more else tree
        found.append(tree)
    return Told(tuple(found), tuple(tells))


def _computes(model: Model, owner: Entity, role: str, above: Sequence[str], asked: Set[str]) -> Iterator[Compute]:
    """The computed columns asked for of the row that has these children."""
    prefix = "".join(f"{name}." for name in above)
    inner = {text.removeprefix(prefix) for text in asked if text.startswith(prefix)}
    of_role = [
        column.name
        for column in owner.columns.values()
        if column.name in inner and column.computed is not None and column.computed.role == role
    ]
    for _, need in computed_needs(model, owner.name, of_role, strong=False):
        assert need.fold is not None
        yield from need.fold.compute


def _made_of(compute: Compute) -> set[str]:
    """The columns of the children that have to be known."""
    return {path.column for path in term_paths(compute.term)}
