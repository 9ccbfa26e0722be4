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
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sidecar.errors import NotReady, VectorsAway
from sidecar.index.embedding import VectorFeed
from sidecar.index.fuse import Method
from sidecar.index.indexer import Indexer, Phase, Progress
from sidecar.index.literal import excerpts
from sidecar.index.live import LiveIndex
from sidecar.index.look import Looker
from sidecar.index.manifest_reader import Counts, ManifestReader
from sidecar.index.near import near, near_among
from sidecar.index.search import Answer, Mode, VectorLeg, answer_of, depth_for, keyword_leg
from sidecar.index.succession import Succession
from sidecar.index.trouble import is_damage
from sidecar.index.vectors import Vectors
from sidecar.index.wire import Backend, Float16, Int64
from sidecar.tasks import Lane, keep_running
from sidecar.vault.jail import Jail, Kind, NoteFile
from sidecar.vault.paths import VaultPath, printable
from sidecar.vault.watch import Watcher

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PATIENCE_S = 20.0
"""How long a call waits for the first scan or for texts to be read in, before it says that it is too early."""

_OWN_WRITES_S = 2.0
"""How long a search waits for our own writes to be indexed; on a quiet machine it is some milliseconds."""


@dataclass(frozen=True, slots=True)
class TextHit:
    """A note that holds a text: the first matching lines as (number from 1, excerpt)."""

    path: str
    lines: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Result of a plain-text search."""

    total: int
    hits: Sequence[TextHit]
    left_out: int
    """Notes that are too large or unreadable and so were not searched."""
    progress: Progress | None
    """Set while the index is being built, when not all notes were searched."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The vector half of a corpus: its worker, what feeds it, and how the legs are joined."""

    vectors: Vectors
    feed: VectorFeed
    succession: Succession
    method: Method
    backend: Backend

    @property
    def asked(self) -> Vectors:
        """Who answers queries now."""
        return self.succession.asked


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a corpus for people and programs."""

    phase: Phase
    generation: int
    settled: bool
    done: int
    total: int
    names: int
    counts: Counts
    skipped: Sequence[tuple[str, str]]
    watching: str
    vectors: str
    """State of the vector index, with the reason if it is not ready."""
    embedder: str | None
    backend: Backend | None
    """None while search by meaning is switched off."""
    problem: str | None


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

    async def _near(self, query: str, depth: int, among: Int64 | None, mode: Mode) -> VectorLeg | VectorsAway | None:
        """None where no vectors are asked for; as a value what keeps them from answering."""
        if mode == "keyword":
            return None
        if self._meaning is None:
            return VectorsAway("The vector index is switched off ([index] rag).")
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
        return await self._asked(lambda: self._search_text(query, limit, progress))

    def _search_text(self, query: str, limit: int, progress: Progress | None) -> TextAnswer:
        reader = self._reader()
        found = self._live.search_texts(query)
        hits: list[TextHit] = []
        for match in found[:limit]:
            text = reader.text(match.note_key) if match.lines else None
            hits.append(TextHit(match.path, list(excerpts(text, query)) if text else []))
        return TextAnswer(len(found), hits, reader.left_out(), progress)

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
        progress = self._indexer.progress
        if progress.phase is not Phase.READY and not self._live.keyword_chunks:
            raise NotReady(
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
        """Without a reader: while the manifest can't be read, nothing is counted."""
        indexer = self._indexer
        watching = (
            self._watcher.mode if self._watcher.reason is None else f"{self._watcher.mode}: {self._watcher.reason}"
        )
        progress = indexer.progress
        return Status(
            phase=progress.phase,
            generation=indexer.generation,
            settled=indexer.settled,
            done=progress.done,
            total=progress.total,
            names=len(self._live.names),
            counts=reader.counts() if reader else Counts(0, 0, 0, 0, 0),
            skipped=reader.skipped() if reader else (),
            watching=watching,
            vectors=self._vectors_in_words(),
            embedder=self._meaning.vectors.embedder_id if self._meaning else None,
            backend=self._meaning.backend if self._meaning else None,
            problem=indexer.problem or _aside_in_words(reader.aside() if reader else ()),
        )

    def _vectors_in_words(self) -> str:
        if self._meaning is None:
            return "off"
        vectors, asked = self._meaning.vectors, self._meaning.asked
        if vectors.state == "ready" and not self._meaning.feed.is_compared:
            return "starting: what the vector index holds is compared with the notes"
        if vectors.state == "ready" and asked is not vectors:
            return f"ready: {asked.embedder_id} answers until all vectors by {vectors.embedder_id} are made"
        return f"{vectors.state}: {vectors.reason}" if vectors.reason else vectors.state

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


def _aside_in_words(paths: Sequence[str]) -> str | None:
    if not paths:
        return None
    passages = "a passage" if len(paths) == 1 else f"{len(paths)} passages, one of them"
    return (
        f"The embedder ends its process at {passages} of {printable(paths[0])}."
        " What it can't take is found by its words only."
    )
