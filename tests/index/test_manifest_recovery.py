"""A manifest that is lost, damaged or not ours: one line, the file is kept aside, and the index ends as a fresh one.

Vectors are not made again as long as they are whole in what was set aside.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import NotReady, VectorsAway
from sidecar.index import aside
from sidecar.index.corpus import Corpus
from sidecar.index.manifest_file import SCHEMA_VERSION
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.salvage import Row, vectors_in
from tests.conftest import unpack
from tests.index.embedders import FACTORY
from tests.index.vaults import PATIENCE_S, embedded, opened, settled

PAGE = 4096
NOTES = 80
QUERIES = ("Gesetz", "日本", "notes about plugins", "Projekt", "заметка", "the")
NAME = "manifest.sqlite"


@dataclass(frozen=True)
class Seed:
    """A real vault, its settled state folder, and what a fresh index of it answers."""

    vault: Path
    state: Path
    models: Path
    words: Any
    contents: Any

    def embedded(self) -> list[str]:
        """Texts that were embedded since the last look."""
        file = self.models / "embedded"
        texts = file.read_text().split("\0")[:-1] if file.exists() else []
        file.unlink(missing_ok=True)
        return texts


async def words(corpus: Corpus) -> Any:
    """What is found by words, in both kinds of search."""
    ranked = [[(hit.path, hit.line, round(hit.score, 9)) for hit in (await corpus.search(q, 50)).hits] for q in QUERIES]
    literal = [[hit.path for hit in (await corpus.search_text(query, 100)).hits] for query in QUERIES]
    return ranked, literal, list(corpus.names())


async def has_its_vectors(corpus: Corpus, state: Path) -> None:
    """Wait until the store holds the vectors of all chunks and of no others; then it finds."""
    assert corpus._meaning is not None
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await settled(corpus)
                await embedded(corpus)
                if set((await corpus._meaning.vectors.ids()).tolist()) == await asyncio.to_thread(ready_ids, state):
                    break
            except (NotReady, VectorsAway):
                await asyncio.sleep(0.02)
    assert (await corpus.search(QUERIES[0], 10, "vector")).hits


def ready_ids(state: Path) -> set[int]:
    with closing(ManifestReader(state / NAME)) as reader:
        return reader.ready_ids()


def contents(state: Path) -> Any:
    with closing(ManifestReader(state / NAME)) as reader:
        return reader.contents()


async def is_as_fresh(seed: Seed, state: Path) -> None:
    """What is in the index and what is found by words are those of a fresh one."""
    async with opened(seed.vault, state) as corpus:
        assert await words(corpus) == seed.words
    assert await asyncio.to_thread(contents, state) == seed.contents


@pytest.fixture(scope="module")
def seed(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Seed:
    """Some notes of many languages."""
    base = tmp_path_factory.mktemp("seed")
    everything = unpack(corpora / "vaults" / "i18n.tar.gz", base / "all")
    notes = sorted(path for path in everything.rglob("*.md") if path.is_file() and not path.is_symlink())
    for path in random.Random(7).sample(notes, NOTES):
        target = base / "vault" / path.relative_to(everything)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    shutil.rmtree(everything)
    vault, state, models = base / "vault", base / "state", base / "models"
    models.mkdir()

    async def index() -> Any:
        async with opened(vault, state, embedder="counted", factory=FACTORY, models=models) as corpus:
            await has_its_vectors(corpus, state)
        async with opened(vault, state) as corpus:  # without vectors, hybrid answers are those of words
            return await words(corpus)

    by_words = asyncio.run(index())
    assert any(by_words[0]) and any(by_words[1])
    return Seed(vault, state, models, by_words, contents(state))


@pytest.fixture
def state(seed: Seed, tmp_path: Path) -> Path:
    seed.embedded()
    return Path(shutil.copytree(seed.state, tmp_path / "state"))


def cached(state: Path) -> set[tuple[bytes, str, bytes]]:
    with closing(sqlite3.connect(state / NAME)) as db:
        return set(db.execute("SELECT text_hash, embedder, vector FROM vectors"))


# damages


def header(path: Path) -> None:
    overwrite(path, 0, os.urandom(100))


def begin(path: Path) -> None:
    """The first quarter."""
    overwrite(path, 0, os.urandom(path.stat().st_size // 4))


def pages(path: Path) -> None:
    """Every fourth page; the file can still be opened."""
    for number in range(3, path.stat().st_size // PAGE, 4):
        overwrite(path, number * PAGE, random.Random(number).randbytes(PAGE))


def short(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def tiny(path: Path) -> None:
    os.truncate(path, 60)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def vanished(path: Path) -> None:
    path.unlink()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "thesis.txt").write_text("mine")


def link(path: Path) -> None:
    path.rename(path.with_name("moved.sqlite"))
    path.symlink_to(path.with_name("moved.sqlite"))


def foreign(path: Path) -> None:
    """Another program's database with tables of the same names."""
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE notes (path TEXT); CREATE TABLE chunks (x); CREATE TABLE vectors (a, b, c);")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def foreign_plain(path: Path) -> None:
    """One without a version, into which tables could be put."""
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE places (url TEXT); INSERT INTO places VALUES ('mine')")


def older(path: Path) -> None:
    version(path, SCHEMA_VERSION - 1)


def newer(path: Path) -> None:
    version(path, SCHEMA_VERSION + 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE notes ADD COLUMN mood TEXT")


def version(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


DAMAGES = [header, begin, pages, short, tiny, empty, vanished, folder, link, foreign, foreign_plain, older, newer]
KEPT_WHOLE = {header, older, newer, link}
LOST = {tiny, empty, vanished, folder, foreign, foreign_plain}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings about the manifest."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.getMessage().startswith("the manifest ")
    ]


async def recovers(seed: Seed, state: Path) -> None:
    """Open it: words find while vectors are away, and all ends as in a fresh index."""
    async with opened(seed.vault, state, embedder="counted", factory=FACTORY, models=seed.models) as corpus:
        assert (await corpus.search(QUERIES[0], 5)).hits
        await has_its_vectors(corpus, state)
    await is_as_fresh(seed, state)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_an_unfit_manifest_is_set_aside_and_made_again(
    seed: Seed, state: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    before = cached(state)
    damage(state / NAME)
    await recovers(seed, state)
    assert len(lines(caplog)) == 1, caplog.text
    assert not [record for record in caplog.records if record.exc_info], caplog.text
    assert str(state.parent) not in caplog.text

    kept = await asyncio.to_thread(kept_vectors, state)
    assert (damage is vanished) == (kept is None)
    lost = {row[0] for row in before} - {row.text_hash for row in kept or ()}
    assert len(seed.embedded()) == len(lost), "only what was lost is embedded"
    if damage in KEPT_WHOLE:
        assert not lost
    elif damage not in LOST:
        assert len(lost) < len(before)
    assert cached(state) == before


def kept_vectors(state: Path) -> set[Row] | None:
    """What can be read out of the manifest that was set aside; None when there is none."""
    found = aside.found(state / NAME).get(1)
    return None if found is None else set(vectors_in(found))


@pytest.mark.parametrize("damage", [folder, foreign_plain], ids=lambda damage: damage.__name__)
async def test_what_was_in_the_manifests_place_is_kept(seed: Seed, state: Path, damage: Callable[[Path], None]) -> None:
    damage(state / NAME)
    async with opened(seed.vault, state):
        pass
    kept = state / f"{NAME}.damaged-1"
    if damage is folder:
        assert (kept / "thesis.txt").read_text() == "mine"
    else:
        with closing(sqlite3.connect(kept)) as db:
            assert db.execute("SELECT * FROM places").fetchall() == [("mine",)]
            assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,), "nothing was put into it"


async def test_only_the_newest_are_kept_aside(seed: Seed, state: Path) -> None:
    for _ in range(4):
        header(state / NAME)
        async with opened(seed.vault, state):
            pass
    assert sorted(path.name for path in state.glob(f"{NAME}.damaged-?")) == [f"{NAME}.damaged-3", f"{NAME}.damaged-4"]
    await recovers(seed, state)
    assert not seed.embedded(), "the vectors went from one to the next"


# while it is in use


def scramble_in_use(path: Path) -> None:
    pages(path)


@pytest.mark.parametrize("damage", [scramble_in_use, vanished], ids=lambda damage: damage.__name__)
async def test_a_manifest_that_goes_bad_in_use_is_made_again(
    seed: Seed, state: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(seed.vault, state, embedder="counted", factory=FACTORY, models=seed.models) as corpus:
        await has_its_vectors(corpus, state)
        generation = corpus.generation
        await asyncio.to_thread(damage, state / NAME)
        async with asyncio.timeout(PATIENCE_S):
            while not lines(caplog):
                corpus.rebuild()
                for query in QUERIES:
                    try:
                        await corpus.search(query, 50)
                    except NotReady as early:
                        assert "again" in str(early) or "still being" in str(early)
                await asyncio.sleep(0.01)
        await has_its_vectors(corpus, state)
        assert corpus.generation > generation
    assert len(lines(caplog)) == 1, caplog.text
    assert "Traceback" not in caplog.text, caplog.text
    await is_as_fresh(seed, state)


# a folder of another vault


async def test_a_state_folder_of_another_vault_becomes_that_of_this_one(
    seed: Seed, state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With its vectors: a note that both have is not embedded again."""
    other = tmp_path / "other"
    names = [path for path, _, _ in seed.contents]
    for path in names[: NOTES // 2]:
        (other / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(seed.vault / path, other / path)
    (other / "Own.md").write_text("a zeppelin over the harbour")
    async with opened(other, state, embedder="counted", factory=FACTORY, models=seed.models) as corpus:
        await has_its_vectors(corpus, state)
        assert list(corpus.names()) == sorted([*names[: NOTES // 2], "Own.md"])
    assert seed.embedded() == ["Own\na zeppelin over the harbour"]
    assert "the index was made for another folder; every note is compared with it" in caplog.text
    async with opened(other, tmp_path / "fresh") as corpus:
        found = await words(corpus)
    async with opened(other, state) as corpus:
        assert await words(corpus) == found
    assert await asyncio.to_thread(contents, state) == await asyncio.to_thread(contents, tmp_path / "fresh")


async def test_a_state_folder_of_another_vault_does_not_keep_an_empty_one_away(seed: Seed, state: Path) -> None:
    """Without a note of its own, this vault is no empty mount point of the other."""
    empty_vault = state.parent / "empty"
    empty_vault.mkdir()
    async with opened(empty_vault, state) as corpus:
        assert list(corpus.names()) == []
    assert await asyncio.to_thread(contents, state) == []


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.INFO, "sidecar")
    yield
