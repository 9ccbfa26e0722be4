"""A small vault of words unlike each other, and questions about what a corpus made of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from sidecar.index.corpus import Corpus
from sidecar.index.corpus_status import Status
from tests.index.vaults import PATIENCE_S

WORDS = [f"{first}{second}" for first in ("apple", "birch", "cedar") for second in ("lake", "moor", "rock", "wind")]


def made_vault(folder: Path, words: list[str] = WORDS) -> Path:
    folder.mkdir()
    for word in words:
        (folder / f"{word}.md").write_text(f"{word} {word[::-1]}\n")
    return folder


async def first(corpus: Corpus, word: str) -> str:
    """The note whose meaning is nearest to that of the word's own note."""
    return (await corpus.search(f"{word} {word[::-1]}", 3, "vector")).hits[0].path


async def said(corpus: Corpus, words: str) -> Status:
    """The status, once what it says of the vector index holds these words."""
    async with asyncio.timeout(PATIENCE_S):
        while words not in (status := await corpus.status()).vectors:
            await asyncio.sleep(0.02)
    return status


async def mode_is(corpus: Corpus, mode: str) -> None:
    """Wait until a search is answered so."""
    async with asyncio.timeout(PATIENCE_S):
        while (await corpus.search(WORDS[0], 3)).mode != mode:
            await asyncio.sleep(0.02)


def forbid_second_vectors(state: Path) -> None:
    """From now on, embedding a text again fails."""
    with closing(sqlite3.connect(state / "manifest.sqlite")) as db:
        db.execute(
            "CREATE TRIGGER no_second BEFORE INSERT ON vectors WHEN EXISTS (SELECT 1 FROM vectors WHERE"
            " text_hash = new.text_hash AND embedder = new.embedder) BEGIN SELECT RAISE(ABORT, 'embedded twice'); END"
        )
        db.commit()


def cached(state: Path) -> dict[str, int]:
    """The number of cached vectors by each embedder."""
    with closing(sqlite3.connect(state / "manifest.sqlite")) as db:
        return dict(Counter(row[0] for row in db.execute("SELECT embedder FROM vectors")))


async def cached_are(state: Path, wanted: dict[str, int]) -> None:
    """Wait until these vectors are cached and no others."""
    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(cached, state) != wanted:
            await asyncio.sleep(0.02)


def stores(state: Path) -> list[str]:
    """What lies in the folder of the stores, but for the log."""
    return sorted(path.name for path in (state / "chroma").iterdir() if path.name != "worker.log")
