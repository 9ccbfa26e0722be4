"""Search for a text as it stands: which notes hold it, and their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.index.literal import excerpts
from sidecar.index.live import LiveIndex
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.progress import Progress


@dataclass(frozen=True, slots=True)
class TextHit:
    """A note that holds a text: the first matching lines as (number from 1, excerpt)."""

    path: str
    lines: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Result of a plain-text search."""

    total: int
    hits: Sequence[TextHit]
    left_out: int
    """Notes that are too large or unreadable and so were not searched."""
    progress: Progress | None
    """Set while the index is being built, when not all notes were searched."""


def search_text(
    live: LiveIndex, reader: ManifestReader, query: str, limit: int, progress: Progress | None
) -> TextAnswer:
    """The first `limit` notes with their lines. Blocks."""
    found = live.search_texts(query)
    hits: list[TextHit] = []
    for match in found[:limit]:
        text = reader.text(match.note_key) if match.lines else None
        hits.append(TextHit(match.path, list(excerpts(text, query)) if text else []))
    return TextAnswer(len(found), hits, reader.left_out(), progress)
