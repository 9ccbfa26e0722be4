"""The state of a corpus, gathered from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.index.indexer import Indexer
from sidecar.index.live import LiveIndex
from sidecar.index.look import Looker
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.manifest_rows import Counts
from sidecar.index.meaning import Meaning
from sidecar.index.progress import Phase
from sidecar.index.wire import Backend
from sidecar.vault.paths import printable
from sidecar.vault.watch import Watcher


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a corpus for people and programs."""

    phase: Phase
    generation: int
    settled: bool
    done: int
    total: int
    names: int
    counts: Counts
    skipped: Sequence[tuple[str, str]]
    watching: str
    vectors: str
    """State of the vector index, with the reason if it is not ready."""
    embedder: str | None
    backend: Backend | None
    """None while search by meaning is switched off."""
    problem: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """What the manifest says of a corpus. `aside`: paths of notes with a passage that the embedder can't take."""

    counts: Counts
    skipped: Sequence[tuple[str, str]]
    aside: Sequence[str]


UNCOUNTED: Final = Counted(Counts(0, 0, 0, 0, 0), (), ())
"""While the manifest can't be read."""


def counted(reader: ManifestReader) -> Counted:
    """As of now. Blocks."""
    return Counted(reader.counts(), reader.skipped(), reader.aside())


class StatusOf:
    """The state of the parts of one corpus. They belong to the loop: in a thread, what is read would change meanwhile.

    Made before anything is counted, so that who waits for the next generation misses nothing.
    """

    def __init__(
        self, indexer: Indexer, looker: Looker, live: LiveIndex, watcher: Watcher, meaning: Meaning | None
    ) -> None:
        self._indexer, self._looker, self._live = indexer, looker, live
        self._watcher, self._meaning = watcher, meaning
        self._progress, self._generation, self._settled = indexer.progress, indexer.generation, indexer.settled

    def with_counts(self, found: Counted) -> Status:
        """The whole."""
        watcher, meaning = self._watcher, self._meaning
        return Status(
            phase=self._progress.phase,
            generation=self._generation,
            settled=self._settled,
            done=self._progress.done,
            total=self._progress.total,
            names=len(self._live.names),
            counts=found.counts,
            skipped=found.skipped,
            watching=watcher.mode if watcher.reason is None else f"{watcher.mode}: {watcher.reason}",
            vectors=meaning.in_words if meaning else "off",
            embedder=meaning.vectors.embedder_id if meaning else None,
            backend=meaning.backend if meaning else None,
            problem=self._indexer.problem or self._looker.problem or _aside_in_words(found.aside),
        )


def _aside_in_words(paths: Sequence[str]) -> str | None:
    if not paths:
        return None
    passages = "a passage" if len(paths) == 1 else f"{len(paths)} passages, one of them"
    return (
        f"The embedder ends its process at {passages} of {printable(paths[0])}."
        " What it can't take is found by its words only."
    )
