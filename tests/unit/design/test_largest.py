"""The largest call of a write: where not all of it fits, as much of it as can be."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.design.findings.largest import largest_call
from keyplan.design.problem.build import build_problem
from keyplan.design.program.solve import solve
from keyplan.engines import get_engine
from keyplan.model.load import parse_model
from keyplan.model.model import Model

ALBUMS = """
keyplan: 1
name: music
entities:
  Album:
    count: 100k
    fields: {{ album: "uuid, key", title: "string(20), distinct 90k", artist: "string(16), distinct 20k" }}
  Track:
    count: 1M
    key: [album, number]
    fields: {{ album: "Album, as tracks, max {most}", number: int, title: "string(20), distinct 800k" }}
patterns:
  album: {{ find: Album, where: "album = :album", with: [tracks], rate: 100/s{strong} }}
  of_artist: {{ find: Album, where: "artist = :artist", select: [title], page: 20, rate: 20/s }}
  by_title: {{ find: Track, where: "title = :title", select: [number], page: 10, rate: 10/s{strong} }}
writes:
  publish: {{ create: Album, with: [tracks], rate: 50/day }}
"""


def albums(most: int, strong: str = "") -> Model:
    return parse_model(ALBUMS.format(most=most, strong=strong))


def entries(model: Model) -> float:
    built = build_problem(model, get_engine("dynamodb"))
    found = solve(built.problem)
    assert found is not None
    return largest_call(model, built.problem, "publish", set(found.chosen)).entries


@pytest.mark.parametrize("most", [40, 90, 100, 150])
def test_a_call_that_does_not_fit_whole_is_made_as_large_as_can_be(most: int) -> None:
    """Up to 97 tracks fit with their album. If there may be more, each still takes one entry, and no copy comes before
    an index that takes none."""
    limit = 98.0
    assert entries(albums(most)) <= (limit if most < limit else most + 1)


def test_what_has_to_be_is_still_served() -> None:
    """What is found by its title at once needs a second entry, however large the call may be."""
    model = albums(150, ", consistency: strong")
    found = design(model, get_engine("dynamodb"), advise=False)
    assert not found.unserved
    assert entries(model) == 301


def test_the_warning_says_how_large_a_call_may_be() -> None:
    found = design(albums(150), get_engine("dynamodb"), advise=False)
    (said,) = [finding for finding in found.findings if finding.path == "writes.publish"]
    assert "151 entries" in said.message
    assert "with up to 99 of its 'tracks' it is done" in said.message
