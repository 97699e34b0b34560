"""Pictures: well-formed, escaped, without scripts, nothing overlapping or outside, every line between two boxes."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from keyplan.design import design
from keyplan.design.report.picture import CHARACTER, LINE, SIDE, picture
from keyplan.engines import get_engine
from keyplan.model.load import parse_model
from tests.unit.design.support import SOME_PLACES, designed, example, notes

SVG = "{http://www.w3.org/2000/svg}"


def check(text: str) -> ElementTree.Element:
    """The parsed picture, after looking for everything that may be wrong with it."""
    root = ElementTree.fromstring(text)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("class") in ("card", "structure"):
            x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
            assert x >= 0
            assert x + w <= width
            assert y >= 0
            assert y + h <= height
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    places: dict[tuple[float, float], str] = {}
    for item in root.iter(f"{SVG}text"):
        x, y = float(item.attrib["x"]), float(item.attrib["y"])
        said = item.text or ""
        if item.get("text-anchor") != "end":
            assert (x, y) not in places, f"'{said}' is written over '{places[(x, y)]}'"
            places[(x, y)] = said
            room = next((box[2] for box in boxes if box[0] <= x <= box[2] and box[1] <= y <= box[3]), width)
            if item.get("class") not in ("title", "column"):
                assert x + len(said) * CHARACTER <= room + 1, said
    for first, second in combinations(sorted(places), 2):
        assert first[0] != second[0] or abs(first[1] - second[1]) >= LINE - 1, (places[first], places[second])
    assert not list(root.iter(f"{SVG}script"))
    assert not re.search(r"\son\w+=|javascript:|<image|href=", text)
    return root


@pytest.mark.parametrize(("name", "engine"), SOME_PLACES)
def test_examples(name: str, engine: str) -> None:
    found = designed(name, engine)
    root = check(picture(example(name), found))
    texts = {item.text for item in root.iter(f"{SVG}text")}
    for call in (*found.plans, *found.writes):
        assert call in texts
    reads = {(call, step["view"]) for call, plan in found.plans.items() for step in plan.steps if "view" in step}
    lines = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("line")]
    assert len(lines) >= len(reads) + len(found.writes)


def test_lines_join_cards_and_views() -> None:
    root = check(picture(example("shop"), designed("shop", "sqlite")))
    cards = {(float(c.attrib["x"]), float(c.attrib["y"])) for c in root.iter(f"{SVG}rect") if c.get("class") == "card"}
    edges = {x for left, _ in cards for x in (left, left + SIDE)}
    for path in root.iter(f"{SVG}path"):
        if (path.get("class") or "").startswith("line"):
            start = float(re.match(r"M([\d.]+)", path.attrib["d"])[1])  # type: ignore[index]
            assert start in edges


def test_sixty_patterns() -> None:
    patterns = "\n".join(
        f'  pattern_with_quite_a_long_name_that_has_to_be_cut_{number}: {{ find: Note, where: "note_id = :note_id" }}'
        for number in range(60)
    )
    model = notes(change=("patterns:\n", f"patterns:\n{patterns}\n"))
    check(picture(model, design(model, get_engine("sqlite"))))


def test_text_is_escaped() -> None:
    text = """
keyplan: 1
name: marks
entities:
  Mark: { count: 1M, fields: { mark_id: "uuid, key", kind: "string(8)", at: "timestamp, now" } }
patterns:
  odd: { find: Mark, where: "kind = '<script>&\\"'", order: at, limit: 5, rate: 100/s }
  one: { find: Mark, where: "mark_id = :mark_id" }
writes:
  make: { create: Mark, rate: 100/s }
"""
    model = parse_model(text, file="marks.yaml")
    drawn = picture(model, design(model, get_engine("sqlite")))
    root = check(drawn)
    assert "<script" not in drawn
    assert any("kind = '<script>&\"'" in (item.text or "") for item in root.iter(f"{SVG}text"))
