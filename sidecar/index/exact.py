"""Nearest passages by comparing all of them, for a corpus that is small enough.

A graph is quicker, but it may lose its way among many equal vectors: with 250
equal paragraphs in a folder, those beside them were seen to become
unreachable, however many neighbours were asked for. Documents repeat
themselves, so folders up to `MOST` passages are compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.near import nearest
from sidecar.index.wire import Float16, Float32, Int64

MOST: Final = 10_000
"""Passages, 8 MB of vectors by `e5`, compared in about 5 ms."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    generation: int
    embedder: str
    ids: Int64
    vectors: Float16


class ExactIndex:
    """The cached vectors of a corpus, read again when its generation has changed. Several threads may ask."""

    def __init__(self) -> None:
        self._snapshot: _Snapshot | None = None

    def nearest(
        self, reader: ManifestReader, generation: Callable[[], int], embedder: str, vector: Float32, depth: int
    ) -> list[tuple[int, float]]:
        """(chunk id, cosine) of the `depth` nearest to vector[dim], best first. Blocks.

        `generation` tells that of the corpus now.
        """
        known = self._snapshot
        now = generation()  # before anything is read: what changes meanwhile is read again by the next one
        if known is None or (known.generation, known.embedder) != (now, embedder):
            ids, vectors = reader.vectors_of(np.array(reader.chunk_ids(), np.int64), embedder)
            telling = vectors.any(axis=1)  # a text without meaning has a row of zeros
            known = self._snapshot = _Snapshot(now, embedder, ids[telling], vectors[telling])
        ids, cosines = nearest(vector, known.ids, known.vectors, depth)
        return list(zip(ids.tolist(), cosines.tolist(), strict=True))
