"""What a view lacks of what a need wants: the rest of the row, what is computed, values behind references, children.

Each is a need of its own, so often per row that is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from keyplan.design.candidates.homes import is_home
from keyplan.design.candidates.keys import changing_columns
from keyplan.design.candidates.match import Match
from keyplan.design.candidates.overflow import begins, chance_of_more, rows_if_more
from keyplan.design.needs.computed import is_keyable
from keyplan.design.needs.need import (
    Need,
    Tree,
    computed_needs,
    row_by_key,
    row_of_role,
    rows_of_role,
    select_paths,
    wanted,
)
from keyplan.design.needs.subsets import serves
from keyplan.design.needs.told import NOTHING_TOLD, Told, told_by
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Outer, Path, Select
from keyplan.plan.steps import Tell
from keyplan.plan.view import Embed, View

Variant = Literal["plain", "fuller", "apart"]
"""How children are had, where there is a choice: they come along as far as they can; `fuller`: also such as are all
there are, unless there are many; `apart`: none does, and each role is read by itself."""

OWN_ROW = ""
"""The name of the row itself among those that may keep what is computed of them; others are named by their roles."""

GONE_SHARE = 1e-6
"""References that lead nowhere, of all: in the ordinary course there are none. It is enough to tell the ways apart in
which something is computed for them."""


@dataclass(unsafe_hash=True, slots=True)
class Extra:
    """Something that a view lacks of what is wanted: a need of its own, so often per row."""

    role: str
    what: str
    need: Need
    times: float
    under: tuple[str, ...] = ()
    select: Select | None = None
    early: bool = False
    beyond: int | None = None
    """children: only for rows with which so many came along, as there may be more."""
    chance: float = 1.0
    """How often a row has so many."""
    if_gone: bool = False
    """computed: only where the row is not there that `role` leads to, and which else would have kept it."""

    @property
    def keeper(self) -> str | None:
        """The name of the row that may keep it, if it is computed."""
        *roles, _ = self.role.split(".")
        return ".".join((*self.under, *roles)) if self.what == "computed" and (roles or not self.under) else None


def outer_paths(need: Need) -> set[str]:
    """What a need takes from the row that it is asked for."""
    return {one.path for condition in need.given for one in condition.operands if isinstance(one, Outer)}


class Extras:
    """What has to be fetched besides, worked out for the ways of one design problem."""

    def __init__(self, model: Model, statistics: Statistics, kinds: Mapping[str, Kind], views: Sequence[View]) -> None:
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self._views = views
        self._beside: dict[str, set[str]] = {}
        self._rows: dict[tuple[str, frozenset[str], bool, frozenset[str]], Need] = {}
        self._children: dict[tuple[str, Tree, bool], Need] = {}

    def told(self, need: Need, found: Match, *, widened: bool) -> Told:
        """What the children of rows tell that come with these, of all that the view does not hold."""
        if not need.trees:
            return NOTHING_TOLD
        asked = self._asked(found)
        waiting = self._waiting(need, found) if asked else ()
        told = told_by(
            self.model, need.entity, asked, [one for one in need.trees if one not in waiting], widened=widened
        )
        return replace(told, trees=(*told.trees, *waiting)) if waiting else told

    def _asked(self, found: Match) -> set[str]:
        """The paths that are wanted or tested and that the view does not hold."""
        asked = set(found.missing)
        for condition in found.left:
            asked |= {str(path) for path in (condition.path, *condition.also)}
        return asked - set(found.view.holds) if not found.at else asked

    def lacking(
        self, need: Need, found: Match, rows: float, keepers: Set[str], told: Set[str] = frozenset()
    ) -> list[Extra] | None:
        """The columns and values behind roles that the view does not hold; None if they cannot be fetched from it.

        What is computed is worked out anew, or comes with the row that may keep it: its own if that is read, and those
        of these names, which are read for that alone if need be; or children have `told` it.
        """
        waiting = self._waiting(need, found)
        if not found.missing and not found.left and not waiting:
            return []
        model = self.model
        here = model.entities[need.entity]
        asked = self._asked(found) - told
        for tree in waiting:
            asked |= outer_paths(self._child_rows(need, tree))
        computed = {text for text in asked if text in here.columns and here.columns[text].computed is not None}
        own = {text for text in asked - computed if text in here.columns}
        behind = asked - own - computed
        extras: list[Extra] = []
        if own or OWN_ROW in keepers:
            own, computed = own | computed, set()
        if own:
            # The row's own home has to be read: everything that hangs on it comes with it.
            fixed = {c.path.column for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
            if set(here.key) <= fixed:
                return None  # the key is known: reading the row at once is never dearer
            known = self._beside_keys(need.entity) & self._reachable(found)
            whole = self._row(need.entity, own | behind, need.strong, known)
            extras.append(Extra("", "row", replace(whole, trees=waiting) if waiting else whole, rows))
        else:
            reachable = self._reachable(found)
            for name, inner in self._by_role(need.entity, behind):
                role = here.roles[name]
                if role.many or not set(role.columns) <= reachable:
                    return None
                times = rows * self.statistics.present(need.entity, role.columns[0])
                below = tuple(
                    Tree(tree.role.removeprefix(f"{name}."), tree.select)
                    for tree in waiting
                    if tree.role.startswith(f"{name}.")
                )
                kept = name in keepers
                extras.extend(self._behind(need.entity, name, inner, need.strong, times, (), below, kept=kept))
        for together, inner_need in computed_needs(model, need.entity, computed, need.strong):
            extras.append(Extra(", ".join(together), "computed", inner_need, rows))
        return extras

    def _waiting(self, need: Need, found: Match) -> tuple[Tree, ...]:
        """The children of rows behind references that the view does not hold: they come with what is read for these."""
        if not need.trees:
            return ()
        behind = [tree for tree in need.trees if "." in tree.role]
        reachable = self._reachable(found) if behind else set()
        return tuple(tree for tree in behind if not outer_paths(self._child_rows(need, tree)) <= reachable)

    def _row(self, entity: str, paths: Set[str], strong: bool, known: Set[str]) -> Need:
        """One row by its key; the same need for the same paths, whichever view lacks them."""
        asked = (entity, frozenset(paths), strong, frozenset(known))
        if asked not in self._rows:
            need = row_by_key(self.model, entity, paths, strong=strong)
            self._rows[asked] = replace(need, known=asked[3]) if known else need
        return self._rows[asked]

    def _beside_keys(self, entity: str) -> set[str]:
        """What keys of possible homes have besides the entity's own and never changes, so that it is as true in every
        other view."""
        if entity not in self._beside:
            homes = (view for view in self._views if view.entity == entity and is_home(self.model, self.kinds, view))
            paths = {part.path for view in homes for part in view.parts if part.ways == 1 and part.cut is None}
            self._beside[entity] = paths - set(self.model.entities[entity].key) - changing_columns(self.model)[entity]
        return self._beside[entity]

    def _reachable(self, found: Match) -> set[str]:
        """The paths that a read of the view, or of what it embeds, can deliver."""
        embed = found.view.embed_at(found.at)
        if embed is not None:
            return set(embed.holds)
        stored = self.model.entities[found.view.entity].stored if self.kinds[found.view.kind].holds_all else ()
        return {*found.view.holds, *stored}

    def _by_role(self, entity: str, paths: Set[str]) -> Iterator[tuple[str, set[str]]]:
        """Paths by the role that they begin with, as seen from the row behind it."""
        for name in sorted({path_of(text, self.model, entity).roles[0] for text in paths}):
            yield name, {text[len(name) + 1 :] for text in paths if text.startswith(name + ".")}

    def children(
        self,
        need: Need,
        found: Match,
        rows: float,
        document: View | None,
        variant: Variant,
        keepers: Set[str],
        *,
        widened: bool = False,
    ) -> tuple[dict[str, Select], list[Extra], list[Tell]] | None:
        """The children that come along with the rows, those that have to be fetched, and what theirs tell of these;
        None if that cannot be."""
        along: dict[str, Select] = {}
        extras: list[Extra] = []
        tells: list[Tell] = []
        if not need.trees:
            return along, extras, tells
        at = found.view.embed_at(found.at)
        embeds = {embed.role: embed for embed in (document or at or found.view).embeds}
        waiting = self._waiting(need, found)
        for tree in need.trees:
            if tree in waiting:
                continue
            embed = embeds.get(tree.role)
            ordered = embed is not None and not any(term.path.roles for term in tree.select.order)
            ordered = ordered and variant != "apart"
            if embed is None or not ordered or not serves(self.model, need.entity, embed, tree.select):
                apart = Extra(tree.role, "children", self._child_rows(need, tree), rows, (), tree.select)
                if embed is None or variant != "fuller" or not begins(self.model, need.entity, embed, tree.select):
                    extras.append(apart)
                    continue
                extras.append(self._if_more(need.entity, embed, apart))
            under = self._under(need, tree.role, tree.select, embed, rows, keepers, widened=widened)
            if under is None:
                return None
            along[tree.role] = tree.select
            extras.extend(under[0])
            tells.extend(under[1])
        return along, extras, tells

    def _if_more(self, entity: str, embed: Embed, apart: Extra) -> Extra:
        """Children that are fetched only for rows with which as many came along as are kept with any."""
        chance = chance_of_more(self.statistics, entity, embed)
        need = replace(apart.need, when_many=rows_if_more(self.statistics, entity, embed))
        return replace(apart, need=need, times=apart.times * chance, beyond=embed.limit, chance=chance)

    def _child_rows(self, need: Need, tree: Tree) -> Need:
        """The children that a tree is of, which is asked for by every way to the rows that have them."""
        asked = (need.entity, tree, need.strong)
        if asked not in self._children:
            self._children[asked] = self._rows_of_tree(need, tree)
        return self._children[asked]

    def _rows_of_tree(self, need: Need, tree: Tree) -> Need:
        *above, role = tree.role.split(".")
        owner = self.model.entity_at(need.entity, tuple(above))
        child = rows_of_role(self.model, owner, role, tree.select, need.strong)
        if not above:
            return child
        prefix = ".".join(above)
        return replace(child, given=tuple(self._outer_through(need.entity, prefix, c) for c in child.given))

    def _behind(
        self,
        entity: str,
        role: str,
        paths: set[str],
        strong: bool,
        times: float,
        under: tuple[str, ...],
        trees: tuple[Tree, ...] = (),
        *,
        kept: bool = False,
    ) -> Iterable[Extra]:
        """The row behind a to-one role, with children of rows that it leads to.

        Its computed columns depend on the key alone and need no row. Those that can be kept may come with it all the
        same; then they are worked out only where the row is gone.
        """
        target = self.model.entities[self.model.entities[entity].roles[role].entity]
        computed = {text for text in paths if text in target.columns and target.columns[text].computed is not None}
        along = {text for text in computed if kept and is_keyable(self.model, target.name, Path((), text))}
        yield from self._computed_behind(entity, role, computed - along, strong, times, under)
        if paths - computed or along:
            need = row_of_role(self.model, entity, role, paths - computed | along, strong)
            yield Extra(role, "row", replace(need, trees=trees) if trees else need, times, under)
        for extra in self._computed_behind(entity, role, along, strong, times * GONE_SHARE, under):
            yield replace(extra, chance=GONE_SHARE, if_gone=True)

    def _computed_behind(
        self, entity: str, role: str, columns: Set[str], strong: bool, times: float, under: tuple[str, ...]
    ) -> Iterable[Extra]:
        """Computed columns of the row behind a to-one role, by the key that leads there."""
        target = self.model.entities[entity].roles[role].entity
        for together, need in computed_needs(self.model, target, columns, strong):
            given = tuple(self._outer_through(entity, role, condition) for condition in need.given)
            label = together[0] if len(together) == 1 else f"({', '.join(together)})"
            yield Extra(f"{role}.{label}", "computed", replace(need, given=given), times, under)

    def is_keepable(self, entity: str, extra: Extra) -> bool:
        """Whether something of what is computed behind a role can be kept there; `entity` is that of the need."""
        if extra.keeper is None or extra.need.fold is None:
            return False
        owner = self.model.entity_at(entity, tuple(extra.keeper.split(".")))
        return any(is_keyable(self.model, owner, Path((), one.name)) for one in extra.need.fold.compute)

    def _outer_through(self, entity: str, prefix: str, condition: Condition) -> Condition:
        operand = condition.operands[0]
        assert isinstance(operand, Outer)
        path = self.model.resolve(entity, f"{prefix}.{operand.path}")
        return replace(condition, operands=(Outer(str(path)),))

    def _under(
        self, need: Need, role: str, select: Select, embed: Embed, rows: float, keepers: Set[str], *, widened: bool
    ) -> tuple[list[Extra], list[Tell]] | None:
        """What embedded children lack, fetched for each of them, and what their own children tell."""
        model = self.model
        entity = embed.entity
        here = model.entities[entity]
        times = rows * self.statistics.fan_out(need.entity, role)
        if select.limit:
            times = min(times, rows * select.limit)
        paths, trees = select_paths(model, entity, select)
        lacking = set(wanted(model, entity, paths)) - set(embed.holds)
        told = told_by(model, entity, lacking, trees, widened=widened)
        lacking -= told.paths
        found: list[Extra] = []
        computed = [text for text in lacking if text in here.columns]
        for together, inner_need in computed_needs(model, entity, computed, need.strong):
            found.append(Extra(", ".join(together), "computed", inner_need, times, (role,)))
        behind = {text for text in lacking if text not in here.columns}
        for name, inner in self._by_role(entity, behind):
            present = self.statistics.present(entity, here.roles[name].columns[0])
            kept = f"{role}.{name}" in keepers
            found.extend(self._behind(entity, name, inner, need.strong, times * present, (role,), kept=kept))
        for tree in told.trees:
            if "." in tree.role:
                return None
            child = rows_of_role(model, entity, tree.role, tree.select, need.strong)
            found.append(Extra(tree.role, "children", child, times, (role,), tree.select))
        return found, [replace(tell, under=(role,)) for tell in told.tells]

    # what need not wait for the row

    def soon(self, need: Need, extra: Extra) -> Extra:
        """The extra with `early` set, if it need not wait for the row."""
        waits = bool(extra.under) or extra.beyond is not None or extra.if_gone
        early = None if waits else self._early(need, extra.need)
        return extra if early is None else replace(extra, need=early, early=True)

    def _early(self, need: Need, inner: Need) -> Need | None:
        """The inner need with the key that the outer one fixes put in place of the row's, so that it need not wait."""
        if not self.statistics.fixes_one_row(need.entity, need.given):
            return None
        known = {c.path.column: c.operands[0] for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
        given = []
        for condition in inner.given:
            operand = condition.operands[0]
            if not isinstance(operand, Outer) or operand.path not in known:
                return None
            given.append(replace(condition, operands=(known[operand.path],)))
        return replace(inner, given=tuple(given))
