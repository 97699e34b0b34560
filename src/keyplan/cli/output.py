"""What people see: designs and answers as text, made from the same documents that `--format json` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from keyplan.cli.tables import heading, number, table, width
from keyplan.units import format_about, format_bytes, format_rate

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


def _price(value: float, unit: str) -> str:
    """A cost with its unit, in running text."""
    return f"${_cost(value, unit)} a month" if _is_money(unit) else f"{_cost(value, unit)} {unit}"


def _summary(document: Document) -> str:
    goal = document["objective"]
    proof = "optimal: " if goal["gap"] <= 1e-6 else ""
    left = (
        f"{document['model']} on {document['engine']}   {proof}gap {number(goal['gap'] * 100, 2)} %, "
        f"{_whole(goal['candidates'], 'candidate')}, {goal['seconds']:.1f} s"
    )
    size = sum(view["bytes"] for structure in document["structures"] for view in structure["views"])
    cost = goal["value"] - goal["carrying"]
    return heading(left, f"{_price(cost, goal['unit'])}, {format_bytes(size)}")


def _structures(document: Document) -> list[str]:
    unit = document["objective"]["unit"]
    views = [view for structure in document["structures"] for view in structure["views"]]
    # An engine whose keys are one sorted sequence has no partitions to speak of.
    split = any(view["stored"] or (view["partition"] and not view["base"]) for view in views)
    head = ["structure", *(["partition", "sort"] if split else ["key"]), "holds", "rows", "size", _cost_title(unit)]
    rows = []
    for structure in document["structures"]:
        title = f"{structure['kind']} {structure['name']}"
        shared = len(structure["views"]) != 1 or any(any(_apart(view)) for view in structure["views"])
        if shared:
            rows.append([title, *[""] * (len(head) - 1)])
        for view in sorted(structure["views"], key=lambda view: not view["rows"]):  # what is empty as a rule, last
            partition, sort = (_side(view, side) for side in ("partition", "sort"))
            whole = _parts([*view["partition"], *view["sort"]], view["entity"])
            rows.append(
                [
                    f"  {view['entity']}" if shared else title,
                    *([partition, sort] if split else [whole]),
                    _holds(view, document),
                    _count(view["rows"]),
                    format_bytes(view["bytes"]),
                    _cost(view["cost"], unit),
                ]
            )
            for embed in _apart(view):
                entity = embed["entity"]
                holds = " + ".join(["all", *(_short(path, entity) for path in embed["holds"] if _is_copy(path, embed))])
                keys = embed["stored"]["partition"], embed["stored"]["sort"]
                rows.append([f"    {entity}", *keys, holds, *[""] * (len(head) - 4)])
    wrapped = "partition sort key holds"
    return [*table(head, rows, right=f"rows size {_cost_title(unit)}", wrap=wrapped), ""]


def _apart(view: Document) -> Iterator[Document]:
    """The embeds, at any depth, whose rows are entries of their own under the partition of their parent."""
    for embed in view["embeds"]:
        if embed["stored"]:
            yield embed
        yield from _apart(embed)


def _side(view: Document, side: str) -> str:
    """The partition or sort key: as it is stored where the engine composes it, else its parts."""
    return str(view["stored"][side]) if view["stored"] else _parts(view[side], view["entity"])


def _count(rows: float) -> str:
    """Rows in three digits: 300k, 1.2M."""
    return format_about(rows) if rows >= 1 else number(rows)


def _amount(value: float, noun: str) -> str:
    """`1 row`, `20 rows`."""
    shown = _count(value)
    return f"{shown} {noun if shown == '1' else noun + 's'}"


def _of_unit(value: float, units: str) -> str:
    """`1 read unit`, `0.5 read units`: engines name their units in the plural."""
    shown = number(value)
    return f"{shown} {units.removesuffix('s') if shown == '1' else units}"


def _whole(value: int, noun: str) -> str:
    """The same, to the last digit."""
    return f"{value} {noun if value == 1 else noun + 's'}"


def _parts(parts: Sequence[str], entity: str) -> str:
    """The parts of a key."""
    return ", ".join(_short(part, entity) for part in parts) or "·"


def _short(path: str, entity: str) -> str:
    """`Order.user.name` without the entity it starts from."""
    return path.removeprefix(f"{entity}.")


def _holds(view: Document, document: Document) -> str:
    """What an entry has besides its key, and which rows have one."""
    entity = view["entity"]
    home = next(
        (
            other
            for structure in document["structures"]
            for other in structure["views"]
            if other["name"] == document["homes"].get(entity)
        ),
        view,
    )
    own = {path for path in home["holds"] if not _is_copy(path, home)}
    keyed = {part.removesuffix(" desc") for part in (*view["partition"], *view["sort"])}
    copies = [_short(path, entity) for path in view["holds"] if _is_copy(path, home) and path not in keyed]
    if own <= set(view["holds"]):
        said = " + ".join(["all", *copies])
    elif view["base"] and view["projection"] is None:
        said = "keys"  # an index that leads to the row, which has the rest
    else:
        said = ", ".join(_short(path, entity) for path in view["holds"] if path not in keyed) or "keys"
    for embed in view["embeds"]:
        first = f"first {embed['limit']} " if embed["limit"] is not None else ""
        said += f", with {first}{embed['role']}"
    only = " and ".join(view["sparse"])
    return f"{said} where {only}" if only else said


def _is_copy(path: str, home: Document) -> bool:
    """`user.name` is of another row; `ship_to.user` is a part of a reference that has several."""
    entity, _, rest = path.partition(".")
    first, dot, _ = rest.partition(".")
    return bool(dot) and f"{entity}.{first}" in home["holds"]


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
        text = f"it would be served if you {plan['change']}"
        lines += wrap(text, width(), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return [*lines, ""]


def _steps(steps: Sequence[Document]) -> list[str]:
    """A line per step, in the words of the document; the same step for several fields is said once."""
    told: dict[str, list[str]] = {}
    for step in steps:
        if step["op"] == "aggregate" and (step.get("for") or step.get("if_gone")):
            continue  # a computed field says so by itself
        said = f"{step['op'].replace('_', ' ')} {step.get('on') or ''}".strip()
        where = " and ".join(step.get("where") or ())
        by = ", ".join(step.get("by") or ())
        line = said + (f": {where}" if where else "") + (f" by {by}" if by else "")
        note = f" beyond {step['beyond']}" if step.get("beyond") else " if gone" if step.get("if_gone") else ""
        line += ", if it is gone" if step.get("if_gone") and not step.get("for") else ""
        told.setdefault(line, []).extend([f"{step['for']}{note}"] if step.get("for") else [])
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
    for finding in _outgrown_together(document["findings"]):
        fix = f"; {finding['fix']}" if finding.get("fix") else ""
        text = f"{finding['severity']}: {finding['path']}: {finding['message']}{fix}"
        lines += wrap(text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines


def _outgrown_together(findings: Sequence[Document]) -> list[Document]:
    """The findings, with all counts that creates outgrow within the same time, and for the same reason, as one."""
    alike: dict[str, list[Document]] = {}
    for finding in findings:
        if finding.get("evidence", {}).keys() == {"count", "created"}:
            alike.setdefault(finding["fix"], []).append(finding)
    found: list[Document] = []
    for finding in findings:
        some = alike.get(finding.get("fix") or "", [finding])
        if len(some) < 2 or finding not in some:
            found.append(finding)
        elif finding is some[0]:
            span = finding["message"].rpartition(" within ")[2]
            each = ", ".join(
                f"{one['path'].rpartition('.')[2]} (count {format_about(one['evidence']['count'])}, "
                f"{format_about(one['evidence']['created'])} made)"
                for one in some
            )
            found.append({**finding, "path": "entities", "message": f"creates outgrow counts within {span}: {each}"})
    return found


def difference_text(found: Document) -> str:
    """What a design changes against the lock file."""
    if found["same"]:
        return "the lock file holds the same design"
    cost = found["cost"]
    before, after = (_price(cost[when], cost["unit"]) for when in ("before", "after"))
    lines = [f"against the lock file: {before} before, {after} after"]
    for what in ("added", "dropped"):
        lines += [f"  {what}: {_structure(one)}" for one in found[what]]
    lines += [f"  moved: {_structure(one['from'])}: {'; '.join(one['changes'])}" for one in found["moved"]]
    lines += [f"  made otherwise: {', '.join(found['structures'])}"] if found["structures"] else []
    lines += [f"  {one['name']}: {one['after']} instead of {one['before']}" for one in found["settings"]]
    for one in found["patterns"]:
        lines.append(f"  {one['name']} runs differently: {'; '.join(one['after'])}")
    lines += [f"  served now: {name}" for name in found["served"]]
    lines += [f"  no longer served: {one['name']}: {one['reason']}" for one in found["unserved"]]
    lines += [f"  the locked design: {lack}" for lack in cost["lacks"]]
    return "\n".join(lines)


def _structure(told: Document) -> str:
    return f"{told['kind']} {told['structure']}, {told['entity']} by {', '.join(told['key'])}"


def explanation_text(found: Document) -> str:
    """A pattern or write step by step, or what a structure is for and what it costs."""
    match found["what"]:
        case "pattern" | "write":
            return "\n".join([*_call(found), *_request(found)])
        case "transaction":
            parts = [f"{part['name']} ×{number(part['usual'])}, at most {part['most']}" for part in found["writes"]]
            blocks = ["\n".join(_call(part)) for part in found["writes"]]
            head = f"{found['name']}: {'; '.join(parts)}; all or none"
            return "\n\n".join([head, *blocks]) + "\n".join(["", *_request(found)])
        case "structure" | "view":
            return "\n".join(_purpose(found))
        case _:
            return "\n".join(_overview(found))


def _call(found: Document) -> list[str]:
    title = f"{found['what']} {found['name']} of {found['entity']} on {found['engine']}"
    if not found["served"]:
        return [title, *_unserved(found["name"], found)]
    unit = found["unit"]
    figures = [
        f"{_amount(found['requests'], 'request')} in {_amount(found['round_trips'], 'round trip')}",
        _amount(found["rows"], "row"),
        *([format_bytes(found["bytes"])] if found["bytes"] else []),
        *(_of_unit(amount, name) for name, amount in found["units"].items()),
        *_latency(found),
    ]
    cost = f"{_price(found['total'], unit)} at {format_rate(found['rate'])}, {_each(found['cost'], unit)}"
    lines = [title, f"  {', '.join(figures)}", f"  {cost}" + (f", {found['how']}" if found.get("how") else "")]
    for place, step in enumerate(found["steps"], 1):
        lines += ["", f"{place}. {_said(step)}"]
        for line in str(step.get("words") or "").splitlines():
            lines += wrap(line, width(), initial_indent=" " * 5, subsequent_indent=" " * 7, drop_whitespace=True)
    return lines


def _request(found: Document) -> list[str]:
    """The one request of a write, where the engine sends one."""
    if not found.get("request"):
        return []
    if found.get("request_per_row"):
        head = (
            f"each row found is written by a request of its own, {_amount(found['rows'], 'row')} a call; that of one:"
        )
    else:
        head = "all of it is one request; of several rows or values, one is shown:"
    lines = ["", head, *_indented(found["request"])]
    if len(found.get("large", ())) > 1:
        lines += ["", "where that is too much for one request, it is several, one after the other:"]
        for place, one in enumerate(found["large"], 1):
            each = f"for every {one['rows']} rows" if one["repeated"] else "once"
            lines += ["", f"{place}. {each}:", *_indented(one["words"])]
    return lines


def _indented(words: str) -> list[str]:
    lines = []
    for line in words.splitlines():
        lines += wrap(line, width(), initial_indent=" " * 5, subsequent_indent=" " * 7, drop_whitespace=True)
    return lines


def _latency(found: Document) -> list[str]:
    """The expected p99 and its budget."""
    budget = f" of {number(found['p99_budget_ms'])} ms" if found.get("p99_budget_ms") else ""
    return [f"p99 {number(found['p99_ms'], 2)} ms{budget}"]


def _each(cost: float, unit: str) -> str:
    """What one call costs; money is said of a million calls, because one costs next to nothing."""
    if _is_money(unit):
        return f"${cost * 1e6:,.2f} a million calls"
    return f"{number(cost, 2)} {unit.partition('/')[0]} a call"


def _said(step: Document) -> str:
    """One step of a plan, with its figures."""
    if step["op"] == "write":
        counts = [_amount(step[f"{what}s"], what) for what in ("put", "delete") if step[f"{what}s"]]
        return f"write {step['on']}: {', '.join(counts) or 'nothing'}"
    (text,) = _steps([{**step, "for": None, "if_gone": False}])
    notes = [
        f"for {step['for']}" if step.get("for") else "",
        step.get("why") or "",
        _amount(step["requests"], "request") if step.get("requests", 0) > 1 else "",
        _read(step) if "rows" in step and not step.get("if_gone") else "",
        "at the same time" if step.get("parallel") else "",
        "bucket by bucket" if step.get("walk") else "",
        f"only where {step['beyond']} came along" if step.get("beyond") else "",
        "only for references that lead nowhere" if step.get("if_gone") else "",
    ]
    return ", ".join([text, *filter(None, notes)])


def _read(step: Document) -> str:
    """The rows of a step, and how they are counted where that is not as they are on average."""
    times = step.get("times_the_mean")
    why = f" ({number(times, 2)} times the mean: larger sets are asked for more often)" if times else ""
    return _amount(step["rows"], "row") + why


def _unique(view: Mapping[str, Any]) -> str:
    return f"{' with '.join(view['keeps_unique'])} unique"


def _needed(found: Mapping[str, Any]) -> str:
    """Who needs a structure: patterns and writes that read it, and fields that are unique by it."""
    unique = " and ".join(_unique(view) for view in found["views"] if view["keeps_unique"])
    reasons = [f"by {', '.join(found['needed_by'])}"] if found["needed_by"] else []
    reasons += [f"to keep {unique}"] if unique else []
    return f"needed {', and '.join(reasons) or 'by nothing'}"


EQUAL = 1e-4
"""Designs whose costs differ by a smaller share cost as much as each other."""


def _purpose(found: Document) -> list[str]:
    unit = found["unit"]
    lines = [
        f"{found['kind']} {found['name']} on {found['engine']}",
        f"  {_amount(found['rows'], 'row')}, {format_bytes(found['bytes'])}, {_price(found['total'], unit)}: "
        f"{_cost(found['storage'], unit)} to keep, {_cost(found['upkeep'], unit)} to write",
        f"  {_needed(found)}",
    ]
    for view in found["views"]:
        key = _parts([*view["partition"], *view["sort"]], view["entity"])
        home = f", the home of {', '.join(view['home_of'])}" if view["home_of"] else ""
        home += f", which keeps {_unique(view)}" if view["keeps_unique"] else ""
        lines.append(f"  {view['entity']} by {key}{home}")
        for touch in view["touched_by"]:
            counts = ", ".join(_amount(touch[f"{what}s"], what) for what in ("put", "delete") if touch[f"{what}s"])
            lines.append(f"    {touch['write']}: {counts or 'changes'}, {_price(touch['total'], unit)}")
    without = found["without"]
    if without["possible"]:
        instead = f", with {'; '.join(without['instead'])}" if without["instead"] else ""
        same = without["more"] < EQUAL * without["value"]
        more = "as much" if same else f"{_price(without['more'], unit)} more"
        lines.append(f"  the best design without it costs {more}{instead}")
    else:
        lines.append(f"  there is no design without it: {without['reason']}")
    return lines


def _overview(found: Document) -> list[str]:
    unit = found["unit"]
    title = _cost_title(unit)
    rows = []
    for structure in found["structures"]:
        homes = [f"home of {name}" for view in structure["views"] for name in view["home_of"]]
        unique = [f"keeps {_unique(view)}" for view in structure["views"] if view["keeps_unique"]]
        why = ", ".join([*homes, *unique, *structure["because"]])
        rows.append([f"{structure['kind']} {structure['name']}", why, _cost(structure["cost"], unit)])
    lines = [*table(["structure", "because", title], rows, right=title, wrap="because"), ""]
    rows = []
    for name, plan in {**found["patterns"], **found["writes"]}.items():
        if plan["served"]:
            rows.append([name, ", ".join(plan["reads"]), ", ".join(plan.get("writes", ())), _cost(plan["total"], unit)])
        else:
            rows.append([name, f"unserved: {plan['reason']}", "", ""])
    lines += table(["call", "reads", "writes", title], rows, right=title, wrap="reads writes")
    return lines


def executed_text(done: Document) -> str:
    """What one call did: all of it, then step by step."""
    whole = [_whole(done["requests"], "request"), _whole(done["rounds"], "round trip"), _whole(done["rows"], "row")]
    lines = [f"{whole[0]} in {whole[1]}, {whole[2]}"]
    for place, step in enumerate(done["steps"], 1):
        figures = f"{_whole(step['requests'], 'request')}, {_whole(step['rows'], 'row')}"
        lines.append(f"{place}. {step['op']} {step['view']}: {figures}")
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
