"""Puts one corpus together, and takes it apart again in reverse."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sidecar.index.backfill import Backfill
from sidecar.index.batch import Applied
from sidecar.index.corpus import Corpus
from sidecar.index.documents.prepare import DocumentPreparers
from sidecar.index.documents.readers import DocumentReaders
from sidecar.index.embedding import VectorFeed
from sidecar.index.holdings import Holdings
from sidecar.index.indexer import Indexer
from sidecar.index.keyword_store import SNAPSHOT_NAME, KeywordStore
from sidecar.index.live import LiveIndex
from sidecar.index.look import Looker
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_file import FILE_NAME
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.meaning import Meaning
from sidecar.index.preparers import Preparers
from sidecar.index.profile import DOCUMENTS, NOTES
from sidecar.index.progress import Phase, Progress
from sidecar.index.server_names import collection_of
from sidecar.index.succession import Succession
from sidecar.index.tokens import Tokenizer
from sidecar.index.vector_worker import VectorWorker
from sidecar.index.vectors import Vectors
from sidecar.index.wire import Array, Int64
from sidecar.index.workers import Workers
from sidecar.tasks import Lane
from sidecar.vault.jail import Jail
from sidecar.vault.watch import Watcher

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """What one corpus needs to know."""

    max_note_bytes: int
    other_devices: bool = False
    whose: str = ""
    """For the log, such as " of database 'x'"; nothing for the vault's."""


@asynccontextmanager
async def open_corpus(
    root: Path,
    state_dir: Path,
    options: CorpusOptions,
    on_progress: Callable[[Progress], None],
    workers: Workers | None = None,
    *,
    documents: DocumentReaders | None = None,
) -> AsyncGenerator[Corpus]:
    """The corpus of the folder `root`, its index kept in `state_dir`. Without `workers` it finds by keywords only.

    Of a folder read by `documents`, which other corpora may use as well, every document is indexed; else its notes.

    Raises:
        Unreadable: the folder can't be opened.
    """
    files = Lane("open")
    profile = NOTES if documents is None else DOCUMENTS
    async with AsyncExitStack() as stack:
        stack.push_async_callback(files.close)
        jail = await files.run(
            lambda: Jail(root, other_devices=options.other_devices, takes=profile.takes, called=profile.called)
        )
        stack.callback(jail.close)
        path = state_dir / FILE_NAME
        expected = await files.run((state_dir / SNAPSHOT_NAME).exists)
        manifest = await files.run(lambda: Manifest(path, expected=expected))
        stack.push_async_callback(files.run, manifest.close)
        tokenizer = Tokenizer()
        looker = Looker(jail, max_note_bytes=options.max_note_bytes, profile=profile, whose=options.whose)
        live = LiveIndex(KeywordStore(state_dir), tokenizer)
        preparers = (
            Preparers(tokenizer) if documents is None else DocumentPreparers(documents, tokenizer, options.whose)
        )
        backfill = Backfill(looker, preparers, await files.run(ManifestReader, path))
        meaning: Meaning | None = None

        def on_chunks(applied: Applied, is_save: bool) -> None:
            if meaning is not None:
                meaning.feed.changed(applied, is_save)

        def on_restored() -> None:
            if meaning is not None:
                meaning.feed.worker_is_up()  # as after its start, the store is compared with the manifest

        def progressed(progress: Progress) -> None:
            if meaning is not None and progress.phase is Phase.READY:
                meaning.vectors.release()
                meaning.feed.wake()
            on_progress(progress)

        reader = await files.run(ManifestReader, path)
        # Starting the worker takes the processor for two seconds. Where nothing has a vector yet, words come first.
        is_new = await files.run(_is_empty, reader)
        holdings = Holdings(manifest, path, live, looker)
        indexer = Indexer(looker, holdings, preparers, backfill, reader, progressed, on_chunks, on_restored)
        if workers is not None:
            meaning = await _meaning(stack, files, path, options.whose, workers, indexer, held=is_new)
        corpus = Corpus(jail, looker, live, indexer, Watcher(jail.root, takes=profile.takes), path, meaning)
        running = asyncio.create_task(corpus.run(), name="corpus")
        running.add_done_callback(_tell_of_failure)
        try:
            yield corpus
        finally:
            running.cancel()
            await asyncio.wait((running,))


def _tell_of_failure(running: asyncio.Task[None]) -> None:
    """At once, because nobody awaits the task before the end."""
    if not running.cancelled() and (failed := running.exception()):
        logger.error("the index stopped", exc_info=failed)


def _is_empty(reader: ManifestReader) -> bool:
    try:
        return not reader.chunk_ids()
    except sqlite3.Error:  # it will be, once the indexer has found out
        return True


async def _meaning(
    stack: AsyncExitStack, files: Lane, manifest: Path, whose: str, workers: Workers, indexer: Indexer, *, held: bool
) -> Meaning:
    options = workers.options
    known, fed, sought = [await files.run(ManifestReader, manifest) for _ in range(3)]
    stack.push_async_callback(files.run, known.close)
    collection = await files.run(collection_of, manifest.parent) if options.server else ""
    asking = Lane("known vectors")
    stack.push_async_callback(asking.close)

    def cached(embedder: str, ids: Int64) -> tuple[Int64, Array]:
        try:
            rows = [row for row in known.to_embed(ids.tolist(), embedder) if row.vector is not None]
        except sqlite3.Error as failed:
            # then nothing is known of the store, and it is filled anew like the manifest
            logger.debug("the manifest can't be read", exc_info=failed)
            rows = []
        vectors = [np.frombuffer(row.vector or b"", np.float16) for row in rows]
        return np.array([row.chunk_id for row in rows], np.int64), np.stack(vectors) if rows else np.empty(
            (0, 0), np.float16
        )

    async def known_vectors(embedder: str, ids: Int64) -> tuple[Int64, Array]:
        return await asking.run(cached, embedder, ids)

    def vectors_by(worker: VectorWorker, on_ready: Callable[[], None], *, held: bool = False) -> Vectors:
        return Vectors(
            worker,
            manifest.parent / "chroma",
            known_vectors=known_vectors,
            on_ready=on_ready,
            server=options.server,
            collection=collection,
            held=held,
            whose=whose,
        )

    @asynccontextmanager
    async def before(embedder_id: str) -> AsyncGenerator[Vectors]:
        async with workers.earlier(embedder_id) as worker, vectors_by(worker, lambda: None) as old:
            yield old

    vectors = vectors_by(workers.current, lambda: feed.worker_is_up(), held=held)
    succession = Succession(vectors, before, indexer, sought)
    feed = VectorFeed(vectors, succession, indexer, fed)
    await stack.enter_async_context(vectors)
    return Meaning(vectors, feed, succession, options.method, options.backend)
