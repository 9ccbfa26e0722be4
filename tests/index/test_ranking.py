from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.ranking import best_per_note


def test_a_note_is_as_good_as_its_best_chunk() -> None:
    assert best_per_note([("a", 1.0, 1), ("b", 3.0, 2), ("a", 2.0, 3), ("a", 0.5, 4)]) == [("b", 3.0, 2), ("a", 2.0, 3)]


def test_equal_scores_keep_the_order_given() -> None:
    assert best_per_note([("b", 1.0, 1), ("a", 1.0, 2), ("b", 1.0, 3)]) == [("b", 1.0, 1), ("a", 1.0, 2)]


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 9), st.integers())))
def test_each_note_comes_once_and_scores_fall(chunks: list[tuple[int, float, int]]) -> None:
    ranked = best_per_note(chunks)
    assert {note for note, _, _ in ranked} == {note for note, _, _ in chunks}
    assert len({note for note, _, _ in ranked}) == len(ranked)
    assert [score for _, score, _ in ranked] == sorted((score for _, score, _ in ranked), reverse=True)
