"""Has texts embedded, and finds the one that ends the process that embeds it.

An embedder is native code: a text can crash or stall it, and whoever starts
it again with the same text has it crash again. So texts that were in hand when
it ended are embedded one at a time until each has a vector or is set aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from sidecar.errors import VectorsAway
from sidecar.index.child import Ended
from sidecar.index.wire import Float16

logger = logging.getLogger(__name__)

MOST_ENDS: Final = 3
"""Ends of the process with a text in hand, after which the text is set aside. At the first it was one of many."""

_HARMLESS: Final = "text"


class Embed(Protocol):
    """Has texts embedded, as `VectorWorker.embed` and `Vectors.embed` do."""

    async def __call__(self, texts: Sequence[str], *, urgent: bool = False) -> Float16:
        """float16[len(texts), dim].

        Raises:
            VectorsAway: it can't be done now.
        """
        ...


class Careful:
    """Remembers, until the daemon ends, what was in hand when the process ended. One for all that use the process."""

    def __init__(self) -> None:
        self._suspects: dict[bytes, int] = {}
        self._one_at_a_time = asyncio.Lock()

    async def made(self, embed: Embed, texts: Mapping[bytes, str], *, urgent: bool) -> dict[bytes, bytes]:
        """Vectors (float16 bytes) of some of the texts, by their hashes: of all of them while none is suspected.

        Zeros are the vector of a text that is set aside (see `is_aside`).

        Raises:
            VectorsAway: the vector index can't embed now.
        """
        if not self._suspects:
            return await self._embedded(embed, texts, urgent=urgent)
        async with self._one_at_a_time:  # else an innocent text beside the guilty one would look guilty, too
            suspect = next((text_hash for text_hash in texts if text_hash in self._suspects), None)
            if suspect is None:
                return await self._embedded(embed, texts, urgent=urgent)
            if not self.is_aside(suspect):
                return await self._embedded(embed, {suspect: texts[suspect]}, urgent=urgent)
            harmless = await embed([_HARMLESS])  # an embedder that takes no text at all is not the text's fault
            return {suspect: np.zeros_like(harmless[0]).tobytes()}

    def is_aside(self, text_hash: bytes) -> bool:
        """Whether the text ended the process so often that it is not tried again."""
        return self._suspects.get(text_hash, 0) >= MOST_ENDS

    async def _embedded(self, embed: Embed, texts: Mapping[bytes, str], *, urgent: bool) -> dict[bytes, bytes]:
        hashes, wanted = list(texts), list(texts.values())
        middle = (len(wanted) + 1) // 2
        # two calls at once keep both of the embedder's lanes at work
        halves = [half for half in (wanted[:middle], wanted[middle:]) if half]
        try:
            made = await asyncio.gather(*(embed(half, urgent=urgent) for half in halves))
        except VectorsAway as away:
            if isinstance(away.__cause__, Ended) and away.__cause__.failure.kind == "failed":
                self._suspect(hashes)
            raise
        for text_hash in hashes:
            self._suspects.pop(text_hash, None)
        return dict(zip(hashes, (vector.tobytes() for vector in np.concatenate(made)), strict=True))

    def _suspect(self, hashes: list[bytes]) -> None:
        for text_hash in hashes:
            self._suspects[text_hash] = self._suspects.get(text_hash, 0) + 1
