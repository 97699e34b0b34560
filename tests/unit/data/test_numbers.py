"""The arithmetic under the rows: permutations, draws and fan-outs."""

from __future__ import annotations

from collections import Counter
from decimal import localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.data.fanout import Fanout
from keyplan.data.numbers import Bits, Numbers, as_bits, draw, mix, mixed, permutation, ranking, ratio, salt, upper
from keyplan.data.text import between, numbered, phrases

WORDS = st.integers(0, 2**64 - 1)


def many(count: int) -> Numbers:
    return np.arange(count, dtype=np.int64)


def hashes(count: int) -> Bits:
    return mixed(as_bits(many(count)))


def located(fan: Fanout, children: list[int]) -> list[tuple[int, int]]:
    found = fan.locate(np.array(children, dtype=np.int64))
    return list(zip(found.parents.tolist(), found.places.tolist(), strict=True))


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1), WORDS)
def test_products_of_128_bits(pairs: list[tuple[int, int]], factor: int) -> None:
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.uint64) for side in (0, 1))
    assert upper(first, second).tolist() == [one * other >> 64 for one, other in pairs]
    for single in (factor, factor >> 32):
        assert upper(first, single).tolist() == [one * single >> 64 for one, _ in pairs]


@given(st.lists(st.integers(0, 2**60), min_size=1), st.integers(0, 2**60), st.integers(1, 2**60))
def test_fractions_of_large_numbers_are_exact(numbers: list[int], numerator: int, denominator: int) -> None:
    exact = [(number * numerator // denominator) % 2**64 for number in numbers]
    assert as_bits(ratio(numerator, denominator)(np.array(numbers))).tolist() == exact


@given(st.lists(WORDS, min_size=1))
def test_one_hash_or_many(numbers: list[int]) -> None:
    assert mixed(np.array(numbers, dtype=np.uint64)).tolist() == [mix(number) for number in numbers]


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permutations_reach_everything_once(size: int, seed: int) -> None:
    shuffle = permutation(size, seed)
    assert sorted(shuffle(many(size)).tolist()) == list(range(size))


@given(st.integers(2**31, 2**56), WORDS, st.floats(0, 1))
def test_permutations_of_very_many_do_not_collide(size: int, seed: int, where: float) -> None:
    start = int(where * (size - 5000))
    found = permutation(size, seed)(many(4000) + start).tolist()
    assert len(set(found)) == 4000
    assert 0 <= min(found) <= max(found) < size
    factor = (found[1] - found[0]) % size
    assert all((two - one) % size == factor for one, two in pairwise(found))


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
    found = located(fan, list(range(children)))
    sizes = Counter(parent for parent, _ in found)
    assert all(0 <= parent < parents for parent in sizes)
    assert most is None or not sizes or max(sizes.values()) <= most
    places: Counter[int] = Counter()
    for parent, place in found:
        assert place == places[parent]
        places[parent] += 1
    assert fan.locate(many(children)).sizes.tolist() == [sizes[parent] for parent, _ in found]
    assert located(fan, list(reversed(range(children)))) == found[::-1]
    assert [one for child in range(0, children, 7) for one in located(fan, [child])] == found[::7]


@given(st.integers(2**33, 2**40), st.integers(1, 50), st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_a_full_fanout_of_many_parents_keeps_the_maximum(parents: int, most: int, where: float, seed: int) -> None:
    fan = Fanout(parents * most - 1, parents, most, seed=seed)
    child = int(where * (parents * most - 2 * most - 3))
    found = located(fan, [child + step for step in range(2 * most + 2)])
    assert max(Counter(parent for parent, _ in found).values()) <= most
    assert all(place < most for _, place in found)


def test_fanouts_vary_around_the_mean() -> None:
    fan = Fanout(30_000, 3_000, 25)
    sizes = Counter(parent for parent, _ in located(fan, list(range(30_000))))
    counts = [sizes[parent] for parent in range(3_000)]
    deviation = (sum((count - 10) ** 2 for count in counts) / 3_000) ** 0.5
    assert 3 < deviation < 6
    assert len(set(counts)) > 10


def test_a_child_that_does_not_exist_has_a_parent_all_the_same() -> None:
    assert located(Fanout(0, 5), [0]) == [(0, 0)]
    fan = Fanout(10, 5)
    assert located(fan, [10, 3]) == [(0, 10), *located(fan, [3])]
    assert fan.locate(np.array([10])).sizes.tolist() == [11]


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
    bits = hashes(40_000)
    even = Counter(draw(10)(bits).tolist())
    assert all(abs(even[index] / 40_000 - 0.1) < 0.01 for index in range(10))
    zipf = Counter(draw(5000, skew=1.0)(bits).tolist())
    harmonic = sum(1 / rank for rank in range(1, 5001))
    assert zipf[0] / 40_000 == pytest.approx(1 / harmonic, rel=0.06)
    assert sum(zipf[index] for index in range(1000, 5000)) / 40_000 == pytest.approx(
        sum(1 / rank for rank in range(1001, 5001)) / harmonic, rel=0.06
    )
    hot = Counter(draw(100, top=0.4)(bits).tolist())
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
    assert len(phrases(average, most)(np.array([bits], dtype=np.uint64))[0]) <= most
    size, texts = numbered(average, most, 500, 7)
    found = texts(many(min(size, 500)))
    assert len(set(found)) == len(found) == min(size, 500)
    assert all(0 < len(text) <= most for text in found)


@given(st.floats(0.1, 50), st.integers(1, 60))
def test_lengths_keep_their_mean(average: float, most: int) -> None:
    average = min(average, most)
    length = between(0, 2 * average, average, most)
    found = length(hashes(4000)).tolist()
    assert sum(found) / 4000 == pytest.approx(average, rel=0.1, abs=0.05)
    assert 0 <= min(found) <= max(found) <= most
