"""The vector leg of a search: from the store, or exactly among a few chunks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import numpy as np

from sidecar.index.embed.facts import facts_of
from sidecar.index.search import VectorLeg
from sidecar.index.vectors import Vectors
from sidecar.index.wire import Array, Float16, Float32, Int64

Cached = Callable[[Int64, str], Awaitable[tuple[Int64, Float16]]]
"""(chunk ids, embedder id) to those of them with a cached vector, and the vectors[n, dim]."""

EXACT: Final = 20_000
"""Up to so many chunks are compared one by one: a graph that is asked for a few of many misses most of them."""

_MARGIN: Final = 2
"""How many times more is fetched than chance would need, where the chunks that count are not like the others."""


async def near(vectors: Vectors, query: str, depth: int) -> VectorLeg:
    """The `depth` nearest of all chunks.

    Raises:
        VectorsAway: the worker can't answer now.
    """
    return _leg(vectors, *await vectors.query(query, depth))


async def near_among(vectors: Vectors, query: str, depth: int, among: Int64, cached: Cached) -> VectorLeg:
    """The `depth` nearest of the chunks `among`, which is ascending.

    Raises:
        VectorsAway: the worker can't answer now.
    """
    if among.size <= EXACT:
        vector = await vectors.embed_query(query)
        return _leg(vectors, *nearest(vector, *await cached(among, vectors.embedder_id or ""), depth))
    share = max(1.0, vectors.count / among.size)  # less than 1 while the store is being filled
    ids, cosines = await vectors.query(query, min(vectors.count, int(depth * share * _MARGIN) + 1))
    kept = np.isin(ids, among)
    return _leg(vectors, ids[kept][:depth], cosines[kept][:depth])


def nearest(vector: Float32, ids: Int64, vectors: Array, depth: int) -> tuple[Int64, Float32]:
    """The `depth` of vectors[n, dim] with the greatest cosine to vector[dim]: their ids and cosines, best first."""
    if not (ids.size and vector.any()):
        return np.empty(0, np.int64), np.empty(0, np.float32)
    # not by `@`: OpenBLAS wakes a thread for each core, which then wait at full speed
    cosines = np.einsum("ij,j->i", vectors.astype(np.float32), vector)
    order = np.lexsort((ids, -cosines))[:depth]
    return ids[order], cosines[order]


def _leg(vectors: Vectors, ids: Int64, cosines: Float32) -> VectorLeg:
    return VectorLeg(list(zip(ids.tolist(), cosines.tolist(), strict=True)), facts_of(vectors.embedder_id))
