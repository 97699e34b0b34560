"""The arithmetic under the rows: permutations, draws and fan-outs."""

from __future__ import annotations

from collections import Counter
from decimal import localcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.data.fanout import Fanout
from keyplan.data.numbers import draw, mix, permutation, ranking, salt
from keyplan.data.text import between, numbered, phrases


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permutations_reach_everything_once(size: int, seed: int) -> None:
    shuffle = permutation(size, seed)
    assert sorted(shuffle(index) for index in range(size)) == list(range(size))


@given(
    st.integers(0, 400),
    st.integers(1, 60),
    st.none() | st.integers(1, 40),
    st.none() | st.floats(0.1, 3),
    st.none() | st.floats(0.01, 1),
    st.integers(0, 2**64 - 1),
)
def test_fanouts_divide_all_children_in_runs_within_the_maximum(
    children: int, parents: int, most: int | None, skew: float | None, top: float | None, seed: int
) -> None:
    if most is not None:
        children = min(children, parents * most)
    fan = Fanout(children, parents, most, skew, top, seed)
    found = [fan.locate(child) for child in range(children)]
    sizes = Counter(parent for parent, _ in found)
    assert all(0 <= parent < parents for parent in sizes)
    assert most is None or not sizes or max(sizes.values()) <= most
    places: Counter[int] = Counter()
    for parent, place in found:
        assert place == places[parent]
        places[parent] += 1
    backwards = Fanout(children, parents, most, skew, top, seed)
    assert [backwards.locate(child) for child in reversed(range(children))] == found[::-1]


@given(st.integers(2**33, 2**40), st.integers(1, 50), st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_a_full_fanout_of_many_parents_keeps_the_maximum(parents: int, most: int, where: float, seed: int) -> None:
    fan = Fanout(parents * most - 1, parents, most, seed=seed)
    child = int(where * (parents * most - 2 * most - 3))
    runs = Counter(fan.locate(child + step)[0] for step in range(2 * most + 2))
    assert max(runs.values()) <= most
    assert all(fan.locate(child + step)[1] < most for step in range(2 * most + 2))


def test_fanouts_vary_around_the_mean() -> None:
    fan = Fanout(30_000, 3_000, 25)
    sizes = Counter(fan.locate(child)[0] for child in range(30_000))
    counts = [sizes[parent] for parent in range(3_000)]
    deviation = (sum((count - 10) ** 2 for count in counts) / 3_000) ** 0.5
    assert 3 < deviation < 6
    assert len(set(counts)) > 10


def test_a_child_that_does_not_exist_has_a_parent_all_the_same() -> None:
    assert Fanout(0, 5).locate(0) == (0, 0)
    assert Fanout(10, 5).locate(10) == (0, 10)
    assert Fanout(10, 5).run(10) == (10, 11)


def test_a_fanout_that_cannot_fit_says_so() -> None:
    with pytest.raises(ValueError, match="11 children do not fit 5 parents with at most 2 each"):
        Fanout(11, 5, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**12), st.floats(0.0, 4.0), st.none() | st.floats(0.0, 1.0))
def test_rankings_cover_all_ranks_with_growing_shares(size: int, skew: float, top: float | None) -> None:
    steps = ranking(size, skew, top)
    assert steps[0][0] == 0
    assert steps[-1][1] == size
    assert steps[-1][2] == 2**64
    assert all(one[1] == two[0] and one[2] <= two[2] for one, two in pairwise(steps))


def test_rankings_do_not_depend_on_the_decimal_context_of_the_caller() -> None:
    usual = ranking(3000, 1.1, 0.2)
    with localcontext() as context:
        context.prec = 4
        assert ranking(3000, 1.1, 0.2) == usual


def test_draws_have_the_shares_asked_for() -> None:
    bits = [mix(number) for number in range(40_000)]
    even = Counter(map(draw(10), bits))
    assert all(abs(even[index] / 40_000 - 0.1) < 0.01 for index in range(10))
    zipf = Counter(map(draw(5000, skew=1.0), bits))
    harmonic = sum(1 / rank for rank in range(1, 5001))
    assert zipf[0] / 40_000 == pytest.approx(1 / harmonic, rel=0.06)
    assert sum(zipf[index] for index in range(1000, 5000)) / 40_000 == pytest.approx(
        sum(1 / rank for rank in range(1001, 5001)) / harmonic, rel=0.06
    )
    hot = Counter(map(draw(100, top=0.4), bits))
    assert hot[0] / 40_000 == pytest.approx(0.4, rel=0.05)
    assert max(hot[index] for index in range(1, 100)) < 400


def test_hashes_are_the_same_everywhere() -> None:
    assert mix(1) == 0xE220A8397B1DCDAF
    assert salt(0, "User") == salt(0, "User") != salt(1, "User")
    assert len({mix(number) for number in range(10_000)}) == 10_000


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 400), st.integers(1, 500), st.integers(0, 2**64 - 1))
def test_texts_never_exceed_the_maximum(average: float, most: int, bits: int) -> None:
    average = min(average, most)
    assert len(phrases(average, most)(bits)) <= most
    size, text = numbered(average, most, 500, 7)
    assert len({text(number) for number in range(min(size, 500))}) == min(size, 500)
    assert all(0 < len(text(number)) <= most for number in range(20))


@given(st.floats(0.1, 50), st.integers(1, 60))
def test_lengths_keep_their_mean(average: float, most: int) -> None:
    average = min(average, most)
    length = between(0, 2 * average, average, most)
    found = [length(mix(number)) for number in range(4000)]
    assert sum(found) / 4000 == pytest.approx(average, rel=0.1, abs=0.05)
    assert 0 <= min(found) <= max(found) <= most
