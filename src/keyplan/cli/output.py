"""What people see: designs and answers as text, made from the same documents that `--format json` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from keyplan.cli.tables import heading, number, table, width
from keyplan.units import format_bytes, format_count

Document = Mapping[str, Any]

UNLIMITED = 1_000_000


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


def _is_money(unit: str) -> bool:
    return "$" in unit or "usd" in unit.lower()


def _cost(value: float, unit: str) -> str:
    return f"{value:,.2f}" if _is_money(unit) else number(value, 2 if value < 1 else 3)


def _cost_title(unit: str) -> str:
    return "$/month" if _is_money(unit) else unit.split()[-1]


def _summary(document: Document) -> str:
    goal = document["objective"]
    proof = "optimal: " if goal["gap"] <= 1e-6 else ""
    left = (
        f"{document['model']} on {document['engine']}   {proof}gap {number(goal['gap'] * 100, 2)} %, "
        f"{goal['candidates']} candidates, {goal['seconds']:.1f} s"
    )
    size = sum(view["bytes"] for structure in document["structures"] for view in structure["views"])
    cost = f"${goal['value']:,.2f} a month" if _is_money(goal["unit"]) else f"{number(goal['value'])} {goal['unit']}"
    return heading(left, f"{cost}, {format_bytes(size)}")


def _structures(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    views = [view for structure in document["structures"] for view in structure["views"]]
    # An engine whose keys are one sorted sequence has no partitions to speak of.
    split = any(view["partition"] for view in views)
    head = ["structure", *(["partition", "sort"] if split else ["key"]), "holds", "rows", "size", _cost_title(unit)]
    rows = []
    for structure in document["structures"]:
        title = f"{structure['kind']} {structure['name']}"
        shared = len(structure["views"]) != 1
        if shared:
            rows.append([title, *[""] * (len(head) - 1)])
        for view in structure["views"]:
            partition, sort = (_parts(view[part], view["entity"]) for part in ("partition", "sort"))
            rows.append(
                [
                    f"  {view['entity']}" if shared else title,
                    *([partition, sort] if split else [sort]),
                    _holds(view, document),
                    _count(view["rows"]),
                    format_bytes(view["bytes"]),
                    _cost(view["cost"], unit),
                ]
            )
    wrapped = "partition sort key holds"
    return [*table(head, rows, right=f"rows size {_cost_title(unit)}", wrap=wrapped), ""]


def _count(rows: float) -> str:
    """Rows in three digits: 300k, 1.2M."""
    return format_count(float(f"{rows:.3g}")) if rows >= 1 else number(rows)


def _parts(parts: Sequence[str], entity: str) -> str:
    return ", ".join(_short(part, entity) for part in parts) or "·"


def _short(path: str, entity: str) -> str:
    """`Order.user.name` without the entity it starts from."""
    return path.removeprefix(f"{entity}.")


def _holds(view: Document, document: Document) -> str:
    """What an entry has besides its key, and which rows have one."""
    entity = view["entity"]
    keyed = {part.removesuffix(" desc") for part in (*view["partition"], *view["sort"])}
    more = [_short(path, entity) for path in view["holds"] if path not in keyed]
    if document.get("homes", {}).get(entity) == view["name"]:
        more = ["all"]
    said = ", ".join(more) or "keys"
    said += "".join(f", with {embed['role']}" for embed in view["embeds"])
    only = " and ".join(view["sparse"])
    return f"{said} where {only}" if only else said


def _patterns(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    rows, unserved = [], []
    for name, plan in document["patterns"].items():
        if not plan["served"]:
            unserved += _unserved(name, plan)
            continue
        budget = plan.get("p99_budget_ms")
        rows.append(
            [
                name,
                "\n".join(_steps(plan["steps"])),
                _count(plan["requests"]),
                _count(plan["rows"]),
                _cost(plan["total"], unit),
                f"{number(plan['p99_ms'], 2)}{f' of {number(budget)}' if budget else ''} ms",
            ]
        )
    head = ["pattern", "how", "requests", "rows", _cost_title(unit), "p99"]
    right = f"requests rows {_cost_title(unit)} p99"
    return [*(table(head, rows, right=right, wrap="how") if rows else []), *([""] if rows else []), *unserved]


def _unserved(name: str, plan: Document) -> list[str]:
    lines = [f"unserved: {name}: {plan['reason']}"]
    if plan.get("change"):
        lines.append(f"  it would be served if you {plan['change']}")
    return [*lines, ""]


def _steps(steps: Sequence[Document]) -> list[str]:
    """A line per step, in the words of the document; the same step for several fields is said once."""
    told: dict[str, list[str]] = {}
    for step in steps:
        if step["op"] == "aggregate" and step.get("for"):
            continue  # a computed field says so by itself
        said = f"{step['op'].replace('_', ' ')} {step.get('on') or ''}".strip()
        where = " and ".join(step.get("where") or ())
        by = ", ".join(step.get("by") or ())
        line = said + (f": {where}" if where else "") + (f" by {by}" if by else "")
        told.setdefault(line, []).extend([step["for"]] if step.get("for") else [])
    return [f"{line}, for {', '.join(fields)}" if fields else line for line, fields in told.items()]


def _writes(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    rows, unserved = [], []
    for name, plan in document["writes"].items():
        if not plan.get("served", True):
            unserved += _unserved(name, plan)
            continue
        touched: dict[str, float] = {}
        for touch in plan["touches"]:
            touched[touch["on"]] = touched.get(touch["on"], 0) + touch["puts"] + touch["deletes"]
        reads = sum(step.get("requests") or 0 for step in plan["steps"] if step["op"] != "write")
        rows.append(
            [
                name,
                ", ".join(f"{on} ×{number(count)}" if count != 1 else on for on, count in touched.items()) or "·",
                plan["how"],
                _count(reads),
                _count(sum(touched.values())),
                _cost(plan["total"], unit),
            ]
        )
    head = ["write", "touches", "how", "reads", "writes", _cost_title(unit)]
    right = f"reads writes {_cost_title(unit)}"
    return [*(table(head, rows, right=right, wrap="touches") if rows else []), *([""] if rows else []), *unserved]


def _findings(document: Document) -> list[str]:
    lines = []
    for finding in document["findings"]:
        fix = f"; {finding['fix']}" if finding.get("fix") else ""
        lines.append(f"{finding['severity']}: {finding['path']}: {finding['message']}{fix}")
    return lines


def changes_text(changes: Document) -> str:
    """What a design changes against the lock file."""
    if changes["same"]:
        return "the lock file holds the same design"
    cost = changes["cost"]
    before, after = (_cost(cost[when], cost["unit"]) for when in ("before", "after"))
    lines = [f"against the lock file: {before} {_cost_title(cost['unit'])} before, {after} after"]
    for what in ("added", "dropped", "served", "unserved"):
        lines += [f"  {what}: {name}" for name in changes[what]]
    if changes["plans"]:
        lines.append(f"  runs differently: {', '.join(changes['plans'])}")
    return "\n".join(lines)


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
    """A table, or one row after the other upright where a table would be too wide: values are never cut."""
    if not all(isinstance(row, Mapping) for row in rows):
        return [_cell(row) for row in rows]
    flat = [_flat(row) for row in rows]
    head = list(dict.fromkeys(name for row in flat for name in row))
    numeric = [name for name in head if all(isinstance(row.get(name), int | float | None) for row in flat)]
    cells = [[_cell(row.get(name)) for name in head] for row in flat]
    lines = table(head, cells, right=" ".join(numeric), fit=UNLIMITED)
    if max(map(len, lines)) <= (fit or width()):
        return lines
    upright: list[str] = []
    for row in rows:
        upright += ["", *_upright(row)]
    return upright[1:]


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
