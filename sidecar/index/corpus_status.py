"""The state of a corpus, gathered from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def status_of(
    indexer: Indexer,
    looker: Looker,
    live: LiveIndex,
    watcher: Watcher,
    meaning: Meaning | None,
    reader: ManifestReader | None,
) -> Status:
    """Counts, phase and problems now. Without a reader (the manifest can't be read) nothing is counted. Blocks."""
    progress = indexer.progress
    return Status(
        phase=progress.phase,
        generation=indexer.generation,
        settled=indexer.settled,
        done=progress.done,
        total=progress.total,
        names=len(live.names),
        counts=reader.counts() if reader else Counts(0, 0, 0, 0, 0),
        skipped=reader.skipped() if reader else (),
        watching=watcher.mode if watcher.reason is None else f"{watcher.mode}: {watcher.reason}",
        vectors=meaning.in_words if meaning else "off",
        embedder=meaning.vectors.embedder_id if meaning else None,
        backend=meaning.backend if meaning else None,
        problem=indexer.problem or looker.problem or _aside_in_words(reader.aside() if reader else ()),
    )


def _aside_in_words(paths: Sequence[str]) -> str | None:
    if not paths:
        return None
    passages = "a passage" if len(paths) == 1 else f"{len(paths)} passages, one of them"
    return (
        f"The embedder ends its process at {passages} of {printable(paths[0])}."
        " What it can't take is found by its words only."
    )
