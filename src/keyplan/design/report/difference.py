"""What changes from a locked design to another: structures that come, go and move, plans that differ, cost of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from keyplan.design.candidates.given import carried_over, identity, view_key
from keyplan.design.problem.build import Built, build_on, build_problem
from keyplan.design.problem.crowds import NO_CROWDS
from keyplan.design.problem.definition import INFEASIBLE, Problem, carried, coupling_cost, evaluate
from keyplan.design.report.document import short
from keyplan.engines import get_engine
from keyplan.engines.base import Engine
from keyplan.engines.work import Couplings
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.view import View


@dataclass(frozen=True)
class Price:
    """What a design costs under a model, and what it lacks to be a design of it."""

    value: float
    """The cost of what it has and serves."""
    lacks: tuple[str, ...] = ()
    carrying: float = 0.0
    """The part of the cost that structures are thought to have by being there."""


def repriced(model: Model, engine: Engine, design: Design) -> Price:
    """The cost of exactly the views of a design under the model as it is now, whatever the model was at its making."""
    given, lost = carried_over(model, engine.kinds, design)
    built = build_problem(model, engine, given=given)
    found = _cheapest_forms(built)
    if found.lacks:
        built = build_on(built.ground, unlike=built)
        found = min(found, _cheapest_forms(built), key=_rank)
    gone = [f"'{name}' has no place any more: {reason}" for name, reason in (lost | dict(built.baseless)).items()]
    return replace(found, lacks=(*gone, *found.lacks))


def _rank(price: Price) -> tuple[int, float]:
    return len(price.lacks), price.value


def _cheapest_forms(built: Built) -> Price:
    """The price of the given views in those of their forms that lack least and cost least: one after the other is
    exchanged for another form of it until none is better. Most have one."""
    forms = [names[0] for names in built.given.values()]
    best = _priced(built.problem, set(forms))
    better = True
    while better:
        better = False
        for place, names in enumerate(built.given.values()):
            for name in names if len(names) > 1 else ():
                trial = [*forms[:place], name, *forms[place + 1 :]]
                found = _priced(built.problem, set(trial))
                if _rank(found) < _rank(best):
                    forms, best, better = trial, found, True
    return best


def _priced(problem: Problem, chosen: set[str]) -> Price:
    """The cost of what a choice of views has and serves, and what it lacks."""
    lacks = [f"it has no {text.removeprefix('a ')}" for text, names in problem.required if not chosen & set(names)]
    problem = replace(problem, required=[need for need in problem.required if chosen & set(need[1])])
    if coupling_cost(problem.couplings, chosen) == INFEASIBLE:
        lacks.append("it is beyond a limit of the engine")
        problem = replace(problem, couplings=Couplings())
    found = evaluate(problem, chosen)
    if found.unserved:
        lacks += [f"it does not serve '{name}'" for name in dict.fromkeys(found.unserved)]
        problem = replace(problem, roots=[root for root in problem.roots if root.name not in found.unserved])
        found = evaluate(problem, chosen)
    if problem.crowds.places and found.cost == INFEASIBLE:
        lacks.append("patterns would read the same key too often together")
        problem = replace(problem, crowds=NO_CROWDS)
        found = evaluate(problem, chosen)
    return Price(found.cost, tuple(lacks), carried(problem, chosen))


def difference(model: Model, locked: Design, current: Design, *, engine: Engine | None = None) -> dict[str, Any]:
    """The difference as plain JSON; nothing differs if `same` is true.

    A view is the same if it keeps the same paths of the same rows under the same key, whatever it is called. One that
    does the work of another under a different key or with different contents has *moved*. The cost before is that of
    the locked structures under the model as it is now.
    """
    before, after = _views(locked), _views(current)
    dropped = {name: view for view, name in before.items() if view not in after}
    added = {name: view for view, name in after.items() if view not in before}
    moved = _moved(locked, current, dropped, added)
    price = repriced(model, engine or get_engine(current.engine), locked)
    found = {
        "added": [_told(current, name) for name in added if name not in moved.values()],
        "dropped": [_told(locked, name) for name in dropped if name not in moved],
        "moved": [_move(locked, current, old, new) for old, new in moved.items()],
        "structures": _rearranged(locked, current, dropped, added),
        "settings": _settings(locked, current),
        "patterns": _plans(model, locked, current),
        "served": [name for name in locked.unserved if name in model.calls and name not in current.unserved],
        "unserved": [
            {"name": name, "reason": missing.reason}
            for name, missing in current.unserved.items()
            if name not in locked.unserved
        ],
    }
    return {
        "same": not any(found.values()),
        **found,
        "cost": {
            "unit": current.objective.unit,
            "before": short(price.value - price.carrying),
            "after": short(current.objective.value - current.objective.carrying),
            "lacks": list(price.lacks),
        },
    }


def _views(design: Design) -> dict[View, str]:
    """The views by what they are; the order of what they hold does not count."""
    return {_settled(view): name for name, view in design.views.items()}


def _settled(view: View) -> View:
    embeds = tuple(replace(embed, holds=tuple(sorted(embed.holds))) for embed in view.embeds)
    return replace(identity(view), holds=tuple(sorted(view.holds)), embeds=embeds)


def _moved(locked: Design, current: Design, dropped: Mapping[str, View], added: Mapping[str, View]) -> dict[str, str]:
    """Pairs of views of one entity with one purpose: the best pairs first, each view once."""
    pairs = []
    for old, was in dropped.items():
        for new, now in added.items():
            closeness = _purpose(locked, current, old, new) if was.entity == now.entity else 0.0
            if closeness > 0:
                pairs.append((-closeness, was.kind != now.kind, old, new))
    found: dict[str, str] = {}
    for _, _, old, new in sorted(pairs):
        if old not in found and new not in found.values():
            found[old] = new
    return found


def _purpose(locked: Design, current: Design, old: str, new: str) -> float:
    """How much of their work two views share: more than all for the same key, 1 for homes, guards of the same values,
    or the same users."""
    was, now = locked.views[old], current.views[new]
    if view_key(was) == view_key(now):
        return 2.0
    homes = ({name for name, _ in design.homes.values()} for design in (locked, current))
    if all(name in names for name, names in zip((old, new), homes, strict=True)):
        return 1.0
    if was.unique or now.unique:
        return float(was.unique and now.unique and was.parts == now.parts)
    users = set(locked.figures[old].because), set(current.figures[new].because)
    return len(users[0] & users[1]) / max(1, len(users[0] | users[1]))


def _told(design: Design, name: str) -> dict[str, Any]:
    view = design.views[name]
    structure = next(structure for structure in design.structures if name in structure.views)
    return {
        "structure": structure.name,
        "kind": structure.kind,
        "view": name,
        "entity": view.entity,
        "key": [str(part) for part in view.parts],
        "because": list(design.figures[name].because) if name in design.figures else [],
    }


def _move(locked: Design, current: Design, old: str, new: str) -> dict[str, Any]:
    was, now = locked.views[old], current.views[new]
    changes = []
    if was.kind != now.kind:
        changes.append(f"{was.kind} becomes {now.kind}")
    if (was.partition, was.sort) != (now.partition, now.sort):
        changes.append(f"key ({_parts(was)}) becomes ({_parts(now)})")
    lost = [path for path in was.holds if path not in now.holds]
    gained = [path for path in now.holds if path not in was.holds]
    if gained:
        changes.append(f"also holds {', '.join(gained)}")
    if lost:
        changes.append(f"no longer holds {', '.join(lost)}")
    if was.embeds != now.embeds:
        roles = [", ".join(str(embed) for embed in view.embeds) or "nothing" for view in (was, now)]
        changes.append(f"kept with it: {roles[0]} becomes {roles[1]}" if roles[0] != roles[1] else f"{roles[0]} differ")
    if was.packed != now.packed:
        changes.append(
            "each partition becomes one value" if now.packed else "its partitions are no longer one value each"
        )
    if was.where != now.where:
        changes.append("other rows have an entry")
    if was.measures != now.measures:
        changes.append(f"counts {', '.join(measure.name for measure in now.measures) or 'nothing'}")
    return {"from": _told(locked, old), "to": _told(current, new), "changes": changes or ["its settings differ"]}


def _parts(view: View) -> str:
    """The partition, and behind a semicolon what it is sorted by: the same parts may move from one to the other."""
    return "; ".join(", ".join(map(str, parts)) for parts in (view.partition, view.sort) if parts)


def _rearranged(locked: Design, current: Design, dropped: Collection[str], added: Collection[str]) -> list[str]:
    """The structures whose views are the same, but not as they were: under other names, or with other keys."""
    before, after = _arrangement(locked, dropped), _arrangement(current, added)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _arrangement(design: Design, changed: Collection[str]) -> dict[str, object]:
    """How the views of each structure are kept, but for those that have changed; by what they are, not by name."""
    found: dict[str, object] = {}
    for one in design.structures:
        views = {name: _settled(design.views[name]) for name in one.views if name not in changed}
        settings = {
            name: {views[view]: value for view, value in said.items() if view in views}
            if isinstance(said, Mapping)
            else said
            for name, said in one.settings.items()
        }
        if views:
            found[one.name] = (one.kind, frozenset(views.values()), settings)
    return found


def _settings(locked: Design, current: Design) -> list[dict[str, Any]]:
    """The engine's choices for the whole design that differ; figures among them follow from the loads."""
    return [
        {"name": name, "before": locked.settings[name], "after": value}
        for name, value in current.settings.items()
        if isinstance(value, str) and locked.settings.get(name, value) != value
    ]


def _plans(model: Model, locked: Design, current: Design) -> list[dict[str, Any]]:
    """The patterns that both designs serve, but not by the same steps on the same views."""
    found = []
    for name in model.patterns:
        if name in locked.plans and name in current.plans and _steps(locked, name) != _steps(current, name):
            before, after = _lines(locked, name), _lines(current, name)
            found.append({"name": name, "before": before, "after": after})
    return found


_SAID = ("where", "by", "order", "with", "at", "for", "merge", "parallel", "beyond", "if_gone")


def _steps(design: Design, pattern: str) -> list[tuple[object, ...]]:
    """What a plan does and on which views, without its figures."""
    return [
        (
            step["op"],
            _read(design.views[str(step["view"])]) if step.get("view") in design.views else None,
            *(_plain(step.get(key)) for key in _SAID),
        )
        for step in design.plans[pattern].steps
    ]


def _read(view: View) -> View:
    """A view as a step sees it: what else its entries hold is not the step's concern."""
    return replace(identity(view), holds=(), embeds=tuple(replace(embed, holds=()) for embed in view.embeds))


def _plain(value: object) -> object:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else value


def _lines(design: Design, pattern: str) -> list[str]:
    """A plan as a line per step: `query ix_Order_user: user = :user`."""
    on = {name: structure.name for structure in design.structures for name in structure.views}
    return [step_text({**step, "on": on.get(str(step.get("view")), "")}) for step in design.plans[pattern].steps]


def step_text(step: Mapping[str, Any]) -> str:
    """One step of a plan in words."""
    text = f"{step['op'].replace('_', ' ')} {step.get('on') or ''}".strip()
    where = " and ".join(step.get("where") or ())
    by = ", ".join(step.get("by") or ())
    text += (f": {where}" if where else "") + (f" by {by}" if by else "")
    note = f" beyond {step['beyond']}" if step.get("beyond") else " if gone" if step.get("if_gone") else ""
    if step.get("for"):
        return f"{text}, for {step['for']}{note}"
    return f"{text}, if it is gone" if step.get("if_gone") else text
