"""What becomes of changes, orders and failures that come at an awkward moment: nothing is lost, nothing is stale."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import NotFound, Unreadable
from sidecar.index import backfill as backfill_module
from sidecar.index import indexer as indexer_module
from sidecar.index import orders
from sidecar.index.backfill import Backfill
from sidecar.index.holdings import Holdings
from sidecar.index.indexer import Indexer
from sidecar.index.keyword_store import KeywordStore
from sidecar.index.live import LiveIndex
from sidecar.index.look import Expansion, Findings, Looker, Survey
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_file import FILE_NAME
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.prepare import Lot
from sidecar.index.preparers import Preparers
from sidecar.index.preparing import Read
from sidecar.index.profile import NOTES, Profile
from sidecar.index.progress import Phase, Progress
from sidecar.index.tokens import Tokenizer
from sidecar.vault.jail import Jail
from tests.index.vaults import PATIENCE_S

SOON_S = 30.0
"""Far less than the time to the next scan for missed changes."""


class Live(LiveIndex):
    """Makes the keyword index again when it is let."""

    begun: threading.Event
    go_on: threading.Event

    def __init__(self, store: KeywordStore, tokenizer: Tokenizer) -> None:
        super().__init__(store, tokenizer)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def rebuild_keywords(self, reader: ManifestReader) -> None:
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        super().rebuild_keywords(reader)


class Look(Looker):
    """Tells what was looked at, and waits where it is told to."""

    def __init__(self, jail: Jail, profile: Profile) -> None:
        super().__init__(jail, max_note_bytes=1 << 20, profile=profile)
        self.expanded: list[str] = []
        self.bytes: list[int] = []
        self.surveys_fail = 0
        self.looks, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def survey(self, reader: ManifestReader, *, everything: bool, may_be_empty: bool) -> Survey:
        if self.surveys_fail:
            self.surveys_fail -= 1
            raise Unreadable("'' can't be read: input/output error.")
        return super().survey(reader, everything=everything, may_be_empty=may_be_empty)

    def expand(self, paths: Iterable[str], reader: ManifestReader) -> Expansion:
        expansion = super().expand(paths, reader)
        self.expanded += paths
        return expansion

    def look(self, paths: Sequence[str], reader: ManifestReader, *args: Any, **options: Any) -> Findings:
        self.looks.set()
        assert self.go_on.wait(PATIENCE_S)
        findings = super().look(paths, reader, *args, **options)
        self.bytes.append(findings.bytes)
        return findings


class Prepare(Preparers):
    """Tells what was prepared, and waits where it is told to."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.paths: list[str] = []
        self.expected: list[int] = []
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()

    def expect(self, notes: int) -> None:
        self.expected.append(notes)

    async def prepare_here(self, reads: Sequence[Read]) -> Lot:
        if reads:
            self.begun.set()
            await self.go_on.wait()
        self.paths += [path.text for path, _ in reads]
        return await super().prepare_here(reads)


class Rig:
    """An indexer of real parts, and what it told."""

    def __init__(self, jail: Jail, manifest: Manifest, state: Path, profile: Profile) -> None:
        path, tokenizer = state / FILE_NAME, Tokenizer()
        self.look = Look(jail, profile)
        self.live = Live(KeywordStore(state), tokenizer)
        self.prepare = Prepare(tokenizer)
        self.phases: list[Phase] = []
        self.steps: list[Progress] = []
        self.backfill = Backfill(self.look, self.prepare, ManifestReader(path))
        self.indexer = Indexer(
            self.look,
            Holdings(manifest, path, self.live, self.look),
            self.prepare,
            self.backfill,
            ManifestReader(path),
            self._progressed,
            lambda applied, is_save: None,
            lambda: None,
        )

    def _progressed(self, progress: Progress) -> None:
        self.steps.append(progress)
        if self.phases[-1:] != [progress.phase]:
            self.phases.append(progress.phase)

    async def settled(self) -> None:
        await until(lambda: self.indexer.settled)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not holds():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def indexing(vault: Path, state: Path, profile: Profile = NOTES) -> AsyncIterator[Rig]:
    """The indexer runs; its first scan is not ordered yet."""
    state.mkdir(exist_ok=True)
    jail = await asyncio.to_thread(Jail, vault)
    manifest = await asyncio.to_thread(Manifest, state / FILE_NAME)
    rig = Rig(jail, manifest, state, profile)
    running = asyncio.create_task(rig.indexer.run())
    try:
        yield rig
    finally:
        rig.live.go_on.set()
        rig.look.go_on.set()
        running.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        await rig.indexer.close()
        await asyncio.to_thread(manifest.close)
        jail.close()
        assert isinstance(ended, asyncio.CancelledError), ended


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    for number in range(16):
        (folder / f"Note {number:02}.md").write_text(f"word{number}\n")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


NAMES = [f"Note {number:02}.md" for number in range(16)]


async def soon(work: Awaitable[object]) -> None:
    async with asyncio.timeout(SOON_S):
        await work


async def test_a_note_saved_while_the_keyword_index_is_made_again_is_looked_at_then(vault: Path, state: Path) -> None:
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        rig.live.go_on.clear()
        rig.indexer.scan(again=True)
        await soon(asyncio.to_thread(rig.live.begun.wait, SOON_S))
        (vault / "New.md").write_text("zeppelin")
        asked = rig.indexer.look_at("New.md")
        rig.live.go_on.set()
        await soon(rig.indexer.wait_until_looked(asked))
        assert rig.live.rank({"zeppelin": 1.0}, 5)


async def test_it_is_not_settled_while_a_save_is_worked_on(vault: Path, state: Path) -> None:
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        rig.prepare.begun.clear()
        rig.prepare.go_on.clear()
        (vault / "New.md").write_text("zeppelin")
        rig.indexer.changed(["New.md"])
        await soon(rig.prepare.begun.wait())
        assert not rig.indexer.settled
        rig.prepare.go_on.set()
        await rig.settled()


async def test_what_a_later_scan_finds_is_taken_in_like_a_save(vault: Path, state: Path) -> None:
    """All other notes are indexed: nothing may say that the index is still being built."""
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        rig.phases.clear()
        (vault / NAMES[0]).unlink()
        (vault / NAMES[1]).write_text("zeppelin")
        (vault / "New.md").write_text("balloon")
        rig.indexer.scan()
        await rig.settled()
        assert rig.phases == [Phase.READY]
        assert list(rig.live.names) == ["New.md", *NAMES[1:]]
        assert rig.live.rank({"zeppelin": 1.0}, 5) and rig.live.rank({"balloon": 1.0}, 5)
        assert not rig.live.rank({"word0": 1.0}, 5)


async def test_notes_that_need_no_look_count_as_done(vault: Path, state: Path) -> None:
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        assert rig.steps[0] == Progress(Phase.OPENING, 0, 0)
        assert Progress(Phase.INDEXING, 0, 16) in rig.steps
    for name in NAMES[:3]:
        (vault / name).write_text("zeppelin")
    (vault / NAMES[3]).unlink()
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        done = [step.done for step in rig.steps if step.phase is Phase.INDEXING]
        assert done == sorted(done)
        assert (done[0], done[-1]) == (12, 16), "four of sixteen names were looked at"
        assert rig.steps[-1] == Progress(Phase.READY, 15, 15)


NEWER = Profile(NOTES.takes, "newer")


async def test_a_rebuild_for_a_new_version_that_was_cut_off_begins_again_at_the_next_start(
    vault: Path, state: Path
) -> None:
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
    async with indexing(vault, state, NEWER) as rig:
        rig.prepare.go_on.clear()
        rig.indexer.scan()
        await soon(rig.prepare.begun.wait())
    async with indexing(vault, state, NEWER) as rig:
        rig.indexer.scan()
        await rig.settled()
        assert sorted(rig.prepare.paths) == NAMES
    async with indexing(vault, state, NEWER) as rig:
        rig.indexer.scan()
        await rig.settled()
        assert rig.prepare.paths == [], "once it is through, it is through"


async def test_a_new_version_does_not_empty_the_index_of_a_vault_that_is_not_mounted(
    vault: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_AWAY_S", 0.01)
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
    for name in NAMES:
        (vault / name).unlink()
    async with indexing(vault, state, NEWER) as rig:
        rig.indexer.scan()
        await until(lambda: rig.indexer.phase is Phase.AWAY)
        assert rig.live.rank({"word7": 1.0}, 5)
        rig.indexer.scan(again=True)  # as "index rebuild" says: it was emptied on purpose
        await rig.settled()
        assert not rig.live.rank({"word7": 1.0}, 5)


async def test_a_vault_that_goes_away_in_a_rebuild_is_away_once_and_all_of_it_is_read_again(
    vault: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was under way when it went away says nothing of the vault that is back."""
    monkeypatch.setattr(indexer_module, "_AWAY_S", 0.01)
    monkeypatch.setattr(backfill_module, "_NOTES", 3)
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        rig.prepare.paths.clear()
        rig.look.looks.clear()
        rig.look.go_on.clear()
        rig.indexer.scan(again=True)
        await soon(asyncio.to_thread(rig.look.looks.wait, SOON_S))
        away = vault.rename(vault.with_name("away"))
        rig.look.go_on.set()
        await until(lambda: rig.indexer.phase is Phase.AWAY)
        rig.phases.clear()
        away.rename(vault)
        await rig.settled()
        assert Phase.AWAY not in rig.phases[rig.phases.index(Phase.INDEXING) :]
        assert set(rig.prepare.paths) == set(NAMES)


async def test_a_vault_that_can_not_be_read_for_a_moment_does_not_end_the_indexer(
    vault: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_AWAY_S", 0.01)
    async with indexing(vault, state) as rig:
        rig.look.surveys_fail = 2
        rig.indexer.scan()
        await rig.settled()
        assert Phase.SCANNING not in rig.phases[rig.phases.index(Phase.AWAY) :], "it was looked for, but not seen"
        assert list(rig.live.names) == NAMES
        assert rig.indexer.problem is None


async def test_large_files_that_come_in_at_once_are_not_read_into_memory_at_once(
    vault: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_LARGEST_EVENT_BYTES", 3_000)
    monkeypatch.setattr(backfill_module, "_ENOUGH_BYTES", 3_000)
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        outside = tmp_path / "outside"
        outside.mkdir()
        for number in range(12):
            (outside / f"Large {number}.md").write_text(f"large{number} " * 120)
        outside.rename(vault / "Large")
        rig.indexer.changed(["Large"])
        await rig.settled()
        assert all(rig.live.rank({f"large{number}": 1.0}, 5) for number in range(12))
        assert max(rig.look.bytes) < 3_000 + 1_200


async def test_a_folder_that_came_went_and_came_again_is_looked_at_twice_again(
    vault: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "_SECOND_LOOK_S", 0.05)
    folder = vault / "Folder"
    async with indexing(vault, state) as rig:
        rig.indexer.scan()
        await rig.settled()
        folder.mkdir()
        rig.indexer.changed(["Folder"])
        await until(lambda: rig.look.expanded == ["Folder"])
        folder.rmdir()
        await until(lambda: rig.look.expanded == ["Folder"] * 2)
        monkeypatch.setattr(orders, "_SECOND_LOOK_S", 0.5)
        folder.mkdir()
        rig.indexer.changed(["Folder"])
        await until(lambda: rig.look.expanded == ["Folder"] * 3)
        (folder / "Inside.md").write_text("zeppelin")  # before the folder is watched, so nobody says it
        await until(lambda: bool(rig.live.rank({"zeppelin": 1.0}, 5)))


async def test_a_note_that_went_before_it_was_indexed_is_not_listed_any_more(vault: Path, state: Path) -> None:
    async with indexing(vault, state) as rig:
        rig.prepare.go_on.clear()
        rig.indexer.scan()
        await soon(rig.prepare.begun.wait())
        assert list(rig.live.names) == NAMES
        (vault / NAMES[3]).unlink()
        rig.indexer.scan()
        await until(lambda: list(rig.live.names) == [*NAMES[:3], *NAMES[4:]])
        rig.prepare.go_on.set()
        await rig.settled()
        assert list(rig.live.names) == [*NAMES[:3], *NAMES[4:]]


async def test_processes_are_kept_while_they_prepare_though_nothing_waits(vault: Path, state: Path) -> None:
    """Ended, they would take what they have in hand along, and with it the indexer."""
    async with indexing(vault, state) as rig:
        rig.prepare.go_on.clear()
        rig.indexer.scan()
        await soon(rig.prepare.begun.wait())
        assert len(rig.backfill) == 0 and rig.backfill.busy
        rig.backfill.add([])
        assert 0 not in rig.prepare.expected
        rig.prepare.go_on.set()
        await rig.settled()
        assert rig.prepare.expected[-1] == 0


async def test_an_index_that_stops_is_told_of_at_once(
    vault: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(progress: Progress) -> None:
        raise NotFound("there is no bar for it")

    caplog.set_level(logging.ERROR, "sidecar")
    state.mkdir()
    async with open_corpus(vault, state, CorpusOptions(max_note_bytes=1 << 20), refuse):
        await until(lambda: "the index stopped" in caplog.text)
