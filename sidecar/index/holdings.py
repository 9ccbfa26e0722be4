"""What one corpus holds: the manifest, and the indexes in memory that are kept in step with it.

Everything blocks. All changes run in one lane, the indexer's, so that none of
them meets another half done.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from sidecar.index.backfill import without_overtaken
from sidecar.index.batch import Applied, Batch
from sidecar.index.live import LiveIndex
from sidecar.index.look import Looker, Survey
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.native_memory import give_back
from sidecar.index.orders import Scan

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MANY: Final = 20  # batches; after so many, 17 of 270 MB were found to be free but kept

_ROOM_BYTES: Final = 32 << 20
"""So much must be free before the disk is tried: SQLite's log may grow that long."""


class Holdings:
    """`load` comes first, and again after a failure."""

    def __init__(self, manifest: Manifest, manifest_path: Path, live: LiveIndex, looker: Looker) -> None:
        """Nothing is read yet. `looker` tells what the vault is now; what is held is held against that."""
        self._manifest = manifest
        self._path = manifest_path
        self._live = live
        self._looker = looker
        self._stored = _MANY
        """Batches since memory was given back. What is loaded at the start counts as many."""

    # read on the loop: none of these blocks

    @property
    def generation(self) -> int:
        """State number of the index; grows with each batch."""
        return self._manifest.generation

    @property
    def problem(self) -> str | None:
        """What was wrong with what was found, if anything was."""
        return self._manifest.problem or self._live.problem

    @property
    def names(self) -> Sequence[str]:
        """Paths of all known notes by code point order."""
        return self._live.names

    @property
    def is_searchable(self) -> bool:
        """Something can be found by its words."""
        return self._live.keyword_chunks > 0

    # in the lane

    @property
    def is_in_place(self) -> bool:
        """Whether the manifest's file is the one that is written to."""
        return self._manifest.is_in_place

    def load(self) -> Scan:
        """Read the caches; what the next scan has to do because of what was found."""
        with closing(ManifestReader(self._path)) as reader:
            self._live.load(reader, self._manifest)
        wanted = Scan()
        if not self._manifest.serves(self._looker.root):
            logger.warning("the index was made for another folder; every note is compared with it")
            wanted = Scan(again=True, may_be_empty=True)
        if self._manifest.meta("prepared") != self._looker.version:
            if self.generation:  # notes are read or cut in another way now
                wanted = wanted.and_(Scan(again=True))
            else:
                self._note_version()
        return wanted

    def _note_version(self) -> None:
        """Every note in the index is read and cut in the present way. Not to be said before it is so: whoever ends
        in the middle of a rebuild begins it again."""
        if self._manifest.meta("prepared") != self._looker.version:
            self._manifest.set_meta("prepared", self._looker.version)

    def begin_again(self, reason: str) -> Scan:
        """Set the manifest aside, begin another one, and `load` it.

        Raises:
            Unreadable: the disk doesn't let it be done.
        """
        self._manifest.begin_again(reason)
        self._live.begin_again()
        return self.load()

    def try_disk(self, *, writes: bool) -> None:
        """Find out whether the disk takes something again. `writes`: whether the manifest may be written.

        Raises:
            OSError, sqlite3.Error: it does not.
        """
        if shutil.disk_usage(self._path.parent).free < _ROOM_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if writes:
            self._manifest.set_meta("tried", int(time.time()))

    def survey(self, scan: Scan) -> Survey:
        """Compare the whole vault, list its names, and store what can't be read.

        Raises:
            VaultAway: the vault itself is gone.
        """
        with closing(ManifestReader(self._path)) as reader:
            survey = self._looker.survey(reader, everything=scan.again, may_be_empty=scan.may_be_empty)
            known = dict(reader.skipped())
            self._live.use_names([*survey.names, *reader.paths()], complete=survey.complete)
        news = [skip for skip in survey.skips if known.get(skip.path) != skip.reason]
        for skip in news:
            logger.warning("skipped %s%s: %s", skip.path, self._looker.whose, skip.reason)
        self.store(Batch(skips=news, gone=[skip.path for skip in news]))
        return survey

    def store(self, batch: Batch) -> Applied | None:
        """Make a batch durable and visible; None if there is nothing in it."""
        self._stored += 1
        return self._live.apply(self._manifest, batch) if batch else None

    def store_if_still_so(self, batch: Batch) -> tuple[Applied | None, list[str]]:
        """`store` what of a batch is still so; and the paths of what is not."""
        still, overtaken = without_overtaken(batch, self._looker)
        return self.store(still), overtaken

    def end_rebuild(self) -> None:
        """Every note was taken as new; now the keyword index is made again from what that gave."""
        with closing(ManifestReader(self._path)) as reader:
            self._live.rebuild_keywords(reader)
        self._note_version()

    def change(self, change: Callable[[Manifest], T]) -> T:
        """Another change of the manifest."""
        return change(self._manifest)

    def tidy(self, *, is_complete: bool) -> None:
        """When there is time. `is_complete`: every note is indexed."""
        if is_complete:
            self._manifest.forget_former()
        self._live.snapshot_if_due()
        self._manifest.checkpoint()
        if self._stored >= _MANY:  # not after every save: it takes 3 ms
            self._stored = 0
            give_back()

    def close(self) -> None:
        """Let go of the caches' files. The manifest is its opener's."""
        self._live.close()
