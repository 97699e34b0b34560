"""Why a design is as it is: how each pattern and write runs in the engine's own words, and what each structure is for.

Everything comes back as plain JSON; the command line turns it into text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keyplan.design.answer.describe import NEXT_ROW
from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.given import identity, view_key
from keyplan.design.candidates.homes import is_home
from keyplan.design.problem.definition import evaluate
from keyplan.design.problem.heat import too_hot
from keyplan.design.program.blocked import blocking_calls
from keyplan.design.program.cheapest import cheapest
from keyplan.design.report.difference import repriced
from keyplan.design.report.document import document, short
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Engine
from keyplan.errors import ArgumentError, nearest
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import DEFAULT_PAGE, Condition, Outer, Pattern
from keyplan.plan.design import Design
from keyplan.plan.steps import Extend, Node, Plan, Search
from keyplan.plan.view import View
from keyplan.plan.walk import first_children, searches

Document = dict[str, Any]


def explain(model: Model, engine: Engine, design: Design, name: str | None = None) -> Document:
    """One pattern, write, transaction, structure or view of a design; without a name, everything at a glance.

    A structure is explained by who needs it, what it costs, and what the best design without it would cost, which is
    found by solving again.
    """
    explained = _Explanation(model, engine, design)
    if name is None:
        return explained.overview()
    if name in model.patterns:
        return explained.pattern(name)
    if name in model.writes:
        return explained.write(name)
    if name in model.transactions:
        return explained.transaction(name)
    for structure in explained.whole["structures"]:
        if structure["name"] == name:
            return explained.structure(structure, structure["views"], "structure")
    for structure in explained.whole["structures"]:
        for view in structure["views"]:
            if view["name"] == name:
                return explained.structure(structure, [view], "view")
    known = [*model.calls, *(structure.name for structure in design.structures), *design.views]
    hint = nearest(name, known)
    raise ArgumentError(
        f"{model.name}: nothing is called '{name}'{hint or '; explain without a name lists everything'}"
    )


class _Explanation:
    def __init__(self, model: Model, engine: Engine, design: Design) -> None:
        self.model = model
        self.engine = engine
        self.design = design
        self.whole = document(model, design)
        self.head = {"model": model.name, "engine": engine.name, "unit": design.objective.unit}

    # patterns and writes

    def pattern(self, name: str) -> Document:
        found = self.whole["patterns"][name]
        head = {**self.head, "what": "pattern", "name": name, "entity": self.model.patterns[name].entity}
        if not found["served"]:
            return {**head, **found}
        plan = self.design.plans[name]
        reads = iter(searches(plan.node))
        firsts = _firsts(self.model.patterns[name], plan)
        strong = self.model.patterns[name].consistency != "eventual"
        steps = [self._told(step, next(reads), firsts, strong) if step.get("view") else step for step in found["steps"]]
        if plan.target is not None:
            steps = [*self._target(plan.target, strong), *steps]
        return {**head, **found, "steps": steps}

    def _told(self, step: Document, search: Search, firsts: Mapping[int, int], strong: bool) -> Document:
        first = firsts.get(id(search))
        told = _of_many(search) if step["op"] == "batch_get" else search
        return {**step, "words": self._words(told, first, strong=strong)}

    def _target(self, node: Node, strong: bool) -> list[Document]:
        """The lookup of the row whose rank is asked for."""
        where = self._structure_of
        return [
            {
                "op": "get",
                "view": search.view,
                "on": where(search.view),
                "where": [str(condition) for condition in search.given],
                "why": "the row whose rank is asked for",
                "words": self._words(search, strong=strong),
            }
            for search in searches(node)
        ]

    def write(self, name: str) -> Document:
        found = self.whole["writes"][name]
        write = self.model.writes[name]
        head = {**self.head, "what": "write", "name": name, "entity": write.entity, "kind": write.kind}
        if not found["served"]:
            return {**head, **found}
        find = self.design.writes[name].find
        nodes = [*([find] if find is not None else []), *self.design.rows.values(), *self.design.dependents.values()]
        nodes += [*self.design.dangling.values(), *self.design.groups.values(), *self._groups()]
        known = self._lookups(nodes)
        following = self._lookups(self.design.refills.values())
        touched = iter([touch for touch in self.design.writes[name].touches if touch.puts or touch.deletes])
        steps = []
        for number, step in enumerate(found["steps"]):
            if step["op"] == "write":
                told: str | None = self.engine.edit_words(self.model, self.design, write, next(touched))
            else:
                reads = following if step.get("why") == NEXT_ROW else known
                # Scans differ by what is tested on each row, which is the next step.
                by = found["steps"][number + 1] if step["op"] == "scan" else step
                told = reads.get((str(step.get("view")), _left(by.get("where", ()))))
            steps.append({**step, "words": told} if told else step)
        scale = write.traffic.rate * self.design.objective.per_second
        touches = [
            {**told, "total": short(touch.cost * scale)}
            for told, touch in zip(found["touches"], self.design.writes[name].touches, strict=True)
        ]
        return {**head, **found, "steps": _each_once(steps), "touches": touches}

    def _groups(self) -> Iterator[Node]:
        """The reads of groups by their key, for their least and greatest values."""
        for view in self.design.views.values():
            if view.extended and not view.base:
                paths = [(part, path_of(part.path, self.model, view.entity)) for part in view.parts if part.ways == 1]
                given = tuple(Condition(path, "=", (Outer(str(part)),), part.cut) for part, path in paths)
                yield Search(view.name, given=given, takes=tuple(measure.name for measure in view.extended))

    def _lookups(self, nodes: Iterable[Node]) -> dict[tuple[str, tuple[str, ...]], str]:
        """The reads that a write may make, by view and what of it is given or else tested, in the engine's words."""
        found: dict[tuple[str, tuple[str, ...]], str] = {}
        for node in nodes:
            for search in searches(node):
                view = self.design.views[search.view]
                where = _left([str(one) for one in ((*view.where, *search.given) or search.filter)])
                if (search.view, where) not in found:
                    found[(search.view, where)] = self._words(search, strong=True)
        return found

    def _words(self, search: Search, first: int | None = None, *, strong: bool) -> str:
        return self.engine.words(self.model, self.design, search, first, strong=strong)

    def transaction(self, name: str) -> Document:
        parts = self.model.transactions[name].parts
        return {
            **self.head,
            "what": "transaction",
            "name": name,
            "writes": [{**self.write(part.write), "usual": part.usual, "most": part.most} for part in parts],
        }

    # structures

    def structure(self, structure: Document, views: Sequence[Document], what: str) -> Document:
        told = [self._view(view) for view in views]
        return {
            **self.head,
            "what": what,
            "name": structure["name"] if what == "structure" else views[0]["name"],
            "kind": structure["kind"],
            "structure": structure["name"],
            "settings": structure["settings"],
            "views": told,
            "needed_by": list(dict.fromkeys(name for view in told for name in view["because"])),
            "rows": sum(view["rows"] for view in told),
            "bytes": sum(view["bytes"] for view in told),
            "storage": short(sum(view["storage"] for view in told)),
            "upkeep": short(sum(view["upkeep"] for view in told)),
            "total": short(sum(view["storage"] + view["upkeep"] for view in told)),
            "without": self._without([self.design.views[view["name"]] for view in told]),
        }

    def _view(self, told: Document) -> Document:
        view = self.design.views[told["name"]]
        touched: list[Document] = []
        for name, plan in self.design.writes.items():
            scale = self.model.writes[name].traffic.rate * self.design.objective.per_second
            for touch in plan.touches:
                if touch.view == view.name:
                    puts, deletes, cost = short(touch.puts), short(touch.deletes), short(touch.cost * scale)
                    touched.append({"write": name, "puts": puts, "deletes": deletes, "total": cost})
        costs = self.engine.costs(self.model)
        facts = Facts(self.model, Statistics(self.model), costs).of(view)
        return {
            **told,
            "home_of": self._homes(view.name),
            "keeps_unique": self._guarded(view.name),
            "touched_by": touched,
            "storage": short(costs.keep(view, facts)),
            "upkeep": short(sum(touch["total"] for touch in touched)),
        }

    def _homes(self, view: str) -> list[str]:
        return [entity for entity, (name, _) in self.design.homes.items() if name == view]

    def _guarded(self, name: str) -> list[str]:
        """The columns whose values no two rows share, because a view has them as its key."""
        view = self.design.views[name]
        return [part.path for part in view.parts] if view.unique and not self._homes(name) else []

    def _structure_of(self, view: str) -> str:
        return next((s.name for s in self.design.structures if view in s.views), "")

    def _without(self, views: Sequence[View]) -> Document:
        """The best design that has none of these views nor any other under the same key, or under one that has what
        is always asked for by one value in another order, which would be the same thing; but what may be the home that
        rows have now, under its key, stays if none of the views is one."""
        alike = [(view_key(view), self._bound(view)) for view in views]
        if not any(self._homes(view.name) for view in views):
            kept = {view_key(self.design.views[name]) for name, _ in self.design.homes.values()}
        else:
            kept = set()

        def dropped(view: View) -> bool:
            key = view_key(view)
            if not any(_turned(key, bound) == _turned(one, bound) for one, bound in alike):
                return False
            return not (key in kept and is_home(self.model, self.engine.kinds, view))

        built, solution = cheapest(self.model, self.engine, without=dropped)
        unserved = [name for name in built.unserved if name not in self.design.unserved]
        together = []
        if solution is not None:
            together = [users for _, users in too_hot(built.problem, evaluate(built.problem, set(solution.chosen)))]
        if unserved or together or solution is None:
            lacking = [text for text, names in built.problem.required if not names]
            reasons = [f"'{name}' could not be served" for name in unserved]
            for users in together:
                names = " and ".join(f"'{name}'" for name in sorted({name for _, name in users}))
                reasons.append(f"{names} would read the same key too often together")
            reasons += [f"there would be no {text.partition(' ')[2]}" for text in lacking]
            if not reasons:
                reasons = [f"'{name}' could not be served" for name in blocking_calls(built.problem)]
            return {"possible": False, "reason": ", ".join(dict.fromkeys(reasons)) or "nothing could replace it"}
        now = repriced(self.model, self.engine, self.design)
        chosen = [view for name, view in built.problem.views.items() if name in solution.chosen]
        return {
            "possible": True,
            "value": short(solution.value),
            "now": short(now.value),
            "more": short(solution.value - now.value),
            "gap": short(solution.gap),
            "instead": list(filter(None, map(self._instead, chosen))),
        }

    def _bound(self, view: View) -> int:
        """How many of the first parts of a view's key all patterns that search it have one value for."""
        parts = [part for part in view.parts if part.ways == 1]
        found = [one for plan in self.design.plans.values() for one in searches(plan.node) if one.view == view.name]
        bound = len(parts) if found else 0
        for one in found:
            fixed = {(str(condition.path), condition.cut) for condition in one.given if condition.op == "="}
            free = (number for number, part in enumerate(parts) if (part.path, part.cut) not in fixed)
            bound = min(bound, next(free, bound))
        return bound

    def _instead(self, view: View) -> str:
        """What a view would be that the design lacks; of one that it has, what would be otherwise; empty if nothing."""
        had = [one for one in self.design.views.values() if view_key(one) == view_key(view)]
        if not any(_with(one) == _with(view) for one in had):
            return view_text(view)
        if any(identity(one) == identity(view) for one in had):
            return ""
        was, changes = had[0], []
        more = [path for path in view.holds if path not in was.holds]
        if more:
            changes.append(f"which also holds {', '.join(more)}")
        ways, before = (max((part.ways for part in one.partition), default=1) for one in (view, was))
        if ways != before:
            changes.append(f"in {ways} shards" if ways > 1 else "without shards")
        return f"{view_text(view)} {' and '.join(changes)}" if changes else ""

    # everything

    def overview(self) -> Document:
        structures = []
        for structure in self.whole["structures"]:
            views = [
                {
                    **{key: view[key] for key in ("name", "entity", "because", "rows", "bytes", "cost")},
                    "home_of": self._homes(view["name"]),
                    "keeps_unique": self._guarded(view["name"]),
                    "key": [*view["partition"], *view["sort"]],
                }
                for view in structure["views"]
            ]
            structures.append(
                {
                    "name": structure["name"],
                    "kind": structure["kind"],
                    "because": list(dict.fromkeys(name for view in views for name in view["because"])),
                    "bytes": sum(view["bytes"] for view in views),
                    "cost": short(sum(view["cost"] for view in views)),
                    "views": views,
                }
            )
        return {
            **self.head,
            "what": "overview",
            "objective": self.whole["objective"],
            "structures": structures,
            "patterns": {name: self._glance(found) for name, found in self.whole["patterns"].items()},
            "writes": {name: self._glance(found) for name, found in self.whole["writes"].items()},
        }

    def _glance(self, found: Mapping[str, Any]) -> Document:
        if not found["served"]:
            return dict(found)
        reads = [step["on"] for step in found["steps"] if step.get("on") and step["op"] != "write"]
        glance = {"served": True, "reads": list(dict.fromkeys(reads))}
        if "touches" in found:
            glance["writes"] = list(dict.fromkeys(touch["on"] for touch in found["touches"]))
        kept = ("requests", "round_trips", "rows", "rate", "total", "p99_ms", "p99_budget_ms", "how")
        return {**glance, **{key: found[key] for key in kept if key in found}}


def view_text(view: View) -> str:
    """A view in one line: `index of Order by user, created_at, order_id`."""
    text = f"{view.kind} of {view.entity} by {', '.join(str(part) for part in view.parts)}"
    if view.where:
        text += f" where {' and '.join(str(condition) for condition in view.where)}"
    if view.packed:
        text += ", one value per partition"
    if view.measures:
        text += f" with {', '.join(measure.name for measure in view.measures)}"
    return text + "".join(f" with {embed}" for embed in view.embeds)


def _each_once(steps: Sequence[Document]) -> list[Document]:
    """The steps of a write without repeated lookups: a row that is wanted for several reasons is read once."""
    found: list[Document] = []
    places: dict[tuple[object, ...], int] = {}
    for step in steps:
        what = (step["op"], step.get("view"), tuple(step.get("where", ())), step.get("words"))
        if step["op"] != "get" or what not in places:
            places[what] = len(found)
            found.append(step)
            continue
        before = found[places[what]]
        reasons = dict.fromkeys((*str(before.get("why", "")).split(" and "), str(step.get("why", ""))))
        found[places[what]] = {**before, "why": " and ".join(filter(None, reasons))}
    return found


def _turned(key: tuple[Any, ...], bound: int) -> tuple[object, ...]:
    """The key of a view, the first parts of it in any order."""
    entity, kind, parts, *others = key
    return (entity, kind, frozenset(parts[:bound]), parts[bound:], *others)


def _with(view: View) -> list[tuple[str, int | None]]:
    """Which rows lie with those of a view, whatever is held of them."""
    return [(embed.role, embed.limit) for embed in view.embeds]


def _firsts(pattern: Pattern, plan: Plan) -> dict[int, int]:
    """The searches that bring a page of the answer and no more, or the first children of a row, by their ids, and how
    many entries that are."""
    found = {id(search): most for search, most in first_children(plan.node)}
    node = plan.node
    while isinstance(node, Extend) and not any(add.early for add in node.adds):
        node = node.rows
    is_cut = pattern.kind == "find" and not pattern.one and plan.sorted
    if is_cut and isinstance(node, Search) and node.order:
        found[id(node)] = pattern.limit or pattern.page or DEFAULT_PAGE
    return found


def _of_many(search: Search) -> Search:
    """A lookup by one value of rows that were read before, as it is made for all of them at once."""
    outer = [one for one in search.given if one.op == "=" and isinstance(one.operands[0], Outer)]
    if len(outer) != 1:
        return search
    listed = replace(outer[0], op="in")
    return replace(search, given=tuple(listed if one is outer[0] else one for one in search.given))


def _left(conditions: Sequence[str]) -> tuple[str, ...]:
    """What conditions are about, whatever they compare it with."""
    return tuple(sorted(text.split(" ")[0] for text in conditions))
