"""The vectors of the newest saves, compared one by one beside the graph of the store.

A note unlike all others may get no neighbour in the graph that leads back to
it: of the 6,908 passages of a vault of 1,000 notes by `e5`, 13 did not find
themselves, among them one that was just saved. What a person has written
today must be found by its meaning, so it does not depend on the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sidecar.index.wire import Array, Float32, Int64

MOST: Final = 1_000
"""Vectors kept; 1.5 MB by `e5`, compared in 0.1 ms."""


@dataclass(frozen=True, slots=True)
class Newest:
    """ids int64[n], oldest first, and their unit vectors float32[n, dim]. Each change makes another one, so threads
    may read while one changes."""

    ids: Int64
    vectors: Float32

    @classmethod
    def none(cls) -> Newest:
        """Of no saves."""
        return cls(np.empty(0, np.int64), np.empty((0, 0), np.float32))

    def with_saved(self, ids: Int64, vectors: Array) -> Newest:
        """After a save of vectors[m, dim]; the oldest beyond `MOST` are left out, and rows without meaning."""
        added = vectors.astype(np.float32)
        lengths = np.linalg.norm(added, axis=1)
        telling = lengths > 0
        kept = self.without(ids)
        added = added[telling] / lengths[telling, np.newaxis]
        joined = np.concatenate([kept.vectors, added]) if kept.ids.size else added
        return Newest(np.concatenate([kept.ids, ids[telling]])[-MOST:], joined[-MOST:])

    def without(self, ids: Int64) -> Newest:
        """After their removal; unknown ones are passed over."""
        stays = ~np.isin(self.ids, ids)
        return self if stays.all() else Newest(self.ids[stays], self.vectors[stays])

    def among(self, vector: Float32, found: tuple[Int64, Float32], n: int) -> tuple[Int64, Float32]:
        """The `n` nearest to vector[dim] of these and of `found`: ids and cosines, best first."""
        ids, cosines = found
        missed = ~np.isin(self.ids, ids)
        if not missed.any():
            return found
        # not by `@`: OpenBLAS wakes a thread for each core, which then wait at full speed
        near = np.einsum("ij,j->i", self.vectors[missed], vector / np.linalg.norm(vector))
        ids, cosines = np.concatenate([ids, self.ids[missed]]), np.concatenate([cosines, near.astype(np.float32)])
        order = np.argsort(-cosines, kind="stable")[:n]
        return ids[order], cosines[order]
