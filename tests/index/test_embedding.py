"""The second stage of indexing: every chunk gets one vector, made once, and none outlives its chunk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.index.corpus import Corpus
from sidecar.index.manifest_reader import ManifestReader
from tests.index.embedders import FACTORY
from tests.index.vaults import PATIENCE_S, embedded, opened, until_found

LETTERS = "abcdefghijklmnopqrst"
WORDS = [  # as far from each other as made-up words can be
    "".join(LETTERS[digit % 20] for digit in hashlib.sha256(str(number).encode()).digest()[:12]) for number in range(40)
]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    for number, word in enumerate(WORDS):
        (folder / f"Note {number}.md").write_text(f"{word} {word[::-1]} {word[3:]}{word[:3]}\n")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def text_of(number: int) -> str:
    word = WORDS[number]
    return f"{word} {word[::-1]} {word[3:]}{word[:3]}"


async def ids_of(corpus: Corpus) -> set[int]:
    assert corpus._meaning is not None
    return set((await corpus._meaning.vectors.ids()).tolist())


def ready_ids(state: Path) -> set[int]:
    with closing(ManifestReader(state / "manifest.sqlite")) as reader:
        return reader.ready_ids()


def cached_rows(state: Path) -> list[tuple[bytes, int]]:
    """(text hash, row id) of the cached vectors: a vector that is made again replaces its row under the same key."""
    with closing(sqlite3.connect(state / "manifest.sqlite")) as db:
        return sorted(db.execute("SELECT text_hash, length(vector) FROM vectors"))


async def agrees(corpus: Corpus, state: Path) -> None:
    """Every embeddable chunk has exactly one vector in the store, and the store holds nothing else."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await embedded(corpus)
            same = await ids_of(corpus) == await asyncio.to_thread(ready_ids, state)
            counts = (await corpus.status()).counts
            if same and counts.chunks_ready == counts.chunks:  # not both empty, as a new store is at first
                return
            await asyncio.sleep(0.02)


async def meant(corpus: Corpus, query: str) -> list[str]:
    return [hit.path for hit in (await corpus.search(query, 5, "vector")).hits]


async def test_every_chunk_gets_a_vector_and_is_found_by_it(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
        assert (await meant(corpus, text_of(7)))[0] == "Note 7.md"
        status = await corpus.status()
        assert status.counts.notes_ready == len(WORDS)


async def test_a_save_is_found_by_meaning_and_its_old_text_is_not(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
        (vault / "Note 7.md").write_text("# Note 7\n\nA zeppelin over the harbour.\n")
        await until_found(corpus, "zeppelin", ["Note 7.md"])
        await agrees(corpus, state)
        assert (await meant(corpus, "A zeppelin over the harbour."))[0] == "Note 7.md"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_worker_is_told_to_send_no_telemetry_and_gets_no_secret(
    vault: Path, state: Path, monkeypatch
) -> None:
    monkeypatch.setenv("SIDECAR_TEST_TOKEN", "a-secret-that-must-not-be-passed-on")
    async with opened(vault, state, embedder="hash") as corpus:
        await embedded(corpus)
        assert corpus._meaning is not None
        environ = await asyncio.to_thread(Path(f"/proc/{corpus._meaning.vectors.pid}/environ").read_bytes)
    assert b"ORT_DISABLE_TELEMETRY=1" in environ.split(b"\0")
    assert b"a-secret-that" not in environ


async def test_deleted_text_never_comes_back(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
        (vault / "Note 7.md").unlink()
        await until_found(corpus, WORDS[7], [])
        for mode in ("hybrid", "vector", "keyword"):  # at once, whether the store has caught up or not
            answer = await corpus.search(text_of(7), 50, mode)
            assert "Note 7.md" not in [hit.path for hit in answer.hits]
        await agrees(corpus, state)


async def test_a_rename_embeds_only_what_changed_and_leaves_one_vector_a_chunk(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
        (vault / "Sub").mkdir()
        (vault / "Note 7.md").rename(vault / "Sub" / "Note 7.md")
        await until_found(corpus, WORDS[7], ["Sub/Note 7.md"])
        await agrees(corpus, state)
        assert len(await asyncio.to_thread(cached_rows, state)) == len(WORDS)
        answer = await corpus.search(text_of(7), 1, "vector")
        assert [hit.path for hit in answer.hits] == ["Sub/Note 7.md"]


async def test_a_killed_worker_is_said_and_comes_back(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
        assert corpus._meaning is not None and corpus._meaning.vectors.pid is not None
        before = await asyncio.to_thread(cached_rows, state)
        os.kill(corpus._meaning.vectors.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await corpus.search(WORDS[7], 5)).mode != "keyword":
                await asyncio.sleep(0)
        assert [hit.path for hit in answer.hits] == ["Note 7.md"]
        async with asyncio.timeout(PATIENCE_S):
            while (await corpus.search(WORDS[7], 5)).mode != "hybrid":
                await asyncio.sleep(0.01)
        await agrees(corpus, state)
        assert await asyncio.to_thread(cached_rows, state) == before


def scramble(store: Path) -> None:
    for file in store.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            file.write_bytes(bytes(byte ^ 0x5A for byte in data[:4096]) + data[4096:])


def truncate(store: Path) -> None:
    for file in store.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(store: Path) -> None:
    for file in store.rglob("*"):
        if file.is_file():
            file.write_bytes(b"")


def vanish(store: Path) -> None:
    shutil.rmtree(store)


@pytest.mark.parametrize("damage", [scramble, truncate, empty, vanish], ids=lambda damage: damage.__name__)
async def test_a_damaged_store_is_made_again_from_cached_vectors(vault: Path, state: Path, damage) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
    [store] = [folder for folder in (state / "chroma").iterdir() if folder.is_dir()]
    damage(store)
    # a vector that is made again would overwrite this mark
    with closing(sqlite3.connect(state / "manifest.sqlite")) as db:
        marked = db.execute("SELECT vector FROM vectors ORDER BY text_hash LIMIT 1").fetchone()[0]
        db.execute("CREATE TRIGGER no_second BEFORE INSERT ON vectors BEGIN SELECT RAISE(ABORT, 'embedded twice'); END")
        db.commit()
    async with opened(vault, state, embedder="hash") as corpus:
        assert (await corpus.search(WORDS[7], 5)).hits[0].path == "Note 7.md"
        await agrees(corpus, state)
        assert (await meant(corpus, text_of(7)))[0] == "Note 7.md"
    with closing(sqlite3.connect(state / "manifest.sqlite")) as db:
        assert db.execute("SELECT vector FROM vectors ORDER BY text_hash LIMIT 1").fetchone()[0] == marked


async def test_changes_made_while_closed_reach_the_store(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
    (vault / "Note 3.md").unlink()
    (vault / "New.md").write_text("A zeppelin over the harbour.")
    async with opened(vault, state, embedder="hash") as corpus:
        await agrees(corpus, state)
        assert (await meant(corpus, "A zeppelin over the harbour."))[0] == "New.md"
        assert "Note 3.md" not in await meant(corpus, text_of(3))


async def test_without_a_model_keywords_answer_and_status_says_how_to_get_one(vault: Path, state: Path) -> None:
    async with opened(vault, state, embedder="nonesuch") as corpus:
        answer = await corpus.search(WORDS[7], 5)
        assert answer.mode == "keyword" and answer.hits[0].path == "Note 7.md"


@pytest.mark.parametrize("same_bytes", [True, False], ids=["renamed", "renamed and changed"])
async def test_a_rename_embeds_only_what_lives_by_its_title(state: Path, tmp_path: Path, same_bytes: bool) -> None:
    """The title is the file's name. A note that is not the same any more has no claim to old vectors."""
    vault = tmp_path / "titled"
    vault.mkdir()
    (vault / "Untitled.md").write_text("call the plumber\n")
    long_text = "The pump ran all night. " * 12
    (vault / "Untitled 2.md").write_text(long_text)
    models = tmp_path / "models"
    models.mkdir()
    async with opened(vault, state, embedder="counted", factory=FACTORY, models=models) as corpus:
        await agrees(corpus, state)
        (models / "embedded").unlink()
        if not same_bytes:
            (vault / "Untitled 2.md").write_text(long_text + "Still.")
        (vault / "Untitled 2.md").rename(vault / "Long.md")
        (vault / "Untitled.md").rename(vault / "Heating.md")
        await until_found(corpus, "plumber", ["Heating.md"])
        await until_found(corpus, "all night", ["Long.md"])
        await agrees(corpus, state)
        assert (await meant(corpus, "Heating")) == ["Heating.md", "Long.md"]
    embedded_now = (models / "embedded").read_text().split("\0")
    assert "Heating\ncall the plumber" in embedded_now
    assert any(text.startswith("Long\n") for text in embedded_now) != same_bytes
