from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.fuse import CROWD, Method, fuse

Leg = Sequence[tuple[int, float]]

WEIGHTS = st.floats(0.01, 0.99)
METHODS: st.SearchStrategy[Method] = st.sampled_from(["weighted", "rrf"])


def legs(scores: st.SearchStrategy[float], most: int = 2 * CROWD) -> st.SearchStrategy[Leg]:
    """Chunks with scores, best first."""
    ids = st.lists(st.integers(0, 300), unique=True, max_size=most)
    return ids.flatmap(
        lambda ids: st.lists(scores, min_size=len(ids), max_size=len(ids)).map(
            lambda scores: list(zip(ids, sorted(scores, reverse=True), strict=True))
        )
    )


KEYWORD = legs(st.floats(1e-6, 60))
VECTOR = legs(st.floats(-1, 1))


@given(KEYWORD, VECTOR, WEIGHTS, METHODS)
def test_each_chunk_comes_once_with_falling_scores_from_0_to_1(
    keyword: Leg, vector: Leg, weight: float, method: Method
) -> None:
    fused = fuse(keyword, vector, weight, method)
    scores = [score for _, score in fused]
    assert sorted(chunk for chunk, _ in fused) == sorted({chunk for chunk, _ in [*keyword, *vector]})
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


@given(KEYWORD, VECTOR, WEIGHTS, METHODS)
def test_the_order_within_a_leg_is_kept_among_what_the_other_does_not_hold(
    keyword: Leg, vector: Leg, weight: float, method: Method
) -> None:
    fused = [chunk for chunk, _ in fuse(keyword, vector, weight, method)]
    for leg, other in ((keyword, vector), (vector, keyword)):
        elsewhere = {chunk for chunk, _ in other}
        alone = [chunk for chunk, _ in leg if chunk not in elsewhere]
        assert [chunk for chunk in fused if chunk in set(alone)] == alone


@given(KEYWORD, WEIGHTS, METHODS)
def test_without_vectors_the_order_is_that_of_the_keywords(keyword: Leg, weight: float, method: Method) -> None:
    assert [chunk for chunk, _ in fuse(keyword, [], weight, method)] == [chunk for chunk, _ in keyword]


@given(VECTOR, WEIGHTS, METHODS)
def test_without_keywords_the_order_is_that_of_the_vectors(vector: Leg, weight: float, method: Method) -> None:
    assert [chunk for chunk, _ in fuse([], vector, weight, method)] == [chunk for chunk, _ in vector]


@given(KEYWORD, VECTOR, WEIGHTS, METHODS, st.floats(-1, 1))
def test_what_is_first_in_both_has_score_1_and_nothing_else_reaches_more(
    keyword: Leg, vector: Leg, weight: float, method: Method, floor: float
) -> None:
    keyword = [(-1, (keyword[0][1] if keyword else 1.0) * 1.5), *keyword]
    vector = [(-1, 1.0), *vector]
    assert fuse(keyword, vector, weight, method, floor=floor)[0] == (-1, 1.0)


@given(KEYWORD, VECTOR, METHODS)
def test_a_leg_without_weight_is_left_out(keyword: Leg, vector: Leg, method: Method) -> None:
    assert [chunk for chunk, _ in fuse(keyword, vector, 1.0, method)] == [chunk for chunk, _ in keyword]
    assert [chunk for chunk, _ in fuse(keyword, vector, 0.0, method)] == [chunk for chunk, _ in vector]


def test_the_weighted_sum_is_that_of_scores_over_the_crowd() -> None:
    keyword = [(1, 8.0), (2, 2.0)]
    vector = [(3, 0.9), (2, 0.88), *((at, 0.8) for at in range(100, 100 + CROWD))]
    fused = dict(fuse(keyword, vector, 0.6))
    assert fused[1] == pytest.approx(0.6)
    assert fused[2] == pytest.approx(0.6 * 0.25 + 0.4 * 0.8)
    assert fused[3] == pytest.approx(0.4)
    assert fused[100] == 0.0


def test_of_few_answers_the_last_is_not_worth_nothing() -> None:
    """Two notes that both fit: that one has the words must not be undone by a cosine that is lower by a hair."""
    keyword, vector = [(1, 5.0)], [(2, 0.86), (1, 0.855)]
    assert fuse(keyword, vector, 0.5, floor=0.8)[0][0] == 1
    assert dict(fuse(keyword, vector, 0.5, floor=0.8))[1] == pytest.approx(0.5 + 0.5 * 0.055 / 0.06)


def test_reciprocal_ranks_are_added() -> None:
    fused = fuse([(1, 9.0), (2, 1.0)], [(2, 0.9), (3, 0.1)], 0.7, "rrf")
    assert [chunk for chunk, _ in fused] == [2, 1, 3]
    assert fused[0][1] == pytest.approx((1 / 62 + 1 / 61) * 61 / 2)


def test_equal_cosines_are_all_as_good_as_the_best() -> None:
    assert fuse([], [(1, 0.5), (2, 0.5)], 0.5, floor=0.5) == [(1, 0.5), (2, 0.5)]
