"""Search by words and by meaning."""

from __future__ import annotations

from sidecar.index.corpus import Corpus
from sidecar.index.search import Answer, Mode

_MOST_PASSAGES = 2  # of one note, where rows are passages


class Searching:
    """Ranked search of one corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    async def notes(self, query: str, k: int, mode: Mode) -> Answer:
        """The `k` best notes, each by its best passage.

        Raises:
            NotReady: no note is indexed yet.
            VectorsAway: `vector` is asked and can't be served.
        """
        return await self._corpus.search(query, k, mode)

    async def passages(self, query: str, k: int) -> Answer:
        """The `k` best passages that are relevant, at most two of one note.

        Raises:
            NotReady: no note is indexed yet.
        """
        return await self._corpus.search(query, k, "hybrid", per_note=_MOST_PASSAGES, relevant_only=True)
