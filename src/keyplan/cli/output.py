"""What people see: designs and answers as text, made from the same documents that `--format json` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from keyplan.cli.tables import heading, number, table, width
from keyplan.units import format_bytes, format_count

Document = Mapping[str, Any]


def as_json(value: object) -> str:
    """The one JSON form of everything printed."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def design_text(document: Document) -> str:
    """A design at a glance: what it costs, what there is, how each pattern and write runs."""
    lines = [_summary(document), ""]
    lines += _structures(document)
    lines += _patterns(document)
    lines += _writes(document)
    lines += _findings(document)
    return "\n".join(lines).rstrip()


def money(value: float, unit: str) -> str:
    """A cost in its unit: dollars where it is money, else the engine's own measure."""
    if "usd" in unit.lower():
        return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.2g}"
    return number(value)


def _summary(document: Document) -> str:
    goal = document["objective"]
    proof = "optimal: " if goal["gap"] <= 1e-6 else ""
    left = (
        f"{document['model']} on {document['engine']}   {proof}gap {number(goal['gap'] * 100, 2)} %, "
        f"{goal['candidates']} candidates, {goal['seconds']:.1f} s"
    )
    size = sum(view["bytes"] for structure in document["structures"] for view in structure["views"])
    unit = goal["unit"]
    cost = f"{money(goal['value'], unit)} a month" if "usd" in unit.lower() else f"{number(goal['value'])} {unit}"
    return heading(left, f"{cost}, {format_bytes(size)}")


def _structures(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    cost = "$/month" if "usd" in unit.lower() else "cost"
    head = ["structure", "partition", "sort", "holds", "rows", "size", cost]
    rows = []
    for structure in document["structures"]:
        views = structure["views"]
        title = f"{structure['kind']} {structure['name']}"
        if len(views) != 1:
            rows.append([title, *[""] * 6])
        for view in views:
            name = f"  {_view_name(view)}" if len(views) != 1 else title
            rows.append(
                [
                    name,
                    _parts(view["partition"], view["entity"]),
                    _parts(view["sort"], view["entity"]),
                    _holds(view),
                    format_count(view["rows"]),
                    format_bytes(view["bytes"]),
                    money(view["cost"], unit).lstrip("$"),
                ]
            )
    return [*table(head, rows, right=f"rows size {cost}"), ""]


def _view_name(view: Document) -> str:
    sparse = view.get("sparse")
    extra = f", {sparse}" if isinstance(sparse, str) else ", sparse" if sparse else ""
    return f"{view['entity']}{extra}"


def _parts(parts: Sequence[str], entity: str) -> str:
    return ", ".join(_short(part, entity) for part in parts) or "·"


def _short(path: str, entity: str) -> str:
    """`Order.user.name` without the entity it starts from."""
    return path.replace(f"{entity}.", "")


def _holds(view: Document) -> str:
    entity = view["entity"]
    copies = [path for path in view["holds"] if _short(path, entity).count(".")]
    own = len(view["holds"]) - len(copies)
    said = [view["projection"].lower()] if view.get("projection") else [f"{own} fields"]
    said += [f"+ {_short(path, entity)}" for path in copies]
    said += [f"with {embed if isinstance(embed, str) else embed['role']}" for embed in view.get("embeds") or ()]
    return " ".join(said)


def _patterns(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    rows, unserved = [], []
    for name, plan in document["patterns"].items():
        if not plan["served"]:
            unserved.append(f"unserved: {name}: {plan.get('reason', '')}")
            continue
        rows.append(
            [
                name,
                "; ".join(_step(step) for step in plan["steps"]),
                number(sum(step.get("requests") or 0 for step in plan["steps"])),
                number(plan["round_trips"]),
                number(plan["rows"]),
                _per_call(plan["cost"], unit),
                f"{number(plan['p99_ms'])} ms",
            ]
        )
    head = ["pattern", "how", "requests", "trips", "rows", _cost_title(unit), "p99"]
    lines = [*table(head, rows, right=f"requests trips rows {_cost_title(unit)} p99"), ""] if rows else []
    return [*lines, *unserved, *([""] if unserved else [])]


def _cost_title(unit: str) -> str:
    return "$/M" if "usd" in unit.lower() else "cost"


def _per_call(cost: float, unit: str) -> str:
    return number(cost * 1e6) if "usd" in unit.lower() else number(cost)


def _step(step: Document) -> str:
    where = ", ".join(step.get("where") or ())
    return f"{step['op']} {step.get('on') or ''}{': ' if where else ''}{where}".strip()


def _writes(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    rows = []
    for name, plan in document["writes"].items():
        touches = []
        for touch in plan["touches"]:
            count = touch["puts"] + touch["deletes"]
            touches.append(touch["view"] + (f" ×{number(count)}" if count != 1 else ""))
        rows.append(
            [name, ", ".join(touches) or "·", plan["how"], number(plan["round_trips"]), _per_call(plan["cost"], unit)]
        )
    head = ["write", "touches", "how", "trips", _cost_title(unit)]
    return [*table(head, rows, right=f"trips {_cost_title(unit)}"), ""] if rows else []


def _findings(document: Document) -> list[str]:
    lines = []
    for finding in document["findings"]:
        if isinstance(finding, str):
            lines.append(finding)
            continue
        fix = f"; {finding['fix']}" if finding.get("fix") else ""
        lines.append(f"{finding['severity']}: {finding['path']}: {finding['message']}{fix}")
    return lines


def answer_text(answer: object) -> str:
    """An answer of a pattern or write: one row upright, several rows as a table, a value as itself."""
    if isinstance(answer, Mapping):
        return "\n".join(_upright(answer))
    if isinstance(answer, list):
        return "\n".join(_rows(answer)) if answer else "no rows"
    return _cell(answer)


def _upright(row: Mapping[str, Any], indent: str = "") -> list[str]:
    flat = _flat(row)
    size = max(map(len, flat), default=0)
    lines = []
    for name, value in flat.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines.append(f"{indent}{name}")
            lines += [f"{indent}  {line}" for line in _rows(value, width() - len(indent) - 2)]
        else:
            lines.append(f"{indent}{name.ljust(size)}  {_cell(value)}")
    return lines


def _rows(rows: Sequence[Any], fit: int | None = None) -> list[str]:
    if not all(isinstance(row, Mapping) for row in rows):
        return [_cell(row) for row in rows]
    flat = [_flat(row) for row in rows]
    head = list(dict.fromkeys(name for row in flat for name in row))
    numeric = [name for name in head if all(isinstance(row.get(name), int | float | None) for row in flat)]
    return table(head, [[_cell(row.get(name)) for name in head] for row in flat], right=" ".join(numeric), fit=fit)


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested rows as dotted names."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)
