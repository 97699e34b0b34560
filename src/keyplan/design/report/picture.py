"""A picture of a design as SVG: patterns on the left, structures in the middle, writes on the right, lines between.

There are no scripts in it. Pointing at a pattern or write in a browser brings out its lines, and every text that had to
be cut has its full form as a tooltip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any
from xml.sax.saxutils import escape

from keyplan.design.report.document import document
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.units import format_bytes, format_count, format_rate

MARGIN = 32
TOP = 108
SIDE = 290
"""Width of a pattern's or write's box."""
MIDDLE = 520
CARD = 46
"""Height of a pattern's or write's box, and the space below it."""
SPACE = 12
LINE = 18
CHARACTER = 7.25
"""Width of a character at 12 px in the widest of the fonts named below."""
HOLDS_LINES = 2

READS = ("#1d4ed8", "#0e7490", "#4338ca", "#047857", "#0369a1", "#6d28d9")
WRITES = ("#b45309", "#be123c", "#a16207", "#c2410c", "#9d174d", "#854d0e")

STYLE = """
text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1f2937 }
.title { font: 600 20px system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif }
.column { font: 600 13px system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif; fill: #6b7280 }
.name { font-weight: 600 }
.faint { fill: #6b7280 }
.bad { fill: #b91c1c }
.structure { fill: #f8fafc; stroke: #94a3b8 }
.head { fill: #334155 }
.on-head { fill: #f8fafc; font-weight: 600 }
.rule { stroke: #cbd5e1 }
.card { fill: #ffffff; stroke-width: 1.5 }
.line { fill: none; stroke-width: 1.6; opacity: .55 }
.lookup { stroke-dasharray: 5 4 }
g:hover > .line { stroke-width: 3.2; opacity: 1 }
g:hover > .card { stroke-width: 3 }
"""

Document = Mapping[str, Any]


@dataclass
class _Row:
    """One view inside a structure's box."""

    name: str
    lines: list[tuple[str, str, str]]
    """Class, text and tooltip of each line."""
    right: str
    top: float = 0.0

    @property
    def height(self) -> float:
        return LINE * len(self.lines) + SPACE


@dataclass
class _Card:
    """A pattern or write."""

    name: str
    detail: str
    colour: str
    touches: dict[str, bool]
    """View names, and whether the view is only looked up (drawn dashed)."""
    bad: bool = False
    top: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)
    """Per view: where its line meets the view's box."""


def picture(model: Model, design: Design) -> str:
    """The design as the text of an SVG file."""
    told = document(model, design)
    entities = list(model.entities)
    # What belongs to one entity stands together, which saves crossings.
    structures = sorted(told["structures"], key=lambda structure: entities.index(structure["views"][0]["entity"]))
    boxes = [(structure, [_row(model, view, told) for view in structure["views"]]) for structure in structures]
    rows = {row.name: row for _, views in boxes for row in views}
    bottom = _place_boxes(boxes)
    readers = [_reader(name, found) for name, found in told["patterns"].items()]
    writers = [_writer(name, found) for name, found in told["writes"].items()]
    height = max(bottom, TOP + max(len(readers), len(writers)) * (CARD + SPACE)) + MARGIN
    for cards, palette in ((readers, READS), (writers, WRITES)):
        _place_cards(cards, rows, height - MARGIN, palette)
    gap = 120 + 3 * min(40, max(len(readers), len(writers)))
    middle = MARGIN + SIDE + gap
    right = middle + MIDDLE + gap
    width = right + SIDE + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
        f'viewBox="0 0 {width} {height:g}" role="img">',
        f"<title>{_safe(f'{model.name} on {design.engine}')}</title>",
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(MARGIN, 44, f"{model.name} on {design.engine}", "title"),
        _text(MARGIN, 68, _summary(told), "faint"),
        _text(MARGIN, TOP - 14, "patterns", "column"),
        _text(middle, TOP - 14, "structures", "column"),
        _text(right, TOP - 14, "writes (dashed: what they look up)", "column"),
    ]
    for structure, views in boxes:
        lines += _box(middle, structure, views)
    for card in readers:
        lines += _card(MARGIN, card, MARGIN + SIDE, middle)
    for card in writers:
        lines += _card(right, card, right, middle + MIDDLE)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _summary(told: Document) -> str:
    goal = told["objective"]
    size = sum(view["bytes"] for structure in told["structures"] for view in structure["views"])
    proof = "proven optimal" if goal["gap"] <= 1e-6 else f"within {goal['gap'] * 100:.2g} % of the best"
    return f"{goal['value'] - goal['carrying']:,.2f} {goal['unit']}, {format_bytes(size)}, {proof}"


# what is said


def _row(model: Model, view: Document, told: Document) -> _Row:
    entity = view["entity"]
    lines: list[tuple[str, str, str]] = []
    title = view["name"]
    right = f"{_many(view['rows'], 'row', 'rows')}, {format_bytes(view['bytes'])}"
    lines.append(("name", _cut(title, MIDDLE - 36 - CHARACTER * len(right)), title))
    partition, sort = (_parts(view[part], entity) for part in ("partition", "sort"))
    split = any(other["partition"] for structure in told["structures"] for other in structure["views"])
    if split:
        lines += _wrapped("", f"partition  {partition or 'one for all'}")
        if sort:
            lines += _wrapped("", f"sort       {sort}")
    else:
        lines += _wrapped("", f"key        {sort}")
    for embed in view["embeds"]:
        order = _parts(embed["sort"], embed["entity"])
        first = f"first {embed['limit']} " if embed["limit"] is not None else ""
        lines += _wrapped("", f"with       {first}{embed['role']} by {order}")
    lines += _wrapped("faint", f"holds      {_holds(model, view, told)}", HOLDS_LINES)
    if view["sparse"]:
        lines += _wrapped("faint", f"only       {' and '.join(view['sparse'])}", HOLDS_LINES)
    return _Row(view["name"], lines, right)


def _holds(model: Model, view: Document, told: Document) -> str:
    if told["homes"].get(view["entity"]) == view["name"]:
        held = [_short(path, view["entity"]) for path in view["holds"]]
        own = model.entities[view["entity"]].columns
        return ", ".join(["whole rows", *(path for path in held if path not in own)])
    if view["base"] and view["projection"] is None:
        return "keys only"  # it leads to the row, which has the rest
    keyed = {part.removesuffix(" desc") for part in (*view["partition"], *view["sort"])}
    return ", ".join(_short(path, view["entity"]) for path in view["holds"] if path not in keyed) or "keys only"


def _reader(name: str, found: Document) -> _Card:
    if not found["served"]:
        return _Card(name, f"unserved: {found['reason']}", "", {}, bad=True)
    reads = {step["view"]: False for step in found["steps"] if step.get("view")}
    budget = f" of {found['p99_budget_ms']:g}" if found["p99_budget_ms"] else ""
    rows = _many(found["rows"], "row", "rows")
    detail = f"{_rate(found['rate'])}, {rows}, {_amount(found['p99_ms'], 2)}{budget} ms"
    return _Card(name, detail, "", reads)


def _writer(name: str, found: Document) -> _Card:
    if not found["served"]:
        return _Card(name, f"unserved: {found['reason']}", "", {}, bad=True)
    touches = {step["view"]: True for step in found["steps"] if step.get("view") and step["op"] != "write"}
    touches |= {touch["view"]: False for touch in found["touches"]}
    entries = sum(touch["puts"] + touch["deletes"] for touch in found["touches"])
    detail = f"{_rate(found['rate'])}, {_many(entries, 'entry', 'entries')}, {found['how']}"
    return _Card(name, detail, "", touches)


def _amount(number: float, digits: int = 3) -> str:
    return format_count(float(f"{number:.{digits}g}")) if number >= 1 else f"{number:.2g}"


def _many(number: float, one: str, more: str) -> str:
    return f"{_amount(number)} {one if number == 1 else more}"


def _rate(per_second: float) -> str:
    """A rate with three digits: 13.9/min."""
    amount, _, unit = format_rate(per_second).partition("/")
    return f"{float(amount):.3g}/{unit}" if "." in amount and amount[-1].isdigit() else f"{amount}/{unit}"


def _parts(parts: Sequence[str], entity: str) -> str:
    return ", ".join(_short(part, entity) for part in parts)


def _short(path: str, entity: str) -> str:
    return path.removeprefix(f"{entity}.")


# where it goes


def _place_boxes(boxes: Iterable[tuple[Document, list[_Row]]]) -> float:
    top = float(TOP)
    for _, rows in boxes:
        top += LINE + SPACE
        for row in rows:
            row.top = top
            top += row.height
        top += 2 * SPACE
    return top


def _place_cards(cards: list[_Card], rows: Mapping[str, _Row], bottom: float, palette: Sequence[str]) -> None:
    """Puts each card beside what it touches, in an order with few crossings, without overlaps."""

    def wish(card: _Card) -> float:
        middles = [rows[name].top + rows[name].height / 2 for name in card.touches if name in rows]
        return sum(middles) / len(middles) - CARD / 2 if middles else bottom

    cards.sort(key=lambda card: (wish(card), card.name))
    step = CARD + SPACE
    lowest = float(TOP)
    for card in cards:
        card.top = max(lowest, wish(card))
        lowest = card.top + step
    highest = bottom - CARD
    for card in reversed(cards):
        card.top = min(card.top, highest)
        highest = card.top - step
    for number, card in enumerate(cards):
        card.colour = "#b91c1c" if card.bad else palette[number % len(palette)]
    for name, row in rows.items():
        users = [card for card in cards if name in card.touches]
        for number, card in enumerate(users):
            card.ends[name] = row.top + row.height * (number + 1) / (len(users) + 1)


# how it is drawn


def _box(left: float, structure: Document, rows: list[_Row]) -> list[str]:
    top = rows[0].top - LINE - SPACE
    height = rows[-1].top + rows[-1].height - top
    title = f"{structure['kind']} {structure['name']}"
    lines = [
        f'<rect class="structure" x="{left}" y="{top:g}" width="{MIDDLE}" height="{height:g}" rx="5"/>',
        f'<path class="head" d="M{left} {top + 5:g} a5 5 0 0 1 5 -5 h{MIDDLE - 10} a5 5 0 0 1 5 5 v19 h-{MIDDLE} z"/>',
        _text(left + 12, top + 17, _cut(title, MIDDLE - 24), "on-head", title),
    ]
    for number, row in enumerate(rows):
        if number:
            lines.append(f'<path class="rule" d="M{left} {row.top:g} h{MIDDLE}"/>')
        for at, (style, text, full) in enumerate(row.lines):
            lines.append(_text(left + 12, row.top + LINE * (at + 1), text, style, full))
        lines.append(_text(left + MIDDLE - 12, row.top + LINE, row.right, "faint", anchor="end"))
    return lines


def _card(left: float, card: _Card, start: float, end: float) -> list[str]:
    middle = card.top + CARD / 2
    bend = (end - start) * 0.55
    lines = ["<g>"]
    for name, lookup in card.touches.items():
        if name in card.ends:
            at = card.ends[name]
            style = "line lookup" if lookup else "line"
            curve = f"M{start:g} {middle:g} C{start + bend:g} {middle:g} {end - bend:g} {at:g} {end:g} {at:g}"
            lines.append(f'<path class="{style}" stroke="{card.colour}" d="{curve}"/>')
    lines.append(
        f'<rect class="card" x="{left}" y="{card.top:g}" width="{SIDE}" height="{CARD}" rx="5" stroke="{card.colour}"/>'
    )
    room = SIDE - 24
    lines.append(_text(left + 12, card.top + 19, _cut(card.name, room), "name", card.name))
    style = "bad" if card.bad else "faint"
    lines.append(_text(left + 12, card.top + 37, _cut(card.detail, room), style, card.detail))
    return [*lines, "</g>"]


def _wrapped(style: str, text: str, most: int = 4) -> list[tuple[str, str, str]]:
    """Lines of a labelled text; what goes on is indented below the first word, and too much of it is cut."""
    room = int((MIDDLE - 24) / CHARACTER)
    lines = wrap(text, room, subsequent_indent=" " * 11, break_on_hyphens=False, drop_whitespace=True)
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = lines[-1][: room - 2] + " …"
    return [(style, line, text if lines[-1].endswith("…") else "") for line in lines]


def _cut(text: str, room: float) -> str:
    most = int(room / CHARACTER)
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(x: float, y: float, text: str, style: str = "", full: str = "", *, anchor: str = "") -> str:
    attributes = f' class="{style}"' if style else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    tip = f"<title>{_safe(full)}</title>" if full and full != text else ""
    return f'<text x="{x:g}" y="{y:g}"{attributes} xml:space="preserve">{_safe(text)}{tip}</text>'


def _safe(text: str) -> str:
    """Escaped, and without the characters that XML has no place for."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))
