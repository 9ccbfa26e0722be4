"""Caches that are lost, old or foreign are brought back to what the manifest holds, without a note being lost."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.errors import NotReady
from tests.index.vaults import found, opened, ranked

LATE_S = 60.0

WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    for number, word in enumerate(WORDS):
        (folder / f"Note {number}.md").write_text(f"# Note {number}\n\nIt holds {word}.\n")
    return folder


async def finds_every_word(vault: Path, state: Path, words: list[str] = WORDS) -> None:
    async with opened(vault, state) as corpus:
        for number, word in enumerate(words):
            assert await ranked(corpus, word) == [f"Note {number}.md"], word


def remove_snapshot(state: Path) -> None:
    (state / "bm25.snap").unlink(missing_ok=True)


def remove_log(state: Path) -> None:
    (state / "bm25.log").unlink(missing_ok=True)


def scramble(name: str):
    def damage(state: Path) -> None:
        path = state / name
        if path.exists():
            data = bytearray(path.read_bytes())
            data[len(data) // 2 :] = bytes(255 - byte for byte in data[len(data) // 2 :])
            path.write_bytes(data)

    damage.__name__ = f"scramble {name}"
    return damage


def truncate(name: str):
    def damage(state: Path) -> None:
        path = state / name
        if path.exists():
            path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])

    damage.__name__ = f"truncate {name}"
    return damage


def empty(name: str):
    def damage(state: Path) -> None:
        (state / name).write_bytes(b"")

    damage.__name__ = f"empty {name}"
    return damage


def a_folder(name: str):
    def damage(state: Path) -> None:
        (state / name).unlink(missing_ok=True)
        (state / name).mkdir()

    damage.__name__ = f"a folder for {name}"
    return damage


DAMAGES = [
    remove_snapshot,
    remove_log,
    *(damage(name) for name in ("bm25.snap", "bm25.log") for damage in (scramble, truncate, empty, a_folder)),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_lost_or_damaged_keyword_cache_is_made_again(vault: Path, tmp_path: Path, damage) -> None:
    state = tmp_path / "state"
    await finds_every_word(vault, state)
    (vault / "Note 0.md").write_text("# Note 0\n\nIt holds somethingelse.\n")  # so that the log has records
    await finds_every_word(vault, state, ["somethingelse", *WORDS[1:]])
    damage(state)
    await finds_every_word(vault, state, ["somethingelse", *WORDS[1:]])


async def test_an_older_keyword_cache_is_brought_up_to_date(vault: Path, tmp_path: Path) -> None:
    state, old = tmp_path / "state", tmp_path / "old"
    await finds_every_word(vault, state)
    old.mkdir()
    for file in state.glob("bm25.*"):
        shutil.copy2(file, old)
    (vault / "Note 0.md").write_text("# Note 0\n\nIt holds somethingelse.\n")
    await finds_every_word(vault, state, ["somethingelse", *WORDS[1:]])
    for file in old.iterdir():
        shutil.copy2(file, state)
    await finds_every_word(vault, state, ["somethingelse", *WORDS[1:]])
    async with opened(vault, state) as corpus:
        assert await ranked(corpus, "word0") == []


async def test_a_keyword_cache_that_is_ahead_of_the_manifest_is_dropped(vault: Path, tmp_path: Path) -> None:
    """As after a power loss that took the manifest's newest rows: their ids are given out again."""
    state, early = tmp_path / "state", tmp_path / "early"
    async with opened(vault, state):
        pass
    shutil.copytree(state, early)
    for number in range(60, 90):
        (vault / f"Note {number}.md").write_text("later")
    async with opened(vault, state):
        pass
    for file in state.glob("manifest.sqlite*"):
        file.unlink()
    for file in early.glob("manifest.sqlite*"):
        shutil.copy2(file, state)
    for number in range(60, 90):
        (vault / f"Note {number}.md").unlink()
    await finds_every_word(vault, state)
    async with opened(vault, state) as corpus:
        assert await ranked(corpus, "later") == []


async def test_a_keyword_cache_of_another_manifest_is_not_believed(vault: Path, tmp_path: Path) -> None:
    """Its ids would fit: both manifests count from 1."""
    other = tmp_path / "other"
    other.mkdir()
    for number in range(80):
        (other / f"Note {number}.md").write_text(f"stranger{number}")
    async with opened(other, tmp_path / "theirs"):
        pass
    state = tmp_path / "state"
    await finds_every_word(vault, state)
    for file in (tmp_path / "theirs").glob("bm25.*"):
        shutil.copy2(file, state)
    await finds_every_word(vault, state)
    async with opened(vault, state) as corpus:
        assert await ranked(corpus, "stranger7") == []


@pytest.mark.parametrize(
    "rot",
    [
        pytest.param("UPDATE texts SET text = CAST(substr(text, 1, length(text) - 4) || '1234' AS BLOB)", id="a text"),
        pytest.param("UPDATE notes SET path = CAST(x'6dff2e6d64' AS TEXT)", id="a name"),
    ],
)
async def test_what_rotted_in_the_manifest_has_it_made_again(
    vault: Path, tmp_path: Path, rot: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The database does not notice: what lies in its rows has no checksum but that of a packed text."""
    state = tmp_path / "state"
    await finds_every_word(vault, state)
    with closing(sqlite3.connect(state / "manifest.sqlite")) as db:
        db.execute(f"{rot} WHERE note_key = 7")
        db.commit()
    async with opened(vault, state) as corpus, asyncio.timeout(LATE_S):
        while True:
            try:
                if await found(corpus, "word7") == ["Note 7.md"]:
                    break
            except NotReady:
                pass
            await asyncio.sleep(0.02)
    assert "the manifest is damaged" in caplog.text
    assert "Traceback" not in caplog.text
    await finds_every_word(vault, state)
