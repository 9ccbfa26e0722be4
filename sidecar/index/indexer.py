"""The single writer of a corpus: takes paths to look at, stores what is found, one batch at a time.

Saves go ahead of backfill. A scan is a list of paths to look at, never a list
of changes, so one that ran while files moved can't do harm.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from sidecar.errors import Unreadable, VaultAway, VectorsAway
from sidecar.index.backfill import Backfill, to_batch, without_overtaken
from sidecar.index.live import LiveIndex
from sidecar.index.look import Expansion, Looker, Survey
from sidecar.index.manifest import Applied, Batch, Manifest
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.profile import Preparing
from sidecar.index.trouble import disk_trouble, is_damage
from sidecar.tasks import Lane
from sidecar.vault.ignore import IGNORE_FILE

logger = logging.getLogger(__name__)

T = TypeVar("T")

SCAN_EVERY_S = 300.0
"""Events are lossy on every platform; a scan of unchanged files costs a stat each."""

_LARGEST_EVENT = 1000
_LARGEST_EVENT_BYTES = 128 << 20
"""Up to so many files, and bytes of theirs, of one event batch change at one moment: they are all in memory then. More
are fed in as backfill."""

_SECOND_LOOK_S = 1.0
"""A folder that appeared is looked at again: files may have come in before it was watched."""

_AWAY_S = 3.0
"""How often a vanished vault is looked for."""

_NO_ROOM_S = 5.0
_LONGEST_NO_ROOM_S = 30.0
"""How soon writing is tried again after the disk took nothing; later each time, but not later than that."""

_NOT_WRITABLE = "The index can't be written now."

_ROOM_BYTES = 32 << 20
"""So much must be free before it is tried: SQLite's log may grow that long."""


class Phase(StrEnum):
    """What the index is doing."""

    OPENING = "opening"
    SCANNING = "scanning"
    INDEXING = "indexing"
    READY = "ready"
    AWAY = "vault unavailable"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a piece of long work is."""

    phase: Phase
    done: int
    total: int


OnChunks = Callable[[Applied, bool], None]
"""Called on the loop with what a batch did, and whether it was a save, which goes ahead of backfill."""


class Indexer:
    """Owns the manifest's writer connection. `run` is its one task; everything else only queues."""

    def __init__(
        self,
        looker: Looker,
        manifest: Manifest,
        manifest_path: Path,
        live: LiveIndex,
        preparers: Preparing,
        backfill: Backfill,
        reader: ManifestReader,
        on_progress: Callable[[Progress], None],
        on_chunks: OnChunks,
        on_restored: Callable[[], None],
    ) -> None:
        """`on_restored` is called on the loop when the manifest was made again, or can be written again: what
        was known of its chunks, or was to be written, does not hold any more."""
        self._looker = looker
        self._manifest = manifest
        self._manifest_path = manifest_path
        self._live = live
        self._preparers = preparers
        self._on_progress = on_progress
        self._on_chunks = on_chunks
        self._on_restored = on_restored
        self._lane = Lane("index")
        self._reader = reader
        self._backfill = backfill
        self._urgent: dict[str, None] = {}
        self._second_looks: set[str] = set()
        self._scan_due = False
        self._scan_again = False
        self._may_be_empty = False
        self._rebuilding = False
        self._is_resting = False
        self._distrusted: str | None = None
        self._trouble: str | None = None
        self._wait_s = _NO_ROOM_S
        self._is_loaded = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._asked = 0
        self._looked_at = 0
        self._looked = asyncio.Event()
        self._done = 0
        self._total = 0
        self.phase = Phase.OPENING
        self.generation = manifest.generation
        self.problem: str | None = manifest.problem
        self.named = asyncio.Event()
        """Set once the names of all notes are known."""

    # queueing, on the loop

    def changed(self, paths: Iterable[str]) -> None:
        """These files or folders may have changed; `""` means anything may have."""
        new = dict.fromkeys(paths)
        if "" in new or IGNORE_FILE in new:
            self.scan()
        self._urgent.update(new)
        self._urgent.pop("", None)
        self._wake.set()

    def look_at(self, path: str) -> int:
        """A file was changed by ourselves. The number is one to wait for with `wait_until_looked`."""
        self._asked += 1
        self.changed([path])
        return self._asked

    def scan(self, *, again: bool = False) -> None:
        """Compare the whole vault with the index soon.

        `again`: take every note as new, then remake the caches; believe the vault, too, if it is empty.
        """
        self._scan_due = True
        self._scan_again = self._scan_again or again
        self._may_be_empty = self._may_be_empty or again
        self._wake.set()

    def distrust(self, reason: str) -> None:
        """The manifest was found to be no good: set it aside and make the index again, soon.

        `reason` is the end of a sentence that begins with "the manifest".
        """
        self._distrusted = self._distrusted or reason
        self._wake.set()

    @property
    def is_distrusted(self) -> bool:
        """The manifest is about to be made again; nothing it says counts."""
        return self._distrusted is not None

    @property
    def settled(self) -> bool:
        """Nothing is queued and nothing runs."""
        waits = self._urgent or self._backfill.busy or self._scan_due or self._distrusted or self._trouble
        return self.phase is Phase.READY and self._is_resting and not waits

    @property
    def progress(self) -> Progress:
        """How far the present phase is, in notes; both numbers are all of them once it is ready."""
        if self.phase is Phase.INDEXING:
            return Progress(self.phase, self._done, self._total)
        known = len(self._live.names)
        return Progress(self.phase, known if self.phase is Phase.READY else 0, known)

    @property
    def is_filling(self) -> bool:
        """Notes that were not saved just now wait to be found by their words."""
        return self.phase is not Phase.READY

    async def wait_beyond(self, generation: int) -> int:
        """The generation once it is greater than the given one."""
        while self.generation <= generation:
            await self._changed.wait()
        return self.generation

    async def wait_until_looked(self, asked: int) -> None:
        """Wait until the file that `look_at` gave this number for has been looked at, and stored if it was new."""
        while self._looked_at < asked:
            await self._looked.wait()

    # the one task

    async def run(self) -> None:
        """Work until cancelled. Run again after a failure, it reads its caches anew and scans."""
        try:
            await self._coping(self._begin)
            while True:
                await self._coping(self._step)
        except Exception:
            self.problem = "Indexing failed and begins again; the log holds the details."
            self._scan_anew()  # the paths of the failed batch are found again
            raise

    async def _begin(self) -> None:
        self._is_loaded = False
        await self._lane.run(self._load)
        self._is_loaded = True
        self.problem = self._manifest.problem or self._live.problem
        self._publish()

    async def _coping(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do a piece of work; what can go wrong with the vault, the manifest or the disk is met here."""
        try:
            await work()
        except (sqlite3.Error, OSError, Unreadable) as failed:
            if isinstance(failed, VaultAway) or (isinstance(failed, Unreadable) and not self._distrusted):
                await self._wait_for_vault(failed)
            elif not self._is_explained(failed):
                raise

    async def _wait_for_vault(self, away: Unreadable) -> None:
        """Nothing that was found can be relied on. What was not stored is found by the scan that follows."""
        self._set_phase(Phase.AWAY)
        self.problem = str(away)
        logger.warning("%s The index is kept, and the vault is looked for every %.0f s", away, _AWAY_S)
        await self._backfill.forget()
        await asyncio.sleep(_AWAY_S)
        self._scan_anew()

    def _scan_anew(self) -> None:
        """Scan after a failure. A rebuild that was under way is not known to have come to any note: it begins again."""
        self._scan_due = True
        self._scan_again = self._scan_again or self._rebuilding

    def _is_explained(self, failed: Exception) -> bool:
        """Whether it is the fault of the manifest or of the disk; then `_step` does something about it."""
        if is_damage(failed):
            self.distrust(f"is damaged ({failed})")
        elif trouble := disk_trouble(failed) or (str(failed) if self._distrusted else None):
            if self._trouble is None:
                logger.warning("nothing can be indexed now, because %s; what was indexed is still found", trouble)
            self._trouble = trouble
            self.problem = f"Nothing can be indexed now, because {trouble}. It goes on by itself once it can."
        else:
            return False
        return True

    async def close(self) -> None:
        """Wait for the batch that runs, then close what `run` used."""
        await self._backfill.close()
        await self._preparers.close()
        await self._lane.run(self._live.close)
        await self._lane.run(self._reader.close)
        await self._lane.close()

    def _load(self) -> None:
        with closing(ManifestReader(self._manifest_path)) as reader:
            self._live.load(reader, self._manifest)
        if not self._manifest.serves(self._looker.root):
            logger.warning("the index was made for another folder; every note is compared with it")
            self._scan_again = self._may_be_empty = True
        if self._manifest.meta("prepared") != self._looker.version:
            if self.generation:  # notes are read or cut in another way now
                self._scan_again = True
            else:
                self._note_version()

    def _note_version(self) -> None:
        """Every note in the index is read and cut in the present way. Not to be said before it is so: whoever ends
        in the middle of a rebuild begins it again."""
        if self._manifest.meta("prepared") != self._looker.version:
            self._manifest.set_meta("prepared", self._looker.version)

    async def _step(self) -> None:
        """One piece of work, or a wait for some. A save never waits for more than one batch."""
        if self._trouble:
            await self._wait_for_room()
        elif self._distrusted:
            await self._begin_again(self._distrusted)
        elif self._scan_due:
            await self._scan()
        elif self._urgent:
            paths, self._urgent, asked = list(self._urgent), {}, self._asked
            try:
                await self._save(paths)
            finally:
                self._has_looked(asked)
        elif self._backfill.busy:
            await self._fill()
        else:
            await self._rest()

    async def _wait_for_room(self) -> None:
        """Wait, then try the disk. What was not stored meanwhile is found by the scan that follows."""
        await self._backfill.forget()
        await asyncio.sleep(self._wait_s)
        self._wait_s = min(self._wait_s * 2, _LONGEST_NO_ROOM_S)
        await self._lane.run(self._try_disk)
        self._trouble, self._wait_s = None, _NO_ROOM_S
        if not (self._is_loaded or self._distrusted):
            await self._begin()
        self._scan_anew()
        self.problem = self._manifest.problem or self._live.problem
        logger.info("the disk can be written again; indexing goes on")
        self._on_restored()

    def _try_disk(self) -> None:
        free = shutil.disk_usage(self._manifest_path.parent).free
        if free < _ROOM_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if not self._distrusted:
            self._manifest.set_meta("tried", int(time.time()))

    async def _begin_again(self, reason: str) -> None:
        """Set the manifest aside and fill a new one. Nothing that was queued or known of chunks holds any more."""
        await self._backfill.forget()
        self._urgent.clear()
        self._has_looked(self._asked)
        self.named.clear()
        self._set_phase(Phase.SCANNING)
        await self._lane.run(self._start_over, reason)
        self._distrusted, self._is_loaded = None, True
        self._scan_due = True
        self.problem = self._manifest.problem
        self._publish()
        self._on_restored()

    def _start_over(self, reason: str) -> None:
        self._manifest.begin_again(reason)
        self._live.begin_again()
        self._load()

    async def _scan(self) -> None:
        if not await self._lane.run(lambda: self._manifest.is_in_place):
            self.distrust("is gone")
            return
        again, may_be_empty = self._scan_again, self._may_be_empty
        self._scan_again = self._may_be_empty = self._scan_due = False
        self._rebuilding = self._rebuilding or again
        if self.phase is not Phase.READY:
            self._set_phase(Phase.SCANNING)
        survey = await self._lane.run(self._survey, again, may_be_empty)
        self._backfill.add(survey.to_look_at, again=again)
        self._done, self._total = 0, len(self._backfill)
        if self._backfill.busy:
            self._set_phase(Phase.INDEXING)
        self.named.set()
        self._publish()

    def _survey(self, again: bool, may_be_empty: bool) -> Survey:
        with closing(ManifestReader(self._manifest_path)) as reader:
            survey = self._looker.survey(reader, everything=again, may_be_empty=may_be_empty)
            known = dict(reader.skipped())
            self._live.use_names([*survey.names, *reader.paths()], complete=survey.complete)
        news = [skip for skip in survey.skips if known.get(skip.path) != skip.reason]
        for skip in news:
            logger.warning("skipped %s: %s", skip.path, skip.reason)
        self._store(Batch(skips=news, gone=[skip.path for skip in news]))
        return survey

    async def _save(self, paths: list[str]) -> None:
        """What events named becomes searchable, at one moment."""
        expansion = await self._lane.run(self._looker.expand, paths, self._reader)
        self._look_twice(paths, expansion.folders)
        if len(expansion.paths) > _LARGEST_EVENT:
            await self._put_off(expansion)
            return
        findings = await self._lane.run(
            self._looker.look,
            expansion.paths,
            self._reader,
            expansion.skips,
            enough_bytes=_LARGEST_EVENT_BYTES,
        )
        if findings.left:
            # all of it: a renamed note and its old name must stay together
            await self._put_off(expansion)
            return
        prepared = await self._preparers.prepare_here(findings.reads)
        self._stored(await self._lane.run(self._store, to_batch(findings, prepared)), is_save=True)

    async def _put_off(self, expansion: Expansion) -> None:
        """Have so much looked at as backfill."""
        self._stored(await self._lane.run(self._store, Batch(skips=expansion.skips)), is_save=True)
        self._backfill.add(await self._lane.run(self._looker.in_order, expansion.paths, self._reader))
        self._total = self._done + len(self._backfill)
        self._set_phase(Phase.INDEXING)

    async def _fill(self) -> None:
        """Store the next batch of backfill, unless a save comes first."""
        self._wake.clear()
        first = self._backfill.first()
        waking = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait((first, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
        if not first.done():
            return
        ready = self._backfill.take()
        applied, overtaken = await self._lane.run(self._store_if_still_so, ready.batch)
        self._done += ready.paths
        self._stored(applied, is_save=False)
        if overtaken:
            self.changed(overtaken)

    async def _rest(self) -> None:
        self._wake.clear()  # before any await: what comes in from now on ends the rest
        if self._rebuilding:
            await self._lane.run(self._end_rebuild)
            self._rebuilding = False
        if self.phase is not Phase.READY and self.named.is_set():  # before the first scan nothing is known
            self.problem = self._manifest.problem or self._live.problem
            self._set_phase(Phase.READY)
        self._is_resting = True
        try:
            await self._lane.run(self._tidy)
            async with asyncio.timeout(SCAN_EVERY_S):
                await self._wake.wait()
        except TimeoutError:
            self._scan_due = True
        finally:
            self._is_resting = False

    def _has_looked(self, asked: int) -> None:
        self._looked_at = asked
        self._looked.set()
        self._looked = asyncio.Event()

    def _look_twice(self, named: list[str], folders: list[str]) -> None:
        """Have those of the named paths that are folders, and came up for the first time, looked at once more."""
        first = [folder for folder in folders if folder not in self._second_looks]
        self._second_looks.difference_update(named)  # one that is gone by now may come up again
        if first:
            self._second_looks.update(first)
            asyncio.get_running_loop().call_later(_SECOND_LOOK_S, self.changed, first)

    def _store_if_still_so(self, batch: Batch) -> tuple[Applied | None, list[str]]:
        still, overtaken = without_overtaken(batch, self._looker)
        return self._store(still), overtaken

    def _store(self, batch: Batch) -> Applied | None:
        return self._live.apply(self._manifest, batch) if batch else None

    def _stored(self, applied: Applied | None, *, is_save: bool) -> None:
        if applied is not None:
            self._on_chunks(applied, is_save)
        self._publish()

    async def write(self, change: Callable[[Manifest], T]) -> T:
        """Run a change of the manifest in the lane where all of them run, and publish it.

        Raises:
            VectorsAway: the manifest can't be written now; `on_restored` is called when it can.
        """
        if self._trouble or self._distrusted:
            raise VectorsAway(_NOT_WRITABLE)
        try:
            result = await self._lane.run(change, self._manifest)
        except sqlite3.Error as failed:
            if not self._is_explained(failed):
                raise
            self._wake.set()
            raise VectorsAway(_NOT_WRITABLE) from failed
        self._publish()
        return result

    def _end_rebuild(self) -> None:
        """Every note was taken as new; now the keyword index is made again from what that gave."""
        with closing(ManifestReader(self._manifest_path)) as reader:
            self._live.rebuild_keywords(reader)
        self._note_version()

    def _tidy(self) -> None:
        if self.phase is Phase.READY:
            self._manifest.forget_former()
        self._live.snapshot_if_due()
        self._manifest.checkpoint()

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self._on_progress(self.progress)

    def _publish(self) -> None:
        """Tell the waiters; the batch is visible already."""
        if self.generation != self._manifest.generation:
            self.generation = self._manifest.generation
            self._changed.set()
            self._changed = asyncio.Event()
        self._on_progress(self.progress)
