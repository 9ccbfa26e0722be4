"""One watched folder with its index: what the services talk to.

The vault is a corpus, and each registered database is one; the same engine
serves both.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from sidecar.errors import NotReady
from sidecar.index.asking import Asking
from sidecar.index.branches import Passage
from sidecar.index.corpus_status import UNCOUNTED, Status, StatusOf, counted
from sidecar.index.indexer import Indexer
from sidecar.index.legs import Legs
from sidecar.index.live import LiveIndex
from sidecar.index.look import Looker
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.meaning import Meaning
from sidecar.index.progress import Phase
from sidecar.index.search import Answer, Hit, Mode
from sidecar.index.text_search import TextAnswer, search_text
from sidecar.index.trouble import is_damage
from sidecar.tasks import Lane, keep_running
from sidecar.vault.jail import Jail, Kind, NoteFile
from sidecar.vault.paths import VaultPath
from sidecar.vault.watch import Watcher

T = TypeVar("T")

_PATIENCE_S = 20.0
"""How long a call waits for the first scan or for texts to be read in, before it says that it is too early."""

_FIRST_NOTES_S = 2.0
"""How long a search waits for the first notes to be indexed: a client that starts the daemon asks at once. Mostly
it takes less than a second."""

_OWN_WRITES_S = 2.0
"""How long a search waits for our own writes to be indexed; on a quiet machine it is some milliseconds."""


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
        self._meaning = meaning
        self._reading = Lane("read", 4)
        self._asking = Asking(manifest_path, self._is_distrusted)
        self._legs = Legs(live, self._asking, meaning, lambda: indexer.generation)
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
        await self._wait_for_own_writes()
        await self._wait_for_first_notes()
        return await self._legs.search(query, k, mode, among=among, per_note=per_note, relevant_only=relevant_only)

    async def passages(self, query: str, limit: int, by: Literal["words", "meaning"]) -> list[Passage]:
        """The `limit` best passages in one way of ranking, best first; passages of a note may be many.

        Raises:
            NotReady: no note is indexed yet.
            VectorsAway: `meaning` is asked and can't be served.
        """
        await self._wait_for_first_notes()
        return await self._legs.passages(query, limit, by)

    @property
    def meaning_is_off(self) -> bool:
        """Search by meaning is switched off, or has no model, and will not be there until somebody sees to it."""
        return self._meaning is None or self._meaning.asked.state == "off"

    async def search_text(self, query: str, limit: int) -> TextAnswer:
        """Notes that hold `query` literally, without case, in a line or in their path.

        Raises:
            NotReady: no note is indexed yet.
        """
        await self._wait_for_own_writes()
        await self._wait_for_first_notes()
        await self._soon(self._texts_ready)
        progress = None if self._indexer.phase is Phase.READY else self._indexer.progress
        return await self._asking.answer(lambda reader: search_text(self._live, reader, query, limit, progress))

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
        if not self.has_vectors:
            return []
        await self._wait_for_own_writes()
        return await self._legs.related(path, k)

    async def ask(self, question: Callable[[ManifestReader], T]) -> T:
        """The answer to a question about what is indexed, our own writes included. It is asked in a lane.

        Raises:
            NotReady: the manifest was found damaged; it is being made again.
        """
        await self._wait_for_own_writes()
        return await self._asking.answer(question)

    def refuse_while_filling(self) -> None:
        """What is not found may be indexed in a moment.

        Raises:
            NotReady: not all notes are indexed yet.
        """
        if self._indexer.is_filling:
            raise self._still_building()

    def _is_distrusted(self, failed: Exception) -> bool:
        """Whether an error means that the manifest can't be used, which is then seen to."""
        if is_damage(failed):
            self._indexer.distrust("is damaged")
        return self._indexer.is_distrusted

    async def _wait_for_first_notes(self) -> None:
        try:
            async with asyncio.timeout(_FIRST_NOTES_S):
                await self._indexer.searchable.wait()
        except TimeoutError:
            raise self._still_building() from None

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
        status = StatusOf(self._indexer, self._looker, self._live, self._watcher, self._meaning)
        try:
            return status.with_counts(await self._asking.ask(counted))
        except sqlite3.Error as failed:
            if not self._is_distrusted(failed):
                raise
            return status.with_counts(UNCOUNTED)

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
            await self._asking.close()
            await self._reading.close()

    async def _watch(self) -> None:
        await self._watcher.run(on_ready=self._indexer.scan, on_changes=self._indexer.changed)

    async def _load_texts(self) -> None:
        try:
            await self._asking.ask(self._live.load_texts)
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
