"""Ranked search: the best chunks, the best chunk of each note, a snippet around the words that hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sidecar.index.live import LiveIndex
from sidecar.index.manifest_reader import ChunkRow, ManifestReader
from sidecar.index.snippets import snippet

Mode = Literal["hybrid", "vector", "keyword"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A note, by its best chunk. `score` is comparable within one answer only; `line` counts from 1 in the file."""

    path: str
    note_id: str
    title: str
    line: int
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Ranked notes, best first, and the mode that found them."""

    mode: Mode
    hits: Sequence[Hit]


def depth_for(k: int) -> int:
    """Chunks a leg looks at, so that k notes remain when each counts once (design: at least 100, ten for each)."""
    return max(100, 10 * k)


def keyword_answer(live: LiveIndex, reader: ManifestReader, query: str, k: int) -> Answer:
    """The `k` best notes for the query's words. Blocks."""
    words = live.words(query)
    found = live.search_keywords(reader, words, depth_for(k), k)
    return Answer("keyword", [_hit(live, row, score, words) for row, score in found])


def _hit(live: LiveIndex, row: ChunkRow, score: float, words: dict[str, float]) -> Hit:
    text = row.text or row.breadcrumb
    return Hit(row.path, row.note_id, row.title, row.line, snippet(text, live.spans(text, words, row.language)), score)
