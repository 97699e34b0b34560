"""Plans as trees of steps, read off the options that were chosen for each goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from keyplan.design.needs.need import Need, in_order, wanted
from keyplan.design.options.goals import Goal, Option, Sub
from keyplan.engines.base import Kind
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Order, Outer, Path, Select
from keyplan.plan.steps import Attach, Beside, Drive, Extend, Fold, Intersect, Node, Owned, Search, Then, Windows
from keyplan.plan.view import COUNT, View


@dataclass(frozen=True)
class Nodes:
    """Makes the steps of goals."""

    model: Model
    kinds: Mapping[str, Kind]
    names: Mapping[str, str]
    """What the chosen views are called in the design."""
    choice: Mapping[int, Option]
    """The option chosen for each goal, by its number."""

    def node(self, goal: Goal) -> Node:
        """The plan of a goal, by the options that the evaluation chose."""
        option = self.choice[goal.number]
        need = goal.need
        if option.kind == "drive":
            outer, inner = option.subs
            asked = outer.goal.need.limit if option.by_outer and need.limit else None
            ahead = asked / need.limit if asked and need.limit else 1.0
            return Drive(self.node(outer.goal), self.node(inner.goal), option.by_outer, ahead)
        if option.kind == "intersect":
            return self._intersection(need, option)
        if option.kind == "then":
            first, second = option.subs
            return Then(self.node(first.goal), self.node(second.goal), str(need.order[0].path))
        if option.kind == "fold":
            assert need.fold is not None
            return Fold(self.node(option.subs[0].goal), need.fold.group, need.fold.compute)
        if option.kind == "apart":
            return Beside(tuple(self.node(part.goal) for part in option.subs))
        if option.kind == "owned":
            row, instead = option.subs
            return Owned(self.node(row.goal), option.columns, self.node(instead.goal))
        if option.kind == "windows":
            return self._windows(need, option)
        if option.kind == "measure":
            return self._directory(need, option) if need.buckets is not None else self._measure(need, option)
        return self._search(need, option)

    def _intersection(self, need: Need, option: Option) -> Node:
        *parts, whole = option.subs
        here = self.model.entities[need.entity]
        roles = [here.roles.get(part.role) for part in parts]
        keys = tuple(here.key if role is None or not role.many else role.columns for role in roles)
        found = Intersect(need.entity, tuple(self.node(part.goal) for part in parts), keys)
        own = tuple(c for c in need.given if not self.model.is_many(need.entity, c.path.roles))
        return Extend(found, (Attach("", self.node(whole.goal)),), own)

    def _search(self, need: Need, option: Option) -> Node:
        found, view = option.match, option.view
        assert found is not None
        assert view is not None
        held = set(need.wants) - set(found.missing)
        for condition in found.filter:
            held |= {str(condition.path), *(str(path) for path in condition.also)}
        held |= {str(order.path) for order in found.order}
        # A value of a row that has expired is missing: its expiry is needed wherever a value behind a role is used.
        used = {*held, *(str(condition.path) for condition in found.given if not condition.path.column.startswith("$"))}
        held |= {text for text in wanted(self.model, need.entity, used) if text.endswith(EXPIRES)}
        for sub in option.subs:
            if not sub.under and not sub.early:
                # What the nested plan takes from the row has to be there.
                asked = self.choice[sub.goal.number].match
                for condition in (*sub.goal.need.given, *(asked.given if asked is not None else ())):
                    held |= {operand.path for operand in condition.operands if isinstance(operand, Outer)}
        reachable = self._reachable(view, found.at)
        takes = tuple(text for text in in_order(self.model, need.entity, held) if text in reachable)
        search = Search(
            self.names[view.name],
            found.at,
            found.given,
            found.filter,
            takes,
            {role: self._children(need.entity, role, select) for role, select in option.along.items()},
            found.descending,
            found.order,
        )
        if not option.subs and not option.tells:
            return search
        return Extend(search, tuple(self._attach(sub) for sub in option.subs), found.left, option.tells)

    def _attach(self, sub: Sub) -> Attach:
        """The plan of what a search lacks, and where its answer goes."""
        plan = self.node(sub.goal)
        if sub.what == "children":
            assert sub.select is not None
            order = self.total(sub.goal.need.entity, sub.select.order)
            return Attach(sub.role, plan, True, sub.under, order, sub.select.limit, sub.early, sub.beyond)
        role = sub.role.rpartition(".")[0] if sub.what == "computed" else sub.role
        return Attach(role, plan, under=sub.under, early=sub.early, if_gone=sub.if_gone)

    def _children(self, entity: str, role: str, select: Select) -> Select:
        """What is taken of embedded children: what is selected, and what fetching the rest needs."""
        child = self.model.entities[self.model.entities[entity].roles[role].entity]
        columns = {*select.columns, *child.key, *(term.path.column for term in select.order)}
        for name in select.roles:
            step = child.roles[name]
            if not step.many:
                columns |= set(step.columns)
        if EXPIRES in child.columns:
            columns.add(EXPIRES)
        return replace(select, columns=tuple(c for c in child.columns if c in columns))

    def _reachable(self, view: View, at: tuple[str, ...]) -> set[str]:
        embed = view.embed_at(at)
        if embed is not None:
            return set(embed.holds)
        stored = self.model.entities[view.entity].stored if self.kinds[view.kind].holds_all else ()
        return {*view.holds, *stored}

    def _measure(self, need: Need, option: Option) -> Node:
        assert need.fold is not None
        return Fold(self._groups(option), need.fold.group, need.fold.compute, True)

    def _windows(self, need: Need, option: Option) -> Node:
        whole, edges = option.subs
        asked, found = whole.goal.need.window, option.windows
        assert need.fold is not None
        assert asked is not None
        assert found is not None
        kept = self._groups(self.choice[whole.goal.number])
        rows = Windows(asked.path, asked.cut, found.range, kept, self.node(edges.goal))
        return Fold(rows, need.fold.group, need.fold.compute, True)

    def _groups(self, option: Option) -> Search:
        """The search for the groups of a view with measures."""
        assert option.view is not None
        assert option.measure is not None
        view = option.view
        takes = tuple(str(part) for part in view.parts if part.ways == 1)
        takes += tuple(measure.name for measure in view.measures)
        return Search(self.names[view.name], (), option.measure.given, (), takes)

    def _directory(self, need: Need, option: Option) -> Node:
        """Which time buckets there are, in the order in which they are wanted."""
        assert option.view is not None
        assert option.measure is not None
        takes = (str(option.view.parts[-1]), COUNT)
        descending = bool(need.order) and need.order[0].descending
        return Search(self.names[option.view.name], (), option.measure.given, (), takes, {}, descending)

    def total(self, entity: str, order: tuple[Order, ...]) -> tuple[Order, ...]:
        """An order with the ties broken by the key."""
        named = {str(term.path) for term in order}
        last = order[-1].descending if order else False
        key = self.model.entities[entity].key
        return (*order, *(Order(Path((), column), last) for column in key if column not in named))
