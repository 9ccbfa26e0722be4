"""A corpus follows its folder: every kind of save ends in names, plain-text search and keyword search at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.index.corpus import Corpus
from sidecar.index.look import Looker
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.progress import Phase
from tests.index.vaults import PATIENCE_S, found, opened, ranked, settled, until, until_found


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / "Projects").mkdir(parents=True)
    (folder / "Projects" / "Heat.md").write_text("# Heat\n\nWe take the heatpump.\n")
    (folder / "Daily.md").write_text("A walk by the river.\n")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def corpus(vault: Path, state: Path) -> AsyncIterator[Corpus]:
    async with opened(vault, state) as corpus:
        yield corpus


async def agrees(corpus: Corpus, word: str, paths: list[str]) -> None:
    """Once the plain-text search says so, the names and the keyword search say the same."""
    await until_found(corpus, word, paths)
    assert sorted(await ranked(corpus, word)) == sorted(paths)
    assert set(paths) <= set(corpus.names())


async def test_what_is_there_at_the_start_is_listed_and_found(corpus: Corpus) -> None:
    assert list(corpus.names()) == ["Daily.md", "Projects/Heat.md"]
    await agrees(corpus, "heatpump", ["Projects/Heat.md"])


async def test_a_saved_note_is_found(corpus: Corpus, vault: Path) -> None:
    (vault / "New.md").write_text("zeppelin")
    await agrees(corpus, "zeppelin", ["New.md"])


async def test_a_changed_note_is_found_by_its_new_words_only(corpus: Corpus, vault: Path) -> None:
    (vault / "Daily.md").write_text("A walk by the zeppelin.\n")
    await agrees(corpus, "zeppelin", ["Daily.md"])
    assert await found(corpus, "river") == []
    assert await ranked(corpus, "river") == []


async def test_a_deleted_note_is_gone_everywhere(corpus: Corpus, vault: Path) -> None:
    (vault / "Daily.md").unlink()
    await until_found(corpus, "river", [])
    assert await ranked(corpus, "river") == []
    assert list(corpus.names()) == ["Projects/Heat.md"]


async def test_a_renamed_note_is_found_under_its_new_name_only(corpus: Corpus, vault: Path) -> None:
    (vault / "Daily.md").rename(vault / "Weekly.md")
    await agrees(corpus, "river", ["Weekly.md"])
    assert "Daily.md" not in corpus.names()


async def test_a_rename_is_never_seen_half(corpus: Corpus, vault: Path) -> None:
    """Every answer has the note exactly once, whatever the moment."""
    for turn in range(10):
        old, new = ("Daily.md", "Weekly.md") if turn % 2 == 0 else ("Weekly.md", "Daily.md")
        (vault / old).rename(vault / new)
        async with asyncio.timeout(PATIENCE_S):
            while (hits := await found(corpus, "river")) != [new]:
                assert hits == [old]
                assert len(await ranked(corpus, "river")) == 1


async def test_a_moved_folder_takes_its_notes_along(corpus: Corpus, vault: Path) -> None:
    (vault / "Projects").rename(vault / "Done")
    await agrees(corpus, "heatpump", ["Done/Heat.md"])
    assert list(corpus.names()) == ["Daily.md", "Done/Heat.md"]


async def test_a_folder_moved_out_of_the_vault_is_gone(corpus: Corpus, vault: Path, tmp_path: Path) -> None:
    (vault / "Projects").rename(tmp_path / "elsewhere")
    await until_found(corpus, "heatpump", [])
    assert list(corpus.names()) == ["Daily.md"]


async def test_a_folder_moved_into_the_vault_is_read(corpus: Corpus, vault: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "deep"
    outside.mkdir(parents=True)
    (outside / "Zeppelin.md").write_text("zeppelin inside")
    (tmp_path / "outside").rename(vault / "Came in")
    await agrees(corpus, "zeppelin inside", ["Came in/deep/Zeppelin.md"])


async def test_a_deleted_folder_is_gone(corpus: Corpus, vault: Path) -> None:
    shutil.rmtree(vault / "Projects")
    await until_found(corpus, "heatpump", [])


def save_like_vim(path: Path, text: str) -> None:
    """Rename the old file to a backup, write a new one, delete the backup."""
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def save_by_temp_and_rename(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def save_by_visible_temp(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def save_in_place(path: Path, text: str) -> None:
    with path.open("r+") as file:
        file.truncate(0)
        file.write(text)


@pytest.mark.parametrize("save", [save_like_vim, save_by_temp_and_rename, save_by_visible_temp, save_in_place])
async def test_however_an_editor_saves_the_note_is_right(corpus: Corpus, vault: Path, save) -> None:
    path = vault / "Projects" / "Heat.md"
    for turn in range(5):
        save(path, f"# Heat\n\nturn{turn} zeppelin\n")
        await agrees(corpus, f"turn{turn} zeppelin", ["Projects/Heat.md"])
    assert await found(corpus, "heatpump") == []
    assert list(corpus.names()) == ["Daily.md", "Projects/Heat.md"]


async def test_an_empty_note_is_listed_and_has_no_text(corpus: Corpus, vault: Path) -> None:
    (vault / "Nothing yet.md").write_bytes(b"")
    await until(corpus, lambda: "Nothing yet.md" in corpus.names())
    assert await found(corpus, "nothing yet") == ["Nothing yet.md"]


async def test_ignored_notes_go_and_come_back_with_the_rules(corpus: Corpus, vault: Path) -> None:
    (vault / ".kpignore").write_text("Projects/\n")
    await until_found(corpus, "heatpump", [])
    assert list(corpus.names()) == ["Daily.md"]
    assert await ranked(corpus, "heatpump") == []
    (vault / ".kpignore").unlink()
    await agrees(corpus, "heatpump", ["Projects/Heat.md"])


async def test_J42_nothing_behind_a_link_is_indexed(corpus: Corpus, vault: Path, tmp_path: Path) -> None:
    (tmp_path / "canary.md").write_text("canaryword")
    (vault / "link.md").symlink_to(tmp_path / "canary.md")
    (vault / "folder").symlink_to(tmp_path, target_is_directory=True)
    (vault / "After.md").write_text("afterword")
    await agrees(corpus, "afterword", ["After.md"])
    assert await found(corpus, "canaryword") == []
    corpus.rebuild()
    await settled(corpus)
    assert await found(corpus, "canaryword") == []
    assert ("link.md", "a link") in [
        (p, r if "link" not in r else "a link") for p, r in (await corpus.status()).skipped
    ]


async def test_a_second_opening_reads_nothing_again(vault: Path, state: Path) -> None:
    async with opened(vault, state) as corpus:
        generation = corpus.generation
    async with opened(vault, state) as corpus:
        assert corpus.generation == generation
        await agrees(corpus, "heatpump", ["Projects/Heat.md"])


async def test_changes_made_while_closed_are_found_at_the_next_opening(vault: Path, state: Path) -> None:
    async with opened(vault, state):
        pass
    (vault / "Daily.md").unlink()
    (vault / "Offline.md").write_text("zeppelin")
    async with opened(vault, state) as corpus:
        await agrees(corpus, "zeppelin", ["Offline.md"])
        assert await ranked(corpus, "river") == []


async def test_a_rebuild_ends_where_it_began(corpus: Corpus, state: Path) -> None:
    def contents() -> list[tuple[str, str, list[str]]]:
        with closing(ManifestReader(state / "manifest.sqlite")) as reader:
            return reader.contents()

    before = await asyncio.to_thread(contents)
    generation = corpus.generation
    corpus.rebuild()
    await corpus.wait_beyond(generation)
    await settled(corpus)
    assert await asyncio.to_thread(contents) == before
    await agrees(corpus, "heatpump", ["Projects/Heat.md"])


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
async def test_an_unreadable_folder_deletes_nothing(corpus: Corpus, vault: Path) -> None:
    (vault / "Projects").chmod(0)
    try:
        corpus.rebuild()
        await settled(corpus)
        assert await ranked(corpus, "heatpump") == ["Projects/Heat.md"]
    finally:
        (vault / "Projects").chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="this system does not tell holes in files")
async def test_a_note_that_a_cloud_service_takes_away_is_still_found(corpus: Corpus, vault: Path) -> None:
    """Its place-holder has a size and no content; it is not read, and says why."""
    note = vault / "Projects" / "Heat.md"
    content = note.read_bytes()
    hollow = vault / ".hollow"
    hollow.touch()
    os.truncate(hollow, len(content))
    hollow.replace(note)
    if note.stat().st_blocks:
        pytest.skip("this file system fills holes")
    async with asyncio.timeout(PATIENCE_S):
        while not (skipped := (await corpus.status()).skipped):
            await asyncio.sleep(0.01)
    why = "'Projects/Heat.md' can't be read: it is not downloaded to this computer."
    assert list(skipped) == [("Projects/Heat.md", why)]
    assert await ranked(corpus, "heatpump") == ["Projects/Heat.md"]
    note.write_bytes(content + b"More.")
    await until_found(corpus, "More.", ["Projects/Heat.md"])
    assert not (await corpus.status()).skipped


async def test_a_vault_that_vanishes_keeps_its_index_and_comes_back(
    corpus: Corpus, vault: Path, tmp_path: Path
) -> None:
    vault.rename(tmp_path / "away")
    corpus.rebuild()
    async with asyncio.timeout(PATIENCE_S):
        while (await corpus.status()).phase is not Phase.AWAY:
            await asyncio.sleep(0.01)
    assert await ranked(corpus, "heatpump") == ["Projects/Heat.md"]
    (tmp_path / "away").rename(vault)
    await settled(corpus)
    assert await ranked(corpus, "heatpump") == ["Projects/Heat.md"]


async def test_a_status_reads_on_the_loop_what_belongs_to_the_loop(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread could meet the worker's calls as they come and go: "changed size during iteration", once in a while."""
    threads: list[str] = []
    monkeypatch.setattr(Looker, "problem", property(lambda _: threads.append(threading.current_thread().name)))
    assert (await corpus.status()).counts.notes == 2
    assert threads == [threading.current_thread().name]
