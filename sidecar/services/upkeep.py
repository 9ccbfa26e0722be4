"""What the vault's owner asks from a terminal: the state of the index, ranked search, a rebuild."""

from __future__ import annotations

import asyncio
from typing import Any

from sidecar.index.corpus import Corpus
from sidecar.index.search import Mode


class Upkeep:
    """Answers are facts that are JSON as they are."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    async def status(self) -> dict[str, Any]:
        """Phase, counts, skipped files and problems of the index."""
        state = await self._corpus.status()
        counts = state.counts
        return {
            "phase": str(state.phase),
            "generation": state.generation,
            "settled": state.settled,
            "progress": {"done": state.done, "total": state.total},
            "notes": {
                "total": state.names,
                "keyword": counts.notes,
                "vector": counts.notes_ready,
                "skipped": counts.skipped,
            },
            "chunks": {"total": counts.chunks, "vector": counts.chunks_ready},
            "skipped": [{"path": path, "reason": reason} for path, reason in state.skipped],
            "watching": state.watching,
            "embedder": state.embedder,
            "backend": state.backend,
            "vectors": state.vectors,
            "last_problem": state.problem,
        }

    async def wait(self, after: int, within_s: float) -> dict[str, Any]:
        """Wait for a newer generation, but no longer than `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                await self._corpus.wait_beyond(after)
        except TimeoutError:
            pass
        return {"generation": self._corpus.generation}

    async def search(self, query: str, k: int, mode: Mode) -> dict[str, Any]:
        """Ranked notes.

        Raises:
            VectorsAway: the mode needs vectors, and there are none now.
            NotReady: no note is indexed yet.
        """
        answer = await self._corpus.search(query, k, mode)
        results = [
            {
                "id": hit.note_id,
                "title": hit.title,
                "path": hit.path,
                "line": hit.line,
                "snippet": hit.snippet,
                "score": hit.score,
            }
            for hit in answer.hits
        ]
        return {"mode": answer.mode, "generation": self._corpus.generation, "results": results}

    async def rebuild(self) -> dict[str, Any]:
        """Have every note taken as new."""
        self._corpus.rebuild()
        return {"rebuilding": True, "generation": self._corpus.generation}
