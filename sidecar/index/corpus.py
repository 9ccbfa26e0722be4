"""One watched folder with its index: what the services talk to.

The vault is a corpus, and each registered database is one; the same engine
serves both.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from sidecar.errors import NotReady, VectorsAway
from sidecar.index import exact
from sidecar.index.branches import Passage, by_meaning, by_words, passages_of
from sidecar.index.cards import mean_vector
from sidecar.index.corpus_status import Status, status_of
from sidecar.index.embed.facts import facts_of
from sidecar.index.exact import ExactIndex
from sidecar.index.indexer import Indexer, Phase
from sidecar.index.live import LiveIndex
from sidecar.index.look import Looker
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.meaning import Meaning
from sidecar.index.near import near, near_among
from sidecar.index.search import Answer, Hit, Mode, VectorLeg, answer_of, depth_for, keyword_leg, nearest_notes
from sidecar.index.text_search import TextAnswer, search_text
from sidecar.index.trouble import is_damage
from sidecar.index.wire import Float16, Float32, Int64
from sidecar.tasks import Lane, keep_running
from sidecar.vault.jail import Jail, Kind, NoteFile
from sidecar.vault.paths import VaultPath
from sidecar.vault.watch import Watcher

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PATIENCE_S = 20.0
"""How long a call waits for the first scan or for texts to be read in, before it says that it is too early."""

_OWN_WRITES_S = 2.0
"""How long a search waits for our own writes to be indexed; on a quiet machine it is some milliseconds."""


_SWITCHED_OFF = "The vector index is switched off ([index] rag)."


class Corpus:
    """Open one with `open_corpus`. All methods may be called at any time from the loop."""

    def __init__(
        self,
        jail: Jail,
        looker: Looker,
        live: LiveIndex,
        indexer: Indexer,
        watcher: Watcher,
        manifest_path: Path,
        meaning: Meaning | None,
    ) -> None:
        self._jail = jail
        self._looker = looker
        self._live = live
        self._indexer = indexer
        self._watcher = watcher
        self._manifest_path = manifest_path
        self._meaning = meaning
        self._reading = Lane("read", 4)
        self._query = Lane("query", 2)
        self._local = threading.local()
        self._readers: list[ManifestReader] = []
        self._texts_ready = asyncio.Event()
        self._own_writes = 0
        self._exact = ExactIndex()

    # reading the vault

    def names(self) -> Sequence[str]:
        """Paths of all notes as known to the watcher, by code point order."""
        return self._live.names

    async def wait_for_names(self) -> None:
        """Wait for the first scan, and for our own writes.

        Raises:
            NotReady: it takes longer than a client would wait.
        """
        await self._soon(self._indexer.named)
        await self._wait_for_own_writes()

    def is_ignored(self, path: VaultPath, *, is_folder: bool = False) -> bool:
        """Whether `.kpignore` keeps the path out."""
        return self._looker.ignored.ignores(path, is_folder=is_folder)

    async def kind(self, path: VaultPath) -> Kind:
        """What stands at a path of the vault now."""
        return await self._reading.run(self._jail.kind, path)

    async def read(self, path: VaultPath, *, max_bytes: int) -> NoteFile:
        """A note's bytes as they are now, through the jail.

        Raises:
            NotFound, Unreadable, TooLarge: with a sentence for the caller.
        """
        return await self._reading.run(self._jail.read, path, max_bytes=max_bytes)

    # what we write ourselves

    @property
    def jail(self) -> Jail:
        """The way to the files, for the one service that changes them."""
        return self._jail

    def wrote(self, path: VaultPath) -> None:
        """A note was changed through the jail: searches that are asked from now on find it.

        When the watcher names it as well, it has the indexed checksum, and nothing is done.
        """
        self._own_writes = self._indexer.look_at(path.text)

    async def _wait_for_own_writes(self) -> None:
        try:
            async with asyncio.timeout(_OWN_WRITES_S):
                await self._indexer.wait_until_looked(self._own_writes)
        except TimeoutError:
            pass  # the indexer has more to do; answers tell of what is indexed

    # searching the index

    async def search(
        self,
        query: str,
        k: int,
        mode: Mode = "hybrid",
        *,
        among: Collection[str] | None = None,
        per_note: int = 1,
        relevant_only: bool = False,
    ) -> Answer:
        """Ranked rows for a query; of `hybrid`, keywords alone answer while the vector index can't.

        `among`: paths of the notes that count, where not all do.

        Raises:
            NotReady: no note is indexed yet.
            VectorsAway: `vector` is asked and can't be served.
        """
        await self._wait_for_own_writes()
        self._refuse_if_empty()
        chunks = None if among is None else await self._asked(lambda: self._reader().chunks_of(among))
        vectors, keywords = await asyncio.gather(
            self._near(query, depth_for(k), chunks, mode),
            self._query.run(keyword_leg, self._live, query, k, chunks),
        )
        if isinstance(vectors, VectorsAway):
            if mode == "vector":
                raise vectors
            vectors = None
        return await self._asked(
            lambda: answer_of(
                self._live,
                self._reader(),
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

    async def passages(self, query: str, limit: int, by: Literal["words", "meaning"]) -> list[Passage]:
        """The `limit` best passages in one way of ranking, best first; passages of a note may be many.

        Raises:
            NotReady: no note is indexed yet.
            VectorsAway: `meaning` is asked and can't be served.
        """
        self._refuse_if_empty()
        if by == "words":
            return await self._asked(lambda: by_words(self._live, self._reader(), query, limit))
        if self._meaning is None:
            raise VectorsAway(_SWITCHED_OFF)
        asked = self._meaning.asked
        if asked.count > exact.MOST:
            hits = await by_meaning(asked, query, limit)
            return await self._asked(lambda: passages_of(self._reader(), hits, limit))
        vector = await asked.embed_query(query)
        embedder = asked.embedder_id or ""
        return await self._asked(lambda: self._compared(embedder, vector, limit))

    def _compared(self, embedder: str, vector: Float32, limit: int) -> list[Passage]:
        floor = facts_of(embedder).relevance_floor
        reader, depth = self._reader(), exact.MOST
        hits = self._exact.nearest(reader, lambda: self._indexer.generation, embedder, vector, depth)
        return passages_of(reader, [hit for hit in hits if hit[1] >= floor], limit)

    @property
    def meaning_is_off(self) -> bool:
        """Search by meaning is switched off, or has no model, and will not be there until somebody sees to it."""
        return self._meaning is None or self._meaning.asked.state == "off"

    async def _near(self, query: str, depth: int, among: Int64 | None, mode: Mode) -> VectorLeg | VectorsAway | None:
        """None where no vectors are asked for; as a value what keeps them from answering."""
        if mode == "keyword":
            return None
        if self._meaning is None:
            return VectorsAway(_SWITCHED_OFF)
        try:
            if among is None:
                return await near(self._meaning.asked, query, depth)
            return await near_among(self._meaning.asked, query, depth, among, self._cached)
        except VectorsAway as away:
            return away

    async def _cached(self, chunk_ids: Int64, embedder: str) -> tuple[Int64, Float16]:
        return await self._asked(lambda: self._reader().vectors_of(chunk_ids, embedder))

    async def search_text(self, query: str, limit: int) -> TextAnswer:
        """Notes that hold `query` literally, without case, in a line or in their path.

        Raises:
            NotReady: no note is indexed yet.
        """
        await self._wait_for_own_writes()
        self._refuse_if_empty()
        await self._soon(self._texts_ready)
        progress = None if self._indexer.phase is Phase.READY else self._indexer.progress
        return await self._asked(lambda: search_text(self._live, self._reader(), query, limit, progress))

    @property
    def has_vectors(self) -> bool:
        """Whether there is search by meaning here, though perhaps not at this moment."""
        return self._meaning is not None and self._meaning.asked.state != "off"

    async def related(self, path: str, k: int) -> Sequence[Hit]:
        """The notes nearest to the one at `path`, that one left out, best first, then by id; each by its best chunk.

        The mean of its stored vectors is compared with those of all chunks. A note without vectors has no relations.

        Raises:
            VectorsAway: the vector index can't answer now, but will.
        """
        if self._meaning is None or not self.has_vectors:
            return []
        vectors = self._meaning.asked
        embedder = vectors.embedder_id or ""
        await self._wait_for_own_writes()
        own, mean = await self._asked(
            lambda: (self._reader().chunks_of([path]), mean_vector(self._reader(), path, embedder))
        )
        if mean is None:
            return []
        left_out = set(own.tolist())
        ids, cosines = await vectors.query_vector(mean, depth_for(k) + own.size)
        near = [hit for hit in zip(ids.tolist(), cosines.tolist(), strict=True) if hit[0] not in left_out]
        return await self._asked(lambda: nearest_notes(self._reader(), near, k))

    async def ask(self, question: Callable[[ManifestReader], T]) -> T:
        """The answer to a question about what is indexed, our own writes included. It is asked in a lane.

        Raises:
            NotReady: the manifest was found damaged; it is being made again.
        """
        await self._wait_for_own_writes()
        return await self._asked(lambda: question(self._reader()))

    def refuse_while_filling(self) -> None:
        """What is not found may be indexed in a moment.

        Raises:
            NotReady: not all notes are indexed yet.
        """
        if self._indexer.is_filling:
            raise self._still_building()

    async def _asked(self, call: Callable[[], T]) -> T:
        """Run a question in its lane.

        Raises:
            NotReady: the manifest was found damaged; it is being made again.
        """
        try:
            return await self._query.run(call)
        except sqlite3.Error as failed:
            if not self._is_distrusted(failed):
                raise
            raise NotReady("The index was damaged and is being made again. Try again soon.") from failed

    def _is_distrusted(self, failed: Exception) -> bool:
        """Whether an error means that the manifest can't be used, which is then seen to."""
        if is_damage(failed):
            self._indexer.distrust("is damaged")
        return self._indexer.is_distrusted

    def _refuse_if_empty(self) -> None:
        if self._indexer.phase is not Phase.READY and not self._live.keyword_chunks:
            raise self._still_building()

    def _still_building(self) -> NotReady:
        progress = self._indexer.progress
        return NotReady(
            f"The index is still being built ({progress.done:,} of {progress.total:,} notes). Try again soon."
        )

    async def _soon(self, event: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await event.wait()
        except TimeoutError:
            raise NotReady("The vault is still being read. Try again soon.") from None

    # the index itself

    @property
    def generation(self) -> int:
        """State number of the index; grows with each batch that became visible."""
        return self._indexer.generation

    async def wait_beyond(self, generation: int) -> int:
        """The generation once it is greater than the given one."""
        return await self._indexer.wait_beyond(generation)

    def rebuild(self) -> None:
        """Take every note as new and make the caches again. Answers go on meanwhile."""
        self._indexer.scan(again=True)

    async def status(self) -> Status:
        """Counts, phase and problems now."""
        try:
            return await self._query.run(lambda: self._status(self._reader()))
        except sqlite3.Error as failed:
            if not self._is_distrusted(failed):
                raise
            return await self._query.run(self._status, None)

    def _status(self, reader: ManifestReader | None) -> Status:
        return status_of(self._indexer, self._looker, self._live, self._watcher, self._meaning, reader)

    def _reader(self) -> ManifestReader:
        """This thread's own connection."""
        reader: ManifestReader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = ManifestReader(self._manifest_path)
            self._readers.append(reader)
        return reader

    # life

    async def run(self) -> None:
        """Watch and index until cancelled. The watcher is armed first, the scan follows."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep_running("the watcher", self._watch))
                tasks.create_task(keep_running("the indexer", self._indexer.run))
                tasks.create_task(keep_running("the text index", self._load_texts))
                if self._meaning is not None:
                    tasks.create_task(keep_running("the vector feed", self._feed))
                    tasks.create_task(keep_running("the embedder before", self._meaning.succession.run))
        finally:
            if self._meaning is not None:
                await self._meaning.feed.close()
                await self._meaning.succession.close()
            await self._indexer.close()
            await self._query.close()
            await self._reading.close()
            for reader in self._readers:
                reader.close()

    async def _watch(self) -> None:
        await self._watcher.run(on_ready=self._indexer.scan, on_changes=self._indexer.changed)

    async def _load_texts(self) -> None:
        try:
            await self._query.run(lambda: self._live.load_texts(self._reader()))
        except sqlite3.Error as failed:
            if not self._is_distrusted(failed):
                raise  # else all of it is loaded while the manifest is made again
        self._texts_ready.set()

    async def _feed(self) -> None:
        assert self._meaning is not None
        feed = self._meaning.feed
        while True:
            try:
                await feed.run()
            except Exception as failed:
                feed.worker_is_up()  # it waits for that when it is run again
                if not self._is_distrusted(failed):
                    raise
