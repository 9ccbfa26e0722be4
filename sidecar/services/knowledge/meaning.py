"""The vectors of the registry: one for each item, made by the daemon's vector worker, kept beside the item.

An item is stored first and gets its vector after; what has none, because the
worker was away or the program was killed between the two, gets it here. The
vectors in the store are the truth. They are compared in memory, one by one:
every search is limited to what its caller may see, so a graph over all of them
would be asked for a few of many, and a registry has thousands of items at most
(`store.MOST_ITEMS`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import numpy as np

from sidecar.errors import NotWritten, VectorsAway
from sidecar.index.careful import Careful
from sidecar.index.embed.facts import EmbedderFacts, facts_of
from sidecar.index.items import Items
from sidecar.index.wire import Float16, Float32
from sidecar.services.knowledge.store import Store
from sidecar.tasks import Lane

logger = logging.getLogger(__name__)

EMBEDDED_CHARS: Final = 3_000
"""Of an item's words that its vector is of: more than the models take in."""

_SAYS_SOMETHING: Final = 12
"""Characters of a line; names of tools and the like are shorter, and pull all vectors in one direction."""

_AT_ONCE: Final = 16
_NEW_AT_ONCE: Final = 4
"""Contributions that are embedded at the same time: enough for all lanes of an embedder, and a saved note waits for
no more than these."""
_SOON_S: Final = 0.1
_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 30.0
_START_S: Final = 10.0
"""A contribution waits so long for a worker that is starting: whether it is new can be told only by its vector."""
_LATE_S: Final = 10.0


class Embedding(Protocol):
    """What makes vectors: `VectorWorker`, and its twin in tests."""

    careful: Careful
    embedder_id: str | None

    @property
    def state(self) -> str:
        """`starting`, `ready`, `away` for now, or `off`."""
        ...

    def release(self) -> None:
        """Start it."""
        ...

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Float16:
        """float16[n, dim]; raises VectorsAway."""
        ...

    async def embed_query(self, text: str) -> Float32:
        """float32[dim]; raises VectorsAway."""
        ...


class Meaning:
    """Makes, keeps and asks vectors. `run` is its one task. What touches `items` and `store` runs in their lane."""

    def __init__(self, worker: Embedding, store: Store, items: Items, lane: Lane) -> None:
        self._worker = worker
        self._store = store
        self._items = items
        self._lane = lane
        self._new = asyncio.Semaphore(_NEW_AT_ONCE)
        self._wanted = asyncio.Event()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        """The worker's first start has come to an end, and what was stored is loaded."""
        self._loaded: str | None = None
        """Id of the embedder whose vectors are in `items`."""

    @property
    def facts(self) -> EmbedderFacts:
        """Of the embedder whose vectors are compared."""
        return facts_of(self._loaded)

    def want(self) -> None:
        """There is something to embed, or to compare with: the worker is needed from now on."""
        self._worker.release()
        self._wanted.set()

    async def of_new(self, words: str) -> Float16 | None:
        """The vector of an item that comes, float16[dim]; None if it can't be made now."""
        self.want()
        try:
            async with asyncio.timeout(_START_S):
                await self._settled.wait()
            embedder = self._loaded
            if embedder is None or embedder != self._worker.embedder_id:
                return None  # it could not be compared
            async with self._new, asyncio.timeout(_LATE_S):
                [(_, vector)] = await self._made([(0, words)], urgent=True)
            return vector if embedder == self._worker.embedder_id else None
        except (VectorsAway, TimeoutError):
            return None

    async def of_query(self, text: str) -> Float32 | None:
        """The vector of a query; None if words alone have to do."""
        if not self._wanted.is_set():
            return None  # nothing is stored
        if self._loaded is None or self._loaded != self._worker.embedder_id:
            self._wake.set()
            return None
        try:
            return await self._worker.embed_query(text)
        except VectorsAway:
            return None

    def keep(self, key: int, vector: Float16 | None) -> bool:
        """The vector of an item that was just stored; False where there is none to keep. In the lane.

        Raises:
            NotWritten: the disk refused.
        """
        if vector is None:
            return False
        self._put([key], vector[np.newaxis])
        return True

    def look_again(self) -> None:
        """There is an item whose vector was not kept: it is made in the background."""
        self._wake.set()

    async def run(self) -> None:
        """Give every item its vector, and all of them new ones when the embedder is another."""
        await self._wanted.wait()
        delay_s = _FIRST_DELAY_S
        while True:
            self._wake.clear()
            embedder = self._worker.embedder_id
            if embedder is None or self._worker.state == "off":
                if self._worker.state != "starting":
                    self._settled.set()
                await self._woken_within(None if self._worker.state == "off" else _SOON_S)
                continue
            if embedder != self._loaded:
                await self._lane.run(self._load, embedder)
            self._settled.set()
            missing = await self._lane.run(self._store.without_vector, embedder, _AT_ONCE)
            if not missing:
                await self._woken_within(None)
                continue
            try:
                made = await self._made(missing, urgent=False)
                if made and embedder == self._worker.embedder_id:
                    await self._lane.run(self._put, [key for key, _ in made], np.stack([vector for _, vector in made]))
            except (VectorsAway, NotWritten):
                await self._woken_within(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S)
                continue
            delay_s = _FIRST_DELAY_S

    async def _made(self, texts: Sequence[tuple[int, str]], *, urgent: bool) -> list[tuple[int, Float16]]:
        """Vectors of some of the texts; of all of them where none is suspected of ending the worker."""
        cut = {key: told(words) for key, words in texts}
        hashes = {key: hashlib.sha256(words.encode()).digest() for key, words in cut.items()}
        wanted = {hashes[key]: words for key, words in cut.items()}
        made = await self._worker.careful.made(self._worker.embed, wanted, urgent=urgent)
        if not made:
            raise VectorsAway("The text waits for its turn.")
        return [(key, np.frombuffer(made[h], np.float16)) for key, h in hashes.items() if h in made]

    def _put(self, keys: list[int], vectors: Float16) -> None:
        if self._loaded is None or vectors.shape[1] == 0:
            return
        kept = self._store.keep_vectors(self._loaded, keys, vectors)
        places = [place for place, key in enumerate(keys) if key in kept]
        if places:
            self._items.put_vectors([keys[place] for place in places], vectors[places])

    def _load(self, embedder: str) -> None:
        self._items.forget_vectors()
        keys, vectors = self._store.vectors(embedder)
        if keys:
            self._items.put_vectors(keys, vectors)
        self._loaded = embedder

    async def _woken_within(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()


def told(words: str) -> str:
    """What of an item's words a vector is made of: the first line, and of the others those that say something."""
    about, *rest = words.split("\n")
    return "\n".join((about, *(line for line in rest if len(line) >= _SAYS_SOMETHING)))[:EMBEDDED_CHARS]
