"""The part of indexing that can wait: many paths, read and prepared a few batches ahead of being stored."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sidecar.index.batch import Batch
from sidecar.index.look import Findings, Looker
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.prepare import Lot, Prepared
from sidecar.index.profile import Preparing
from sidecar.tasks import Lane

_NOTES = 48
"""Paths in a batch: storing them takes some 20 ms, the longest a save waits for its turn."""

_AHEAD = 6
"""Batches under way at once: enough for every process to find work, few enough to be forgotten without regret."""


_ENOUGH_BYTES = 32 << 20
"""Of the files of one batch; the rest waits for another. There are large documents, and all that is read is held."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A batch that may be stored, and how many paths it answers."""

    batch: Batch
    paths: int


class Backfill:
    """Paths that wait, in order. Reads them in a lane of its own, so that a slow disk holds up nothing else."""

    def __init__(self, looker: Looker, preparers: Preparing, reader: ManifestReader) -> None:
        self._looker = looker
        self._preparers = preparers
        self._reader = reader
        self._lane = Lane("backfill")
        self._waiting: dict[str, None] = {}
        self._again = False
        self._ahead: deque[asyncio.Task[Ready]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Something waits or is under way."""
        return bool(self._waiting or self._ahead)

    def add(self, paths: Iterable[str], *, again: bool = False) -> None:
        """Queue paths behind what waits. `again`: take unchanged bytes as new."""
        self._again = again or (self._again and self.busy)
        self._waiting.update(dict.fromkeys(paths))
        # what is under way counts: to say that nothing is left would end the processes it is prepared in
        self._preparers.expect(len(self._waiting) + len(self._ahead) * _NOTES)

    def first(self) -> asyncio.Task[Ready]:
        """The batch that is to be stored next; further ones are begun. Call it when `busy`."""
        while self._waiting and len(self._ahead) < _AHEAD:
            paths = [path for path, _ in zip(self._waiting, range(_NOTES), strict=False)]
            for path in paths:
                del self._waiting[path]
            self._ahead.append(asyncio.create_task(self._prepared(paths, self._again)))
        return self._ahead[0]

    def take(self) -> Ready:
        """Remove the first batch, which is done.

        Raises:
            VaultAway: the vault itself is gone.
        """
        ready = self._ahead.popleft().result()
        if not self.busy:
            self._preparers.expect(0)
        return ready

    async def _prepared(self, paths: list[str], again: bool) -> Ready:
        findings = await self._lane.run(self._looker.look, paths, self._reader, again=again, enough_bytes=_ENOUGH_BYTES)
        self._waiting = {**dict.fromkeys(findings.left), **self._waiting}
        prepared = await self._preparers.prepare(findings.reads)
        return Ready(to_batch(findings, prepared), len(paths) - len(findings.left))

    async def forget(self) -> None:
        """Drop what waits; what is under way comes to nothing."""
        self._waiting.clear()
        for task in self._ahead:
            task.cancel()
        await asyncio.gather(*self._ahead, return_exceptions=True)
        self._ahead.clear()
        self._preparers.expect(0)

    async def close(self) -> None:
        """Forget everything, and let go of the reader."""
        await self.forget()
        await self._lane.run(self._reader.close)
        await self._lane.close()


def to_batch(findings: Findings, prepared: Lot) -> Batch:
    """What was found and prepared, as changes."""
    puts: list[Prepared] = []
    skips = list(findings.skips)
    for result in prepared.results:
        if isinstance(result, Prepared):
            puts.append(result)
        else:
            skips.append(result)
    return Batch(puts, findings.touched, skips, findings.gone, prepared.words)


def without_overtaken(batch: Batch, looker: Looker) -> tuple[Batch, list[str]]:
    """The changes that are still so, and the paths of the others.

    A save may have been stored since this batch was read; what is older must
    not be laid over it. Blocks: one stat a path.
    """
    puts = [put for put in batch.puts if looker.is_still(put.note.path.text, put.stat)]
    skips = [skip for skip in batch.skips if looker.is_still(skip.path, skip.stat)]
    gone = [path for path in batch.gone if not looker.is_there(path)]
    kept = {put.note.path.text for put in puts} | {skip.path for skip in skips} | set(gone)
    offered = [*(put.note.path.text for put in batch.puts), *(skip.path for skip in batch.skips), *batch.gone]
    return replace(batch, puts=puts, skips=skips, gone=gone), [path for path in offered if path not in kept]
