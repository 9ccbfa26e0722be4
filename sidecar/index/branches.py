"""Search by passages: by words alone and by meaning alone, neither knowing of the other.

The order of equally good passages is that of their files and places, so ties
are fetched until all of those at the end of an answer are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sidecar.index.embed.facts import facts_of
from sidecar.index.live import LiveIndex
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.vectors import Vectors

_MARGIN: Final = 50
"""So many more are fetched than are asked for: some may be gone by now, some may tie."""

_DIGITS: Final = 6
_EQUAL: Final = 1e-5
"""Scores of equal passages differ by less."""

_MOST: Final = 10_000
"""Ties are followed so far; beyond, which of them are answered is the index's business."""


class Passage(NamedTuple):
    """A chunk: path of its file in the corpus, place in it from 0, and its whole text."""

    path: str
    ordinal: int
    text: str


def by_words(live: LiveIndex, reader: ManifestReader, query: str, limit: int) -> list[Passage]:
    """The `limit` best by BM25. Blocks."""
    words = live.words(query)
    depth = limit + _MARGIN
    while True:
        hits, _ = live.rank_with_notes(reader, words, depth)
        if not _may_go_on(hits, depth, limit):
            return passages_of(reader, hits, limit)
        depth *= 4


async def by_meaning(vectors: Vectors, query: str, limit: int) -> list[tuple[int, float]]:
    """(chunk id, cosine) of those nearest to the query, not below the embedder's floor, best first; ids may be gone.

    Raises:
        VectorsAway: the worker can't answer now.
    """
    depth = limit + _MARGIN
    while True:
        ids, cosines = await vectors.query(query, depth)
        hits = list(zip(ids.tolist(), cosines.tolist(), strict=True))
        if not _may_go_on(hits, depth, limit):
            floor = facts_of(vectors.embedder_id).relevance_floor
            return [hit for hit in hits if hit[1] >= floor]
        depth *= 4


def passages_of(reader: ManifestReader, hits: Sequence[tuple[int, float]], limit: int) -> list[Passage]:
    """The passages of hits (best first) that still exist, `limit` at most, equal scores by file and place. Blocks."""
    if len(hits) > limit + _MARGIN:
        least = hits[limit + _MARGIN - 1][1] - _EQUAL
        hits = [hit for hit in hits if hit[1] >= least]
    rows = reader.chunk_rows([chunk_id for chunk_id, _ in hits])
    found = [
        # rounded, because the same vector times the same one differs in its last digits from place to place
        (-round(score, _DIGITS), row.path, row.ordinal, row.text)
        for chunk_id, score in hits
        if (row := rows.get(chunk_id))
    ]
    return [Passage(path, ordinal, text) for _, path, ordinal, text in sorted(found)[:limit]]


def _may_go_on(hits: Sequence[tuple[int, float]], depth: int, limit: int) -> bool:
    """Whether passages beyond the last hit may be as good as the last one that is answered.

    Or better: among many equal vectors, a graph that looks at as many as are asked for finds no way out.
    """
    return len(hits) >= depth and depth < _MOST and hits[-1][1] >= hits[limit - 1][1] - _EQUAL
