"""The design document: what `keyplan design --format json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyplan.engines import get_engine
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.model.write import Write
from keyplan.plan.design import Design, Structure
from keyplan.plan.steps import Figures
from keyplan.plan.view import Embed, Part, View

Keys = Mapping[tuple[str, tuple[str, ...]], tuple[str, str]]


def document(model: Model, design: Design) -> dict[str, Any]:
    """A design as one stable JSON document; see docs/design-document.md for its fields."""
    where = {name: structure.name for structure in design.structures for name in structure.views}
    keys = get_engine(design.engine).stored_keys(model, design)
    objective = design.objective
    return {
        "model": design.model,
        "engine": design.engine,
        "objective": {
            "unit": objective.unit,
            "value": short(objective.value),
            "bound": short(objective.bound),
            "gap": short(objective.gap),
            "carrying": short(objective.carrying),
            "seconds": round(objective.seconds, 3),
            "candidates": objective.candidates,
        },
        "settings": dict(design.settings),
        "structures": [
            {
                "name": structure.name,
                "kind": structure.kind,
                "settings": dict(structure.settings),
                "views": [_view(design, structure, design.views[name], keys) for name in structure.views],
            }
            for structure in design.structures
        ],
        "homes": {entity: view for entity, (view, _) in design.homes.items()},
        "patterns": {name: _pattern(design, pattern, where) for name, pattern in model.patterns.items()},
        "writes": {name: _write(design, write, where) for name, write in model.writes.items()},
        "findings": [
            {
                "severity": finding.severity,
                "path": finding.path,
                "line": finding.line,
                "message": finding.message,
                "fix": finding.fix,
                "evidence": dict(finding.evidence),
            }
            for finding in design.findings
        ],
    }


def _pattern(design: Design, pattern: Pattern, where: Mapping[str, str]) -> dict[str, Any]:
    if pattern.name in design.unserved:
        missing = design.unserved[pattern.name]
        change = {"change": missing.change} if missing.change else {}
        return {"served": False, "reason": missing.reason, **change}
    plan = design.plans[pattern.name]
    return {
        "served": True,
        "steps": [
            {**step, "on": where.get(str(step.get("view")), "")} if "view" in step else dict(step)
            for step in plan.steps
        ],
        **_figures(plan.figures),
        "p99_budget_ms": pattern.p99_ms,
        "rate": short(pattern.traffic.rate),
        "total": short(plan.figures.cost * pattern.traffic.rate * design.objective.per_second),
        "consistency": pattern.consistency,
    }


def _write(design: Design, write: Write, where: Mapping[str, str]) -> dict[str, Any]:
    if write.name in design.unserved:
        return {"served": False, "reason": design.unserved[write.name].reason}
    planned = design.writes[write.name]
    return {
        "served": True,
        "touches": [
            {
                "view": touch.view,
                "on": where.get(touch.view, ""),
                "puts": short(touch.puts),
                "deletes": short(touch.deletes),
                "units": {unit: short(amount) for unit, amount in touch.units.items()},
            }
            for touch in planned.touches
        ],
        "steps": [{**step, "on": where.get(str(step.get("view")), "")} for step in planned.steps],
        "how": planned.how,
        **_figures(planned.figures),
        "rate": short(write.traffic.rate),
        "total": short(planned.figures.cost * write.traffic.rate * design.objective.per_second),
    }


def _view(design: Design, structure: Structure, view: View, keys: Keys) -> dict[str, Any]:
    figures = design.figures[view.name]
    ways = [part.ways for part in view.partition if part.ways > 1]
    cuts = [part.cut for part in view.partition if part.cut]
    return {
        "name": view.name,
        "entity": view.entity,
        "kind": view.kind,
        "partition": [_part(view, part) for part in view.partition],
        "sort": [_part(view, part) for part in view.sort],
        "holds": [f"{view.entity}.{path}" for path in view.holds] or [measure.name for measure in view.measures],
        "stored": _stored(keys, view, ()),
        "embeds": [_embed(view, embed, (embed.role,), keys) for embed in view.embeds],
        "shards": ways[0] if ways else 1,
        "bucket": cuts[0] if cuts else None,
        "sparse": [str(condition) for condition in view.where],
        "projection": structure.settings.get("projection"),
        "measures": [measure.name for measure in view.measures],
        "unique": view.unique,
        "packed": view.packed,
        "base": view.base or None,
        "because": list(figures.because),
        "rows": short(figures.rows),
        "bytes": short(figures.bytes),
        "partitions": short(figures.partitions),
        "cost": short(figures.cost),
        "storage": short(figures.storage),
    }


def _part(view: View, part: Part) -> str:
    """A part of a key; only a plain value is a path of the entity."""
    return str(part) if part.ways > 1 or part.cut else f"{view.entity}.{part}"


def _stored(keys: Keys, view: View, at: tuple[str, ...]) -> dict[str, str] | None:
    found = keys.get((view.name, at))
    return None if found is None else {"partition": found[0], "sort": found[1]}


def _embed(view: View, embed: Embed, at: tuple[str, ...], keys: Keys) -> dict[str, Any]:
    return {
        "role": embed.role,
        "entity": embed.entity,
        "sort": [f"{embed.entity}.{part}" for part in embed.sort],
        "holds": [f"{embed.entity}.{path}" for path in embed.holds],
        "stored": _stored(keys, view, at),
        "limit": embed.limit,
        "embeds": [_embed(view, inner, (*at, inner.role), keys) for inner in embed.embeds],
    }


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "requests": short(figures.requests),
        "round_trips": figures.trips,
        "rows": short(figures.rows),
        "bytes": short(figures.bytes),
        "units": {unit: short(amount) for unit, amount in figures.units.items()},
        "cost": short(figures.cost),
        "p99_ms": short(figures.p99_ms),
    }


def short(value: float) -> float:
    """Nine digits: more than any estimate deserves, and the same text everywhere."""
    return float(f"{value:.9g}")
