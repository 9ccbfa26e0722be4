"""Databases: folders of documents that were registered for search. Nothing here ever writes into them.

What is registered stands in the registry; each database has a corpus like the
vault's, opened in the background, with an index of its own in the state
folder. One that can't be opened stays registered and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sidecar.bridge import private_files
from sidecar.errors import BadArguments, SidecarError, VectorsAway
from sidecar.index.branches import Passage
from sidecar.index.corpus import Corpus
from sidecar.services.database import Database
from sidecar.services.database_registry import Entry, Registry, facts_of, index_of, remove_index, sweep
from sidecar.services.database_rules import Ground, still_folder_of
from sidecar.tasks import Lane
from sidecar.vault.paths import echo

logger = logging.getLogger(__name__)

Branch = Literal["keyword", "semantic"]

OpenFolder = Callable[[Path, Path, str], AbstractAsyncContextManager[Corpus]]
"""Opens the corpus of a folder, its index kept in another; the last says whose it is, for the log."""

_NO_MEANING: Final = (
    'Semantic search is not available: embeddings are off or their model is missing. Use mode "keyword".'
)


@dataclass(frozen=True, slots=True)
class Listing:
    """`loaded`: names that can be searched now, sorted. `registered`: (name, when), in the order of registration."""

    loaded: Sequence[str]
    registered: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Source:
    """A file by its absolute path with `/`, and its passages: (number from 1, whole text), best first."""

    path: str
    matches: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """What each branch found: sources in the order of their best passage. None: the branch did not run."""

    keyword: Sequence[Source] | None
    semantic: Sequence[Source] | None


class Databases:
    """Use it through `open_databases`. `add`, `remove` and `status` answer with facts that are JSON as they are."""

    def __init__(self, ground: Ground, lane: Lane, open_folder: OpenFolder, *, serve: bool) -> None:
        self._ground = ground
        self._lane = lane
        self._open_folder = open_folder
        self._serve = serve
        self._registry = Registry(ground.state_dir)
        self._all: dict[str, Database] = {}
        self._changing = asyncio.Lock()
        self._problem: str | None = None

    # what clients ask

    def listed(self) -> Listing:
        """What is registered, and what of it can be searched."""
        known = list(self._all.values())
        return Listing(
            sorted(database.entry.db for database in known if database.corpus is not None),
            [(database.entry.db, database.entry.createAt) for database in known],
        )

    async def search(self, db: str, query: str, branch: Branch | None, limit: int) -> Found:
        """The `limit` best passages of each branch that is asked for; without `branch` of both, as far as they can run.

        Raises:
            BadArguments: there is no such database, it is not loaded, or the branch can't run.
            NotReady: nothing of it is indexed yet.
        """
        database = self._all.get(db)
        if database is None:
            raise BadArguments(f"'{echo(db)}' does not exist; list_rag names the databases.")
        with database.used() as corpus:
            by_words = corpus.passages(query, limit, "words") if branch != "semantic" else _not_run()
            by_meaning = _by_meaning(corpus, query, limit, branch) if branch != "keyword" else _not_run()
            keyword, semantic = await asyncio.gather(by_words, by_meaning)
        folder = Path(database.entry.folder).as_posix().rstrip("/")
        return Found(*(None if found is None else _by_source(folder, found) for found in (keyword, semantic)))

    # what the owner asks

    async def add(self, name: str, folder: str) -> dict[str, Any]:
        """Register a folder; it is opened in the background.

        Raises:
            BadArguments: the name or the folder is refused.
            Unreadable: the registry can't be read or written.
        """
        async with self._changing:
            entry = await self._lane.run(self._registry.add, name, folder, self._ground)
            self._begin(entry)
        logger.info("database '%s' was added", entry.db)
        return facts_of(entry)

    async def remove(self, name: str) -> dict[str, Any]:
        """Forget a database at once and delete its index. Its folder is not touched.

        Raises:
            NotFound: none is called so.
            Unreadable: the registry can't be read or written.
        """
        async with self._changing:
            entry = await self._lane.run(self._registry.remove, name)
            database = self._all.pop(entry.db, None)
            if database is not None:
                await database.close()
            await self._lane.run(remove_index, self._ground.state_dir, entry)
        logger.info("database '%s' was removed", entry.db)
        return facts_of(entry)

    async def status(self) -> dict[str, Any]:
        """Every database with its state, counts and problems."""
        return {
            "databases": [await _state_of(database) for database in list(self._all.values())],
            "databases_problem": self._problem,
        }

    # life

    async def begin(self) -> None:
        """Read the registry and open everything in the background."""
        try:
            entries = await self._lane.run(self._registry.entries)
        except SidecarError as error:
            self._problem = str(error)
            logger.warning("no database is served: %s", error)
            return
        await self._lane.run(sweep, self._ground.state_dir, entries)
        for entry in entries:
            self._begin(entry)

    def _begin(self, entry: Entry) -> None:
        self._all[entry.db] = Database(entry, self._opened if self._serve else None)

    @asynccontextmanager
    async def _opened(self, entry: Entry) -> AsyncGenerator[Corpus]:
        looking = Lane("database")  # of its own: a disk that does not answer must hold up no other database
        try:
            folder = await looking.run(still_folder_of, Path(entry.folder), self._ground)
        finally:
            await looking.close()
        place = index_of(self._ground.state_dir, entry)
        await self._lane.run(private_files.make_folder, place)
        async with self._open_folder(folder, place, f" of database '{entry.db}'") as corpus:
            yield corpus

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(database.close() for database in self._all.values()))


@asynccontextmanager
async def open_databases(ground: Ground, open_folder: OpenFolder, *, serve: bool = True) -> AsyncGenerator[Databases]:
    """The registered databases; they are opened in the background, if they are to be served."""
    async with AsyncExitStack() as stack:
        lane = Lane("databases")
        stack.push_async_callback(lane.close)
        databases = Databases(ground, lane, open_folder, serve=serve)
        stack.push_async_callback(databases.close)
        await databases.begin()
        yield databases


async def _not_run() -> None:
    return None


async def _by_meaning(corpus: Corpus, query: str, limit: int, branch: Branch | None) -> list[Passage] | None:
    try:
        return await corpus.passages(query, limit, "meaning")
    except VectorsAway as away:
        if branch is None:
            return None
        if corpus.meaning_is_off:
            raise BadArguments(_NO_MEANING) from away
        raise BadArguments(f'Semantic search is not available now. {away} Use mode "keyword", or try again.') from away


def _by_source(folder: str, passages: Sequence[Passage]) -> list[Source]:
    grouped: dict[str, list[tuple[int, str]]] = {}
    for passage in passages:
        grouped.setdefault(passage.path, []).append((passage.ordinal + 1, passage.text))
    return [Source(f"{folder}/{path}", matches) for path, matches in grouped.items()]


async def _state_of(database: Database) -> dict[str, Any]:
    facts = facts_of(database.entry)
    if database.corpus is None:
        return {**facts, "loaded": False, "problem": f"it is not loaded: {database.why}"}
    with database.used() as corpus:
        state = await corpus.status()
    return {
        **facts,
        "loaded": True,
        "phase": str(state.phase),
        "settled": state.settled,
        "generation": state.generation,
        "files": {"total": state.names, "keyword": state.counts.notes, "skipped": state.counts.skipped},
        "chunks": {"total": state.counts.chunks, "vector": state.counts.chunks_ready},
        "vectors": state.vectors,
        "skipped": [{"path": path, "reason": reason} for path, reason in state.skipped],
        "problem": state.problem,
    }
