"""Changes of the index that become visible together, and what they did to the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.index.counted import NO_WORDS, Counted
from sidecar.index.prepare import Piece, Prepared, Skip
from sidecar.vault.jail import FileStat


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that become visible together."""

    puts: Sequence[Prepared] = ()
    touched: Sequence[tuple[str, FileStat]] = ()
    """Notes whose bytes are the same but whose times changed."""
    skips: Sequence[Skip] = ()
    gone: Sequence[str] = ()
    """Paths that are no longer there, as notes or as skipped files."""
    words: Counted = NO_WORDS
    """Of the pieces of `puts`, and perhaps of others."""

    def __bool__(self) -> bool:
        return bool(self.puts or self.touched or self.skips or self.gone)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did to the chunks, for the caches."""

    generation: int
    removed_chunks: Sequence[int]
    added_chunks: Sequence[tuple[int, Piece]]
    removed_notes: Sequence[int]
    put_notes: Sequence[tuple[int, Prepared]]
