"""The single writer of a corpus: takes paths to look at, stores what is found, one batch at a time.

Saves go ahead of backfill. A scan is a list of paths to look at, never a list
of changes, so one that ran while files moved can't do harm.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from sidecar.errors import Unreadable, VaultAway, VectorsAway
from sidecar.index.backfill import Backfill, to_batch
from sidecar.index.batch import Applied, Batch
from sidecar.index.growing import Growing
from sidecar.index.health import Health
from sidecar.index.holdings import Holdings
from sidecar.index.look import Expansion, Looker
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.orders import Orders
from sidecar.index.profile import Preparing
from sidecar.index.progress import Phase, Progress
from sidecar.tasks import Lane

logger = logging.getLogger(__name__)

T = TypeVar("T")

SCAN_EVERY_S = 300.0
"""Events are lossy on every platform; a scan of unchanged files costs a stat each."""

_LARGEST_EVENT = 1000
_LARGEST_EVENT_BYTES = 128 << 20
"""Up to so many files, and bytes of theirs, of one event batch change at one moment: they are all in memory then. More
are fed in as backfill."""

_AWAY_S = 3.0
"""How often a vanished vault is looked for."""

_NOT_WRITABLE = "The index can't be written now."

OnChunks = Callable[[Applied, bool], None]
"""Called on the loop with what a batch did, and whether it was a save, which goes ahead of backfill."""


class Indexer:
    """Owns the lane in which a corpus is changed. `run` is its one task; everything else only queues."""

    def __init__(
        self,
        looker: Looker,
        holdings: Holdings,
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
        self._holdings = holdings
        self._preparers = preparers
        self._on_progress = on_progress
        self._on_chunks = on_chunks
        self._on_restored = on_restored
        self._lane = Lane("index")
        self._reader = reader
        self._backfill = backfill
        self._orders = Orders()
        self._health = Health()
        self._is_loaded = False
        self._is_resting = False
        self._generation = Growing(holdings.generation)
        self._looked = Growing()
        self._done = 0
        self._total = 0
        self._left_alone = 0
        """Known notes that the last scan did not have looked at."""
        self.phase = Phase.OPENING
        self.problem: str | None = holdings.problem
        self.named = asyncio.Event()
        """Set once the names of all notes are known."""
        self.searchable = asyncio.Event()
        """Set while some notes are found by their words, or there is none."""

    # queueing, on the loop

    def changed(self, paths: Iterable[str]) -> None:
        """These files or folders may have changed; `""` means anything may have."""
        self._orders.changed(paths)

    def look_at(self, path: str) -> int:
        """A file was changed by ourselves. The number is one to wait for with `wait_until_looked`."""
        return self._orders.look_at(path)

    def scan(self, *, again: bool = False) -> None:
        """Compare the whole vault with the index soon.

        `again`: take every note as new, then remake the caches; believe the vault, too, if it is empty.
        """
        self._orders.scan(again=again)

    def distrust(self, reason: str) -> None:
        """The manifest was found to be no good: set it aside and make the index again, soon.

        `reason` is the end of a sentence that begins with "the manifest".
        """
        self._health.distrust(reason)
        self._orders.given.set()

    @property
    def is_distrusted(self) -> bool:
        """The manifest is about to be made again; nothing it says counts."""
        return self._health.distrusted is not None

    @property
    def settled(self) -> bool:
        """Nothing is queued and nothing runs."""
        waits = self._orders.has_paths or self._orders.is_scan_due or self._backfill.busy or not self._health.is_good
        return self.phase is Phase.READY and self._is_resting and not waits

    @property
    def progress(self) -> Progress:
        """How far the present phase is, in notes; both numbers are all of them once it is ready."""
        if self.phase is Phase.INDEXING:
            return Progress(self.phase, self._left_alone + self._done, self._left_alone + self._total)
        known = len(self._holdings.names)
        return Progress(self.phase, known if self.phase is Phase.READY else 0, known)

    @property
    def is_filling(self) -> bool:
        """Notes that were not saved just now wait to be found by their words."""
        return self.phase is not Phase.READY

    @property
    def generation(self) -> int:
        """State number of the index, as of the last batch that was told of."""
        return self._generation.value

    async def wait_beyond(self, generation: int) -> int:
        """The generation once it is greater than the given one."""
        return await self._generation.at_least(generation + 1)

    async def wait_until_looked(self, asked: int) -> None:
        """Wait until the file that `look_at` gave this number for has been looked at, and stored if it was new."""
        await self._looked.at_least(asked)

    # the one task

    async def run(self) -> None:
        """Work until cancelled. Run again after a failure, it reads its caches anew and scans."""
        try:
            await self._coping(self._begin)
            while True:
                await self._coping(self._step)
        except Exception:
            self.problem = "Indexing failed and begins again; the log holds the details."
            self._orders.scan_after_failure()  # the paths of the failed batch are found again
            raise

    async def _begin(self) -> None:
        self._is_loaded = False
        self._orders.with_next_scan(await self._lane.run(self._holdings.load))
        self._is_loaded = True
        self.problem = self._holdings.problem
        self._publish()

    async def _coping(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do a piece of work; what can go wrong with the vault, the manifest or the disk is met here."""
        try:
            await work()
        except (sqlite3.Error, OSError, Unreadable) as failed:
            if isinstance(failed, VaultAway) or (isinstance(failed, Unreadable) and not self.is_distrusted):
                await self._wait_for_vault(failed)
            elif not self._is_explained(failed):
                raise

    async def _wait_for_vault(self, away: Unreadable) -> None:
        """Nothing that was found can be relied on. What was not stored is found by the scan that follows."""
        self._set_phase(Phase.AWAY)
        if self.problem != str(away):  # it may be away for days
            self.problem = str(away)
            told = "%s The index%s is kept, and the folder is looked for every %.0f s"
            logger.warning(told, away, self._looker.whose, _AWAY_S)
        await self._backfill.forget()
        await asyncio.sleep(_AWAY_S)
        self._orders.scan_after_failure()

    def _is_explained(self, failed: Exception) -> bool:
        """Whether it is the fault of the manifest or of the disk; then `_step` does something about it."""
        explained = self._health.explains(failed)
        self.problem = self._health.problem or self.problem
        return explained

    async def close(self) -> None:
        """Wait for the batch that runs, then close what `run` used."""
        await self._backfill.close()
        await self._preparers.close()
        await self._lane.run(self._holdings.close)
        await self._lane.run(self._reader.close)
        await self._lane.close()

    async def _step(self) -> None:
        """One piece of work, or a wait for some. A save never waits for more than one batch."""
        if self._health.trouble:
            await self._wait_for_room()
        elif self._health.distrusted:
            await self._begin_again(self._health.distrusted)
        elif self._orders.is_scan_due:
            await self._scan()
        elif self._orders.has_paths:
            paths, asked = self._orders.take_paths()
            try:
                await self._save(paths)
            finally:
                self._looked.reach(asked)
        elif self._backfill.busy:
            await self._fill()
        else:
            await self._rest()

    async def _wait_for_room(self) -> None:
        """Wait, then try the disk. What was not stored meanwhile is found by the scan that follows."""
        await self._backfill.forget()
        await asyncio.sleep(self._health.next_wait_s())
        await self._lane.run(self._holdings.try_disk, writes=not self.is_distrusted)
        self._health.disk_is_back()
        if not (self._is_loaded or self.is_distrusted):
            await self._begin()
        self._orders.scan_after_failure()
        self.problem = self._holdings.problem
        logger.info("the disk can be written again; indexing goes on")
        self._on_restored()

    async def _begin_again(self, reason: str) -> None:
        """Set the manifest aside and fill a new one. Nothing that was queued or known of chunks holds any more."""
        await self._backfill.forget()
        _, asked = self._orders.take_paths()
        self._looked.reach(asked)
        self.named.clear()
        self._set_phase(Phase.SCANNING)
        wanted = await self._lane.run(self._holdings.begin_again, reason)
        self._health.distrusted, self._is_loaded = None, True
        self._orders.with_next_scan(wanted)
        self._orders.scan()
        self.problem = self._holdings.problem
        self._publish()
        self._on_restored()

    async def _scan(self) -> None:
        if not await self._lane.run(lambda: self._holdings.is_in_place):
            self.distrust("is gone")
            return
        scan = self._orders.take_scan()
        if self.phase not in (Phase.READY, Phase.AWAY):  # a vault that is away stays so until it was seen
            self._set_phase(Phase.SCANNING)
        survey = await self._lane.run(self._holdings.survey, scan)
        if self.phase is Phase.READY and not scan.again and len(survey.to_look_at) <= _LARGEST_EVENT:
            self._orders.changed(survey.to_look_at)  # no more than an event could have named
        else:
            self._backfill.add(survey.to_look_at, again=scan.again)
            self._done, self._total = 0, len(self._backfill)
            self._left_alone = max(0, len(self._holdings.names) - self._total)
            if self._backfill.busy:
                self._set_phase(Phase.INDEXING)
        self.named.set()
        self._publish()

    async def _save(self, paths: list[str]) -> None:
        """What events named becomes searchable, at one moment."""
        expansion = await self._lane.run(self._looker.expand, paths, self._reader)
        self._orders.look_twice(paths, expansion.folders)
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
        self._stored(await self._lane.run(self._holdings.store, to_batch(findings, prepared)), is_save=True)

    async def _put_off(self, expansion: Expansion) -> None:
        """Have so much looked at as backfill."""
        self._stored(await self._lane.run(self._holdings.store, Batch(skips=expansion.skips)), is_save=True)
        self._backfill.add(await self._lane.run(self._looker.in_order, expansion.paths, self._reader))
        self._total = self._done + len(self._backfill)
        self._set_phase(Phase.INDEXING)

    async def _fill(self) -> None:
        """Store the next batch of backfill, unless a save comes first."""
        self._orders.given.clear()
        first = self._backfill.first()
        waking = asyncio.create_task(self._orders.given.wait())
        try:
            await asyncio.wait((first, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
        if not first.done():
            return
        ready = self._backfill.take()
        applied, overtaken = await self._lane.run(self._holdings.store_if_still_so, ready.batch)
        self._done += ready.paths
        self._stored(applied, is_save=False)
        if overtaken:
            self.changed(overtaken)

    async def _rest(self) -> None:
        self._orders.given.clear()  # before any await: what comes in from now on ends the rest
        if self._orders.is_rebuilding:
            await self._lane.run(self._holdings.end_rebuild)
            self._orders.is_rebuilding = False
        if self.phase is not Phase.READY and self.named.is_set():  # before the first scan nothing is known
            self.problem = self._holdings.problem
            self._set_phase(Phase.READY)
        self._is_resting = True
        try:
            await self._lane.run(self._holdings.tidy, is_complete=self.phase is Phase.READY)
            await self._until_given()
        finally:
            self._is_resting = False

    async def _until_given(self) -> None:
        """Wait for an order; when none has come for long, a scan is one."""
        try:
            async with asyncio.timeout(SCAN_EVERY_S):
                await self._orders.given.wait()
        except TimeoutError:
            self._orders.scan()

    def _stored(self, applied: Applied | None, *, is_save: bool) -> None:
        if applied is not None:
            self._on_chunks(applied, is_save)
        self._publish()

    async def write(self, change: Callable[[Manifest], T]) -> T:
        """Run a change of the manifest in the lane where all of them run, and publish it.

        Raises:
            VectorsAway: the manifest can't be written now; `on_restored` is called when it can.
        """
        if not self._health.is_good:
            raise VectorsAway(_NOT_WRITABLE)
        try:
            result = await self._lane.run(self._holdings.change, change)
        except sqlite3.Error as failed:
            if not self._is_explained(failed):
                raise
            self._orders.given.set()
            raise VectorsAway(_NOT_WRITABLE) from failed
        self._publish()
        return result

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self._tell()

    def _publish(self) -> None:
        """Tell the waiters; the batch is visible already."""
        self._generation.reach(self._holdings.generation)
        self._tell()

    def _tell(self) -> None:
        if self.phase is Phase.READY or (self._holdings.is_searchable and not self.is_distrusted):
            self.searchable.set()
        else:
            self.searchable.clear()
        self._on_progress(self.progress)
