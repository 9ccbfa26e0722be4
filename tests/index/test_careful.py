"""A text that ends the embedder's process natively: found, set aside, said; everything else goes on."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from sidecar.index import careful
from sidecar.index.corpus import Corpus
from tests.index.embedders import FACTORY
from tests.index.vaults import embedded, opened, until_found
from tests.index.wordy import WORDS, first, forbid_second_vectors, made_vault

PATIENCE_S = 90.0  # the worker is started again ever later


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = made_vault(tmp_path / "vault")
    (folder / "Poison.md").write_text("this is a fatal text\n")
    return folder


async def starts(times: int, caplog: pytest.LogCaptureFixture) -> None:
    """Wait until so many workers have been at work."""
    async with asyncio.timeout(PATIENCE_S):
        while sum("the vector index is ready" in record.getMessage() for record in caplog.records) < times:
            await asyncio.sleep(0.02)


async def all_embedded(corpus: Corpus) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (counts := (await corpus.status()).counts).chunks_ready < counts.chunks:
            await asyncio.sleep(0.02)


async def test_a_text_that_ends_the_process_each_time_is_set_aside_and_the_others_get_their_vectors(
    vault: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    state = tmp_path / "state"
    async with opened(vault, state, embedder="fatal", factory=FACTORY) as corpus:
        await starts(2, caplog)
        (vault / "larchglen.md").write_text("larchglen nelghcral\n")  # a save beside it is not to blame
        await until_found(corpus, "larchglen", ["larchglen.md"])
        await all_embedded(corpus)
        await embedded(corpus)
        for word in (*WORDS, "larchglen"):
            assert await first(corpus, word) == f"{word}.md"
        assert (await corpus.search("fatal text", 3, "keyword")).hits[0].path == "Poison.md"
        problem = (await corpus.status()).problem
        assert problem == (
            "The embedder ends its process at a passage of Poison.md. What it can't take is found by its words only."
        )
    forbid_second_vectors(state)
    async with opened(vault, state, embedder="fatal", factory=FACTORY) as corpus:  # and it is not tried again
        await embedded(corpus)
        assert (await corpus.status()).problem == problem
        (vault / "Poison.md").unlink()
        await until_found(corpus, "fatal", [])
        assert (await corpus.status()).problem is None


async def test_without_setting_it_aside_the_worker_would_be_started_for_ever(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Control of the one above."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(careful, "MOST_ENDS", 1_000_000)
    async with opened(vault, tmp_path / "state", embedder="fatal", factory=FACTORY) as corpus:
        await starts(5, caplog)
        counts = (await corpus.status()).counts
        assert counts.chunks_ready < counts.chunks


async def test_an_embedder_that_ends_at_every_text_is_no_texts_fault(
    vault: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with opened(vault, tmp_path / "state", embedder="doomed", factory=FACTORY) as corpus:
        await starts(6, caplog)
        status = await corpus.status()
        assert status.problem is None
        assert status.counts.chunks_ready == 0
