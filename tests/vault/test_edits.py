"""Changes between two texts are right whatever the texts are, small where they can be, and found in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.vault import edits as module
from sidecar.vault.edits import Edit, edits

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=30)


def rebuilt(old: Sequence[str], new: Sequence[str], changes: Sequence[Edit]) -> list[str]:
    """`new`, made of the equal lines of `old` and the new lines of the changes."""
    made: list[str] = []
    at = 0
    for change in changes:
        made += [*old[at : change.old_start], *new[change.new_start : change.new_end]]
        at = change.old_end
    return made + list(old[at:])


def size(changes: Sequence[Edit]) -> int:
    return sum(each.old_end - each.old_start + each.new_end - each.new_start for each in changes)


@given(LINES, LINES)
def test_the_changes_make_the_new_text_and_do_not_touch(old: list[str], new: list[str]) -> None:
    changes = edits(old, new)
    assert rebuilt(old, new, changes) == new
    assert all(one.old_end < other.old_start and one.new_end < other.new_start for one, other in pairwise(changes))
    assert all(change.old_start < change.old_end or change.new_start < change.new_end for change in changes)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_without_lines_that_hold_fast_the_change_is_the_smallest(old: list[int], new: list[int]) -> None:
    doubled, twice = [each for each in old for _ in "xx"], [each for each in new for _ in "xx"]  # no line is there once
    table = [[0] * (len(twice) + 1) for _ in range(len(doubled) + 1)]
    for i, left in enumerate(doubled):
        for j, right in enumerate(twice):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    assert size(edits(doubled, twice)) == len(doubled) + len(twice) - 2 * table[-1][-1]


def test_a_paragraph_moved_is_one_removed_and_one_added() -> None:
    assert edits("abcXdef", "abcdefX") == [Edit(3, 4, 3, 3), Edit(7, 7, 6, 7)]


@pytest.mark.parametrize("steps", [0, 10, 100])
def test_where_the_steps_give_out_the_change_is_larger_and_still_right(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = "abababab" * 20, "babbabba" * 20
    least = size(edits(old, new))
    monkeypatch.setattr(module, "_STEPS", steps)
    monkeypatch.setattr(module, "_STEPS_A_LINE", 0)
    changes = edits(old, new)
    assert rebuilt(old, new, changes) == list(new)
    assert size(changes) > least


def test_steps_are_bounded_by_the_length_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    class Counted(module._Steps):
        def take(self, count: int) -> bool:
            nonlocal taken
            goes_on = super().take(count)
            taken += count if goes_on else 0
            return goes_on

    monkeypatch.setattr(module, "_Steps", Counted)
    for length in (1000, 10_000):
        taken = 0
        edits("ab" * length, "ba" * length + "b" * length + "aab" * length)
        assert taken <= module._STEPS + module._STEPS_A_LINE * 8 * length
