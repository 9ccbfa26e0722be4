"""Makes one ranking of two: chunks found by their words, and chunks found by their meaning.

The scores of the two have nothing in common, so each is brought to [0, 1]
first. Keyword scores begin at 0 by nature; cosines of any two texts lie close
together, and what counts is how far one rises above the crowd.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, TypeVar

C = TypeVar("C", bound=Hashable)

Method = Literal["weighted", "rrf"]

CROWD = 100  # the place whose cosine counts as 0; every search asks for at least as many
_RRF = 60  # the constant of the reciprocal-rank-fusion paper


def fuse(
    keyword: Sequence[tuple[C, float]],
    vector: Sequence[tuple[C, float]],
    weight: float,
    method: Method = "weighted",
    *,
    floor: float = 0.0,
) -> list[tuple[C, float]]:
    """Each chunk once with its fused score in [0, 1], best first; 1 is what is first in both.

    `keyword` holds positive scores and `vector` cosines, both best first. `weight` is the share of the keywords, in
    [0, 1]; a ranking with no share is left out. A chunk that one of the two does not hold gets 0 from it. Among equals
    what has keywords comes first, and the order within a ranking is kept. "rrf" goes by places alone and heeds
    `weight` only at 0 and 1.

    `floor` is the embedder's relevance floor. Where there are fewer than `CROWD` chunks it counts as 0: the last of
    three good answers is no worse for being last.
    """
    keyword, vector = (keyword if weight > 0 else ()), (vector if weight < 1 else ())
    if method == "rrf":
        by_words, by_meaning = _by_place(keyword), _by_place(vector)
    else:
        by_words = {chunk: weight * score for chunk, score in _from_zero(keyword)}
        by_meaning = {chunk: (1 - weight) * score for chunk, score in _above_crowd(vector, floor)}
    chunks = dict.fromkeys([*by_words, *by_meaning])
    fused = [(chunk, min(by_words.get(chunk, 0.0) + by_meaning.get(chunk, 0.0), 1.0)) for chunk in chunks]
    return sorted(fused, key=lambda one: -one[1])


def _by_place(leg: Sequence[tuple[C, float]]) -> dict[C, float]:
    """Half of the best score for the first, less for each further place."""
    return {chunk: 0.5 * (_RRF + 1) / (_RRF + place) for place, (chunk, _) in enumerate(leg, 1)}


def _from_zero(leg: Sequence[tuple[C, float]]) -> list[tuple[C, float]]:
    best = leg[0][1] if leg else 0.0
    return [(chunk, score / best if best > 0 else 0.0) for chunk, score in leg]


def _above_crowd(leg: Sequence[tuple[C, float]], floor: float) -> list[tuple[C, float]]:
    if not leg:
        return []
    best = leg[0][1]
    lowest = leg[CROWD - 1][1] if len(leg) >= CROWD else min(leg[-1][1], floor)
    span = best - lowest
    return [(chunk, max(score - lowest, 0.0) / span if span > 0 else 1.0) for chunk, score in leg]
