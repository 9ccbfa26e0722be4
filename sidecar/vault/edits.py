"""Which lines of a text became which, or which words of a line: the least change that is found in bounded time.

Lines that both texts have once, in one order, hold fast first; between them
the shortest way is looked for. Where that takes too many steps, what lies
between is taken as replaced: a larger change, never a wrong one. (`difflib`
takes cubic time for texts that somebody makes for that.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

_STEPS: Final = 100_000  # some 20 ms
_STEPS_A_LINE: Final = 4
_FARTHEST: Final = 500
"""Lines that one gap may have lost and gained in all; the memory for the way grows with their square."""


class Edit(NamedTuple):
    """Lines `old_start` to `old_end` of the old text became `new_start` to `new_end` of the new; counted from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def edits(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Edit]:
    """The changes that make `new` of `old`, in order; between two of them there is at least one equal line."""
    steps = _Steps(_STEPS + _STEPS_A_LINE * (len(old) + len(new)))
    found: list[Edit] = []
    for edit in _between_anchors(old, new, steps):
        if found and (found[-1].old_end, found[-1].new_end) == (edit.old_start, edit.new_start):
            edit = Edit(found[-1].old_start, edit.old_end, found.pop().new_start, edit.new_end)
        found.append(edit)
    return found


class _Steps:
    """How many steps are left."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> bool:
        """Whether there were so many."""
        self._left -= count
        return self._left >= 0


def _between_anchors(old: Sequence[Hashable], new: Sequence[Hashable], steps: _Steps) -> Iterator[Edit]:
    whole = _trimmed(old, new, Edit(0, len(old), 0, len(new)))
    at_old, at_new = whole.old_start, whole.new_start
    for anchor_old, anchor_new in [*_anchors(old, new, whole), (whole.old_end, whole.new_end)]:
        gap = _trimmed(old, new, Edit(at_old, anchor_old, at_new, anchor_new))
        yield from _shortest(old, new, gap, steps)
        at_old, at_new = anchor_old + 1, anchor_new + 1


def _trimmed(old: Sequence[Hashable], new: Sequence[Hashable], span: Edit) -> Edit:
    """Without the lines that are equal at both ends."""
    old_start, old_end, new_start, new_end = span
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    return Edit(old_start, old_end, new_start, new_end)


def _anchors(old: Sequence[Hashable], new: Sequence[Hashable], span: Edit) -> list[tuple[int, int]]:
    """Pairs of places of the lines that both have once, as many as stand in the same order in both."""
    new_lines = new[span.new_start : span.new_end]
    in_old, in_new = Counter(old[span.old_start : span.old_end]), Counter(new_lines)
    places = {line: at for at, line in enumerate(new_lines, span.new_start) if in_new[line] == 1}
    pairs = [
        (at, places[line])
        for at, line in enumerate(old[span.old_start : span.old_end], span.old_start)
        if line in places and in_old[line] == 1
    ]
    # the longest rising sequence: `ends[n]` is the least end of one of n + 1 pairs
    ends: list[int] = []
    last_of: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last_of[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last_of[length : length + 1] = [number]
    chain: list[tuple[int, int]] = []
    at = last_of[-1] if last_of else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _shortest(old: Sequence[Hashable], new: Sequence[Hashable], gap: Edit, steps: _Steps) -> Iterator[Edit]:
    """Myers' greedy way from one corner to the other; `gap` as it is where the steps give out."""
    height, width = gap.old_end - gap.old_start, gap.new_end - gap.new_start
    if not height and not width:
        return
    if not height or not width:
        yield gap
        return
    trail: list[dict[int, int]] = []
    reach = {1: 0}  # by diagonal (old minus new): how far into the old lines
    for distance in range(min(height + width, _FARTHEST) + 1):
        trail.append(dict(reach))
        if not steps.take(2 * distance + 1):
            yield gap
            return
        for diagonal in range(-distance, distance + 1, 2):
            is_new = diagonal == -distance or (
                diagonal != distance and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            x = reach[diagonal + 1] if is_new else reach[diagonal - 1] + 1
            start = x
            while x < height and x - diagonal < width and old[gap.old_start + x] == new[gap.new_start + x - diagonal]:
                x += 1
            reach[diagonal] = x
            if not steps.take(x - start):
                yield gap
                return
            if x >= height and x - diagonal >= width:
                yield from _way_back(trail, gap)
                return
    yield gap


def _way_back(trail: list[dict[int, int]], gap: Edit) -> Iterator[Edit]:
    x, y = gap.old_end - gap.old_start, gap.new_end - gap.new_start
    found: list[Edit] = []
    for distance in range(len(trail) - 1, 0, -1):
        reach, diagonal = trail[distance], x - y
        is_new = diagonal == -distance or (
            diagonal != distance and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
        )
        from_diagonal = diagonal + 1 if is_new else diagonal - 1
        from_x = reach[from_diagonal]
        from_y = from_x - from_diagonal
        to_x, to_y = (from_x, from_y + 1) if is_new else (from_x + 1, from_y)
        base_old, base_new = gap.old_start, gap.new_start
        found.append(Edit(base_old + from_x, base_old + to_x, base_new + from_y, base_new + to_y))
        x, y = from_x, from_y
    yield from reversed(found)
