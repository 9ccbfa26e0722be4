"""The second stage of indexing: every chunk's vector is made once, kept in the manifest, and put into the store.

Saves go first, then the first chunk of every note in the order the notes were
indexed (newest first), then the rest. What the worker can't do now waits until
it is back; nothing is lost, because a chunk stays `pending` in the manifest
until its vector is in the store.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import NamedTuple

import numpy as np

from sidecar.errors import VectorsAway
from sidecar.index.batch import Applied
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.manifest_rows import ToEmbed
from sidecar.index.succession import Succession
from sidecar.index.vectors import Vectors
from sidecar.index.writer import Writer
from sidecar.tasks import Lane

logger = logging.getLogger(__name__)

_SAVED_TEXTS = 16
"""Texts of saves embedded together: a note or two."""

_TEXTS = 64
"""Texts of backfill embedded together, in two calls, of which one waits in the worker until the other is done."""

_LOOKED_AT = 256
"""Chunks looked at together; those whose vector is cached go into the store in one call."""


class Embedded(NamedTuple):
    """A chunk and its vector, dim float16 numbers as bytes."""

    chunk_id: int
    vector: bytes


class VectorFeed:
    """Owns the queue of chunks without a vector. `run` is its one task."""

    def __init__(self, vectors: Vectors, succession: Succession, writer: Writer, reader: ManifestReader) -> None:
        self._vectors = vectors
        self._careful = vectors.worker.careful
        self._succession = succession
        self._writer = writer
        self._reader = reader
        self._lane = Lane("vectors")
        self._saved: dict[int, None] = {}
        self._firsts: dict[int, None] = {}
        self._rest: dict[int, None] = {}
        self._gone: set[int] = set()
        self.is_compared = False
        """The store of the running worker holds what the manifest says that it holds."""
        self._up = asyncio.Event()
        self._save = asyncio.Event()
        self._fill = asyncio.Event()

    def worker_is_up(self) -> None:
        """The worker has started, for the first time or again: compare its store with the manifest."""
        self.is_compared = False
        self._up.set()

    def wake(self) -> None:
        """Keyword backfill has ended."""
        self._fill.set()

    def changed(self, applied: Applied, is_save: bool) -> None:
        """Chunks came and went; those of a save go ahead."""
        for chunk_id, piece in applied.added_chunks:
            if piece.chunk.embeddable:
                queue = self._saved if is_save else self._rest if piece.chunk.ordinal else self._firsts
                queue[chunk_id] = None
        for chunk_id in applied.removed_chunks:
            for queue in (self._saved, self._firsts, self._rest):
                queue.pop(chunk_id, None)
        self._gone.update(applied.removed_chunks)
        self._succession.removed(len(applied.removed_chunks))
        self._save.set()
        self._fill.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._up.wait()
            self._up.clear()
            try:
                await self._reconcile()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._save_loop())
                    tasks.create_task(self._fill_loop())
                    tasks.create_task(self._until_started_again())
            except* VectorsAway as away:
                logger.info("vectors wait: %s", away.exceptions[0])

    async def _until_started_again(self) -> None:
        await self._up.wait()
        raise VectorsAway("the worker was started again")

    async def close(self) -> None:
        """Wait for the lane and let go of the reader."""
        await self._lane.run(self._reader.close)
        await self._lane.close()

    async def _reconcile(self) -> None:
        """Ids decide: what the store has too much goes, what it lacks is queued; its vectors are cached mostly.

        A chunk that waits counts as missing although the store has its id: after a power loss the manifest may give
        an id out again, and the vector would be that of another text.
        """
        embedder = self._embedder()
        await self._succession.begun(embedder)
        self._gone.clear()
        stored = set((await self._vectors.ids()).tolist())
        ready = await self._lane.run(self._reader.ready_ids)
        await self._vectors.delete(np.array(sorted(stored - ready), np.int64))
        lost = sorted(ready - stored)
        await self._writer.write(lambda manifest: manifest.mark_pending(lost))
        self.is_compared = not self._up.is_set()
        # emptied before the manifest is asked: what comes in meanwhile is in the answer or stays in the queues
        self._saved, self._firsts, self._rest = {}, {}, {}
        firsts, rest = await self._lane.run(self._reader.waiting_ids)
        self._firsts = dict.fromkeys([*firsts, *self._firsts])
        self._rest = dict.fromkeys([*rest, *self._rest])

    def _embedder(self) -> str:
        if self._vectors.embedder_id is None:
            raise VectorsAway("The vector index is starting.")
        return self._vectors.embedder_id

    async def _save_loop(self) -> None:
        """What was saved and what was deleted, as soon as it happens. Until then nobody finds a deleted chunk either,
        because a search asks the manifest."""
        while True:
            if self._saved:
                await self._store(await self._take(self._saved, _SAVED_TEXTS, urgent=True), urgent=True)
            if self._gone:
                gone = np.array(sorted(self._gone), np.int64)
                await self._vectors.delete(gone, urgent=True)
                self._gone.difference_update(gone.tolist())
            if not (self._saved or self._gone):
                self._save.clear()
                await self._save.wait()

    async def _fill_loop(self) -> None:
        """Backfill. What was embedded is stored while the next texts are embedded."""
        async with asyncio.TaskGroup() as tasks:
            storing = tasks.create_task(asyncio.sleep(0))
            while True:
                queue = self._firsts or self._rest
                if queue and not self._writer.is_filling:
                    taken = await self._take(queue, _TEXTS, urgent=False)
                    await storing
                    storing = tasks.create_task(self._store(taken, urgent=False))
                else:
                    self._fill.clear()
                    if not (queue or self._writer.is_filling):
                        await storing
                        await self._succession.completed(self._embedder())
                    await self._fill.wait()

    async def _take(self, queue: dict[int, None], most: int, *, urgent: bool) -> list[Embedded]:
        """Some chunks of a queue with their vectors: those that have a cached one at once, else `most` others.

        They leave the queue. Should they not come into the store, the worker is gone, and when it is back the queues
        are made anew.
        """
        chunk_ids = list(itertools.islice(queue, _LOOKED_AT))
        embedder = self._embedder()
        rows = await self._lane.run(self._reader.to_embed, chunk_ids, embedder)
        vectors = {row.text_hash: row.vector for row in rows if row.vector is not None}
        if not vectors and rows:
            vectors = await self._careful.made(
                self._vectors.embed, {row.text_hash: row.text for row in rows[:most]}, urgent=urgent
            )
            if self._embedder() != embedder:
                raise VectorsAway("The vector index was started again with another embedder.")
            await self._writer.write(lambda manifest: manifest.keep_vectors(embedder, vectors))
            await self._tell_aside([row for row in rows if self._careful.is_aside(row.text_hash)])
        taken = [Embedded(row.chunk_id, vectors[row.text_hash]) for row in rows if row.text_hash in vectors]
        left = {row.chunk_id for row in rows}.difference(chunk.chunk_id for chunk in taken)
        for chunk_id in left.symmetric_difference(chunk_ids):
            queue.pop(chunk_id, None)
        return taken

    async def _store(self, chunks: list[Embedded], *, urgent: bool) -> None:
        """Into the store, then `ready` in the manifest; what was deleted meanwhile goes again."""
        if not chunks:
            return
        ids = np.array([chunk.chunk_id for chunk in chunks], np.int64)
        matrix = np.stack([np.frombuffer(chunk.vector, np.float16) for chunk in chunks])
        await self._vectors.upsert(ids, matrix, urgent=urgent)
        dead = await self._writer.write(lambda manifest: manifest.mark_ready(ids.tolist()))
        if dead:
            self._gone.update(dead)
            self._save.set()

    async def _tell_aside(self, rows: list[ToEmbed]) -> None:
        """Chunks whose text ended the worker again and again are found by their words only."""
        if rows:
            logger.warning("the worker ended with the same text in hand each time; it is found by its words only")
            await self._writer.write(lambda manifest: manifest.set_aside([row.chunk_id for row in rows]))
