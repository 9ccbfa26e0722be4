"""The two legs of a search, words and meaning, asked side by side and joined.

Whether there is anything to search yet is not asked here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

from sidecar.errors import VectorsAway
from sidecar.index import exact
from sidecar.index.asking import Asking
from sidecar.index.branches import Passage, by_meaning, by_words, passages_of
from sidecar.index.cards import mean_vector
from sidecar.index.embed.facts import facts_of
from sidecar.index.exact import ExactIndex
from sidecar.index.live import LiveIndex
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.meaning import Meaning
from sidecar.index.near import near, near_among
from sidecar.index.search import Answer, Hit, Mode, VectorLeg, answer_of, depth_for, keyword_leg, nearest_notes
from sidecar.index.wire import Float16, Float32, Int64

_SWITCHED_OFF: Final = "The vector index is switched off ([index] rag)."


class Legs:
    """Of one corpus. All methods may be called at any time from the loop.

    Raises (from every method):
        NotReady: the manifest was found damaged; it is being made again.
    """

    def __init__(self, live: LiveIndex, asking: Asking, meaning: Meaning | None, generation: Callable[[], int]) -> None:
        """`generation` tells that of the corpus now."""
        self._live = live
        self._asking = asking
        self._meaning = meaning
        self._generation = generation
        self._exact = ExactIndex()

    async def search(
        self,
        query: str,
        k: int,
        mode: Mode,
        *,
        among: Collection[str] | None,
        per_note: int,
        relevant_only: bool,
    ) -> Answer:
        """As `Corpus.search`.

        Raises:
            VectorsAway: `vector` is asked and can't be served.
        """
        chunks = None if among is None else await self._asking.answer(lambda reader: reader.chunks_of(among))
        vectors, keywords = await asyncio.gather(
            self._near(query, depth_for(k), chunks, mode),
            self._asking.run(keyword_leg, self._live, query, k, chunks),
        )
        if isinstance(vectors, VectorsAway):
            if mode == "vector":
                raise vectors
            vectors = None
        return await self._asking.answer(
            lambda reader: answer_of(
                self._live,
                reader,
                query,
                k,
                keywords=keywords,
                vectors=vectors,
                mode=mode,
                method=self._meaning.method if self._meaning else "weighted",
                per_note=per_note,
                relevant_only=relevant_only,
            )
        )

    async def _near(self, query: str, depth: int, among: Int64 | None, mode: Mode) -> VectorLeg | VectorsAway | None:
        """None where no vectors are asked for; as a value what keeps them from answering."""
        if mode == "keyword":
            return None
        if self._meaning is None:
            return VectorsAway(_SWITCHED_OFF)
        try:
            if among is None:
                return await near(self._meaning.asked, query, depth)
            return await near_among(self._meaning.asked, query, depth, among, self.cached)
        except VectorsAway as away:
            return away

    async def cached(self, chunk_ids: Int64, embedder: str) -> tuple[Int64, Float16]:
        """Those of the chunks that have a cached vector by that embedder, and the vectors[n, dim]."""
        return await self._asking.answer(lambda reader: reader.vectors_of(chunk_ids, embedder))

    async def passages(self, query: str, limit: int, by: Literal["words", "meaning"]) -> list[Passage]:
        """As `Corpus.passages`.

        Raises:
            VectorsAway: `meaning` is asked and can't be served.
        """
        if by == "words":
            return await self._asking.answer(lambda reader: by_words(self._live, reader, query, limit))
        if self._meaning is None:
            raise VectorsAway(_SWITCHED_OFF)
        asked = self._meaning.asked
        if asked.count > exact.MOST:
            hits = await by_meaning(asked, query, limit)
            return await self._asking.answer(lambda reader: passages_of(reader, hits, limit))
        vector = await asked.embed_query(query)
        embedder = asked.embedder_id or ""
        return await self._asking.answer(lambda reader: self._compared(reader, embedder, vector, limit))

    def _compared(self, reader: ManifestReader, embedder: str, vector: Float32, limit: int) -> list[Passage]:
        floor = facts_of(embedder).relevance_floor
        hits = self._exact.nearest(reader, self._generation, embedder, vector, exact.MOST)
        return passages_of(reader, [hit for hit in hits if hit[1] >= floor], limit)

    async def related(self, path: str, k: int) -> Sequence[Hit]:
        """As `Corpus.related`.

        Raises:
            VectorsAway: the vector index can't answer now.
        """
        if self._meaning is None:
            return []
        vectors = self._meaning.asked
        embedder = vectors.embedder_id or ""
        own, mean = await self._asking.answer(
            lambda reader: (reader.chunks_of([path]), mean_vector(reader, path, embedder))
        )
        if mean is None:
            return []
        left_out = set(own.tolist())
        ids, cosines = await vectors.query_vector(mean, depth_for(k) + own.size)
        others = [hit for hit in zip(ids.tolist(), cosines.tolist(), strict=True) if hit[0] not in left_out]
        return await self._asking.answer(lambda reader: nearest_notes(reader, others, k))
