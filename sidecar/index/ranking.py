"""From ranked chunks to ranked notes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)
C = TypeVar("C")


def best_per_note(chunks: Iterable[tuple[N, float, C]]) -> list[tuple[N, float, C]]:
    """Each note once, with its best chunk: (note, score, chunk), best first, equal scores in the given order.

    A note is as good as its best chunk. Measured on nine sets: a tenth of the second-best on top changes the mean by
    -.001, three tenths by -.006, the sum of all by -.05; long notes win by length alone.
    """
    best: dict[N, tuple[N, float, C]] = {}
    for found in chunks:
        held = best.get(found[0])
        if held is None or found[1] > held[1]:
            best[found[0]] = found
    return sorted(best.values(), key=lambda found: -found[1])
