"""A real corpus over a real folder, and ways to wait for it without sleeping."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sidecar.index.corpus import Corpus
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.vector_options import VectorOptions
from sidecar.index.workers import Workers
from tests.index.rigs import PATIENCE_S, PATIENT


@asynccontextmanager
async def opened(
    vault: Path,
    state: Path,
    *,
    embedder: str | None = None,
    environ: Mapping[str, str] | None = None,
    models: Path | None = None,
    **options: Any,
) -> AsyncIterator[Corpus]:
    """The corpus of `vault`, after its first scan was worked off. Without `embedder` it finds by keywords only.

    `options` are further ones of `VectorOptions`, `environ` is added to the environment.
    """
    state.mkdir(exist_ok=True)
    models = models or state / "models"
    models.mkdir(exist_ok=True)
    environment = {**os.environ, **(environ or {})}
    wanted = CorpusOptions(max_note_bytes=32 << 20)
    async with AsyncExitStack() as stack:
        workers = None
        if embedder:
            vectors = VectorOptions(embedder, models, environment, patience=PATIENT, **options)
            workers = await stack.enter_async_context(Workers(state / "chroma", vectors))
        corpus = await stack.enter_async_context(open_corpus(vault, state, wanted, lambda progress: None, workers))
        await settled(corpus)
        yield corpus


async def embedded(corpus: Corpus) -> None:
    """Wait until every chunk has its vector in the store."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = await corpus.status()
            if status.vectors == "ready" and status.settled and status.counts.chunks_ready == status.counts.chunks:
                return
            await asyncio.sleep(0.02)


async def settled(corpus: Corpus) -> None:
    """Wait until nothing is queued and nothing runs."""
    async with asyncio.timeout(PATIENCE_S):
        while not (await corpus.status()).settled:
            await asyncio.sleep(0.005)


async def until(corpus: Corpus, holds: Callable[[], bool]) -> None:
    """Wait for the first generation at which `holds` is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            generation = corpus.generation
            if holds():
                return
            await corpus.wait_beyond(generation)


async def found(corpus: Corpus, query: str) -> list[str]:
    """Paths the plain-text search finds."""
    return [hit.path for hit in (await corpus.search_text(query, 100)).hits]


async def ranked(corpus: Corpus, query: str) -> list[str]:
    """Paths the keyword search ranks."""
    return [hit.path for hit in (await corpus.search(query, 100)).hits]


async def until_found(corpus: Corpus, query: str, paths: list[str]) -> None:
    """Wait until the three views agree: names, plain-text search and ranked search all say exactly `paths`."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            generation = corpus.generation
            if await found(corpus, query) == sorted(paths):
                return
            await corpus.wait_beyond(generation)
