"""Plans as lists of steps for people and for the design document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keyplan.design.options.goals import Goal
from keyplan.model.pattern import Condition, Order
from keyplan.plan.steps import FIRST, UNTIL, WINDOW, Touch

if TYPE_CHECKING:
    from keyplan.design.answer.assemble import Assembly


def plan_steps(assembly: Assembly, goal: Goal) -> tuple[Mapping[str, Any], ...]:
    """The steps of a goal, in the order in which they run."""
    steps: list[Mapping[str, Any]] = []
    _walk(assembly, goal, steps)
    need = goal.need
    option = assembly.evaluation.choice[goal.number]
    if need.order and not option.sorted:
        steps.append({"op": "sort", "by": [order_text(order) for order in need.order], "rows": _round(option.rows)})
    return tuple(steps)


def _walk(assembly: Assembly, goal: Goal, steps: list[Mapping[str, Any]]) -> None:
    option = assembly.evaluation.choice[goal.number]
    need = goal.need
    if option.kind in ("search", "measure"):
        view = option.view
        assert view is not None
        found = option.match
        given = found.given if found is not None else option.measure.given if option.measure else ()
        get = found.get if found is not None else bool(option.measure and option.measure.get)
        # The first rows of an index in its order are no scan of it.
        first = found is not None and found.ordered and need.limit is not None and not (found.filter or found.left)
        scan = bool(found and found.scan and not first)
        kind = assembly.engine.kinds[view.kind]
        # A row whose children stand beside it comes with them as a range of entries.
        beside = bool(option.along) and not (kind.one_value or option.beside)
        get = get and kind.gets and not beside
        op = "scan" if scan else "get" if get and option.entries <= 1 else "batch_get" if get else "query"
        step: dict[str, Any] = {
            "op": op,
            "view": assembly.names[view.name],
            "where": [_said(c) for c in (*view.where, *given)],
            "requests": _round(option.requests),
            "rows": _round(option.entries),
            "units": {unit: _round(amount) for unit, amount in option.cost.units.items()},
        }
        if found is not None and need.limit is not None and not found.ordered:
            # Larger sets are read more often, and all of a set to be sorted: the designer counts more than the mean.
            times = option.entries / max(goal.times * found.entries, 1e-9)
            step |= {"times_the_mean": _round(times)} if times > 1.5 else {}
        if found is not None and found.at:
            step["at"] = ".".join(found.at)
        if found is not None and found.order and found.ordered and need.order:
            step["order"] = [order_text(order) for order in need.order]
        if option.along:
            step["with"] = list(option.along)
        if found is not None and not found.get and found.spans > 1:
            step["walk" if found.walks and need.limit is not None else "merge"] = True
        steps.append(step)
        if found is not None and found.filter:
            steps.append({"op": "filter", "where": [str(c) for c in found.filter], "rows": _round(option.rows)})
    for sub in option.subs:
        before = len(steps)
        _walk(assembly, sub.goal, steps)
        label = ".".join((*sub.under, sub.role)) if sub.role else ""
        for number in range(before, len(steps)):
            if label and "for" not in steps[number]:
                steps[number] = {**steps[number], "for": label}
            if sub.early:
                steps[number] = {**steps[number], "parallel": True}
            if sub.beyond is not None:
                steps[number] = {**steps[number], "beyond": sub.beyond}
            if sub.if_gone:
                steps[number] = {**steps[number], "if_gone": True}
    for tell in option.tells:
        names = ", ".join(".".join((*tell.under, path)) for path in tell.paths)
        steps.append({"op": "aggregate", "compute": [one.how for one in tell.compute], "by": [], "for": names})
    if option.match is not None and option.match.left:
        steps.append({"op": "filter", "where": [str(c) for c in option.match.left], "rows": _round(option.rows)})
    if option.kind in ("fold", "measure", "windows") and need.fold is not None and need.window is None:
        folded = [f"{c.how}" for c in need.fold.compute]
        steps.append({"op": "aggregate", "compute": folded, "by": [group.name for group in need.fold.group]})


def write_steps(assembly: Assembly, name: str, touches: Sequence[Touch]) -> tuple[Mapping[str, Any], ...]:
    """The lookups of a write, then what it writes."""
    steps: list[Mapping[str, Any]] = []
    for root in assembly.built.problem.roots:
        if root.name == name and root.looks_up and root.applies(assembly.chosen):
            before = len(steps)
            _walk(assembly, root.goal, steps)
            for number in range(before, len(steps)):
                steps[number] = {**steps[number], "why": _WHY.get(root.kind, root.kind)}
    steps += _extended(assembly, name)
    for touch in touches:
        if not touch.puts and not touch.deletes:
            continue  # nothing but checks
        steps.append({"op": "write", "view": touch.view, "puts": _round(touch.puts), "deletes": _round(touch.deletes)})
    return tuple(steps)


def _extended(assembly: Assembly, name: str) -> Iterator[Mapping[str, Any]]:
    """The groups that are read for their least and greatest values, where the engine does not extend them by itself."""
    problem = assembly.built.problem
    for view in assembly.chosen.values() if not problem.costs.extends else ():
        adds = sum(part.work.adds for part in problem.upkeep.get((name, view.name), ()))
        if view.extended and adds:
            yield {
                "op": "get",
                "view": assembly.names[view.name],
                "where": [f"{part} = its {part}" for part in view.parts],
                "requests": _round(adds),
                "rows": _round(adds),
                "why": "its least and greatest values",
            }


NEXT_ROW = "the row that comes after those that are kept"

_WHY = {
    "old": "the old row",
    "find": "the rows to change",
    "children": "the children",
    "fan": "the entries that repeat a value",
    "copy": "values to copy in",
    "refill": NEXT_ROW,
    "group": "the rows of its group, where the least or greatest of them goes",
    "snapshot": "values to keep",
}


def _said(condition: Condition) -> str:
    """A condition for people; windows of time are told by their range."""
    text = str(condition)
    for name, said in (
        (FIRST, "the first whole one"),
        (UNTIL, "the one that it ends in"),
        (WINDOW, "one that it begins or ends in"),
    ):
        text = text.replace(f"its {name}", said)
    return text


def order_text(order: Order) -> str:
    return f"{order.path} desc" if order.descending else str(order.path)


def _round(value: float) -> float:
    return float(f"{value:.6g}")
