"""From one embedder to the next: the old one answers until the new one's vectors are complete, then it is cleared away.

Vectors of two embedders can't be compared, so each has a store of its own.
While the new store is filled, a second worker, shared by all corpora, has
the old one open, for queries only; what was written since then is found there by its words alone.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

from sidecar.index.manifest import Manifest
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.vectors import Vectors
from sidecar.index.writer import Writer
from sidecar.tasks import Lane

logger = logging.getLogger(__name__)

_REMOVED_CHUNKS: Final = 1_000
"""So many chunks must have gone, after the look at the start, before it is looked again for vectors of no use."""

_CALM_S: Final = 3600.0
"""So long ago the last one must have gone: a folder that is moved is gone first and then comes back."""

_SOUGHT: Final = 20_000
_DELETED: Final = 500


class Succession:
    """Knows whom to ask. `run` is its one task."""

    def __init__(
        self,
        vectors: Vectors,
        before: Callable[[str], AbstractAsyncContextManager[Vectors]],
        writer: Writer,
        reader: ManifestReader,
    ) -> None:
        """`before` opens the vector index of an earlier embedder, by its id."""
        self._vectors = vectors
        self._before = before
        self._writer = writer
        self._lane = Lane("succession")
        self._reader = reader
        self._complete: str | None = None
        self._wanted: str | None = None
        self._changed = asyncio.Event()
        self._old: Vectors | None = None
        self._ended = asyncio.Event()
        self._ended.set()
        self._removed = _REMOVED_CHUNKS
        self._removed_at = -math.inf

    @property
    def asked(self) -> Vectors:
        """Who answers queries now."""
        return self._old if self._old is not None and self._old.state == "ready" and self._old.count else self._vectors

    def removed(self, chunks: int) -> None:
        """So many chunks went; the vectors of their texts may be of no use any more."""
        if chunks and self._complete:
            self._removed += chunks
            self._removed_at = asyncio.get_running_loop().time()

    async def begun(self, embedder_id: str) -> None:
        """Vectors by this embedder are wanted from now on."""
        self._complete = None
        complete = await self._writer.write(lambda manifest: manifest.use_embedder(embedder_id))
        if complete and complete != embedder_id:
            if self._wanted != complete:
                logger.info("vectors by %s are being made; %s answers until they are complete", embedder_id, complete)
            self._wanted = complete
        else:
            self._wanted = None
        self._changed.set()

    async def completed(self, embedder_id: str) -> None:
        """Every chunk has its vector: nothing else is of use now. Costs nothing when it was so before.

        Raises:
            VectorsAway: the worker ended meanwhile.
        """
        if self._complete != embedder_id:
            self._wanted = None
            self._changed.set()
            await self._ended.wait()
            for former in await self._writer.write(Manifest.former_embedders):
                await self._vectors.drop(former)
                logger.info("the vectors by %s were deleted", former)
                self._removed, self._removed_at = _REMOVED_CHUNKS, -math.inf
            await self._writer.write(lambda manifest: manifest.embedder_complete(embedder_id))
            self._complete = embedder_id
        calm_s = asyncio.get_running_loop().time() - self._removed_at
        if self._removed >= _REMOVED_CHUNKS and calm_s >= _CALM_S:
            self._removed = 0
            await self._forget(embedder_id)

    async def _forget(self, embedder_id: str) -> None:
        """Drop cached vectors by other embedders and of texts that are in no chunk."""
        forgotten, start = 0, b""
        while True:
            last_chunk, useless = await self._lane.run(self._reader.useless_vectors, embedder_id, start, _SOUGHT)
            for at in range(0, len(useless), _DELETED):
                part = useless[at : at + _DELETED]
                await self._writer.write(partial(Manifest.forget_vectors, useless=part, last_chunk=last_chunk))
            forgotten += len(useless)
            if len(useless) < _SOUGHT:
                break
            start = useless[-1][0]
        if forgotten:
            logger.info("%d cached vectors that nothing needs any more were deleted", forgotten)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._changed.clear()
            if self._wanted is None:
                await self._changed.wait()
            else:
                await self._stand_in(self._wanted)

    async def _stand_in(self, embedder_id: str) -> None:
        self._ended.clear()
        try:
            async with self._before(embedder_id) as self._old:
                while self._wanted == embedder_id:
                    await self._changed.wait()
                    self._changed.clear()
        finally:
            self._old = None
            self._ended.set()

    async def close(self) -> None:
        """Wait for the lane and let go of the reader."""
        await self._lane.run(self._reader.close)
        await self._lane.close()
