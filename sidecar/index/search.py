"""Ranked search: both legs joined, one row a note or a few, a snippet around the words that hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sidecar.index.embed.facts import EmbedderFacts
from sidecar.index.fuse import Method, fuse
from sidecar.index.live import LiveIndex
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.manifest_rows import ChunkRow
from sidecar.index.snippets import snippet
from sidecar.index.titles import HIGHEST, called_first
from sidecar.index.trust import trusted
from sidecar.index.wire import Int64

Mode = Literal["hybrid", "vector", "keyword"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A note by one of its chunks. `score` is comparable within one answer only; `line` counts from 1 in the file."""

    path: str
    note_id: str
    title: str
    line: int
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, and the mode that served them; `keyword` for `hybrid` says that vectors were away."""

    mode: Mode
    hits: Sequence[Hit]


@dataclass(frozen=True, slots=True)
class KeywordLeg:
    """What the keyword index found: (chunk id, BM25 score), best first; by which words; among which chunks."""

    hits: Sequence[tuple[int, float]]
    words: dict[str, float]
    among: Int64 | None


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """What the vector index found: (chunk id, cosine), best first, and what is known of its embedder."""

    hits: Sequence[tuple[int, float]]
    facts: EmbedderFacts


def depth_for(k: int) -> int:
    """Chunks a leg looks at, so that k notes remain when each counts once (design: at least 100, ten for each)."""
    return max(100, 10 * k)


def keyword_leg(live: LiveIndex, query: str, k: int, among: Int64 | None = None) -> KeywordLeg:
    """The half of an answer that needs no vectors, so that both are made at the same time. Blocks."""
    words = live.words(query)
    return KeywordLeg(live.rank(words, depth_for(k), among), words, among)


def answer_of(
    live: LiveIndex,
    reader: ManifestReader,
    query: str,
    k: int,
    *,
    keywords: KeywordLeg,
    vectors: VectorLeg | None,
    mode: Mode,
    method: Method = "weighted",
    per_note: int = 1,
    relevant_only: bool = False,
) -> Answer:
    """The `k` best rows, at most `per_note` of one note. Blocks.

    `relevant_only` leaves out chunks that no word hits and whose cosine lies below the embedder's relevance floor.
    """
    near = list(vectors.hits) if vectors is not None and mode != "keyword" else []
    keyword, notes = _with_notes(live, reader, keywords, k, [chunk_id for chunk_id, _ in near])
    near = [hit for hit in near if hit[0] in notes]
    if vectors is None or mode == "keyword":
        ranked = [(chunk_id, score) for chunk_id, score in keyword]
        served: Mode = "keyword"
        if relevant_only and ranked:
            ranked = [(chunk_id, score / ranked[0][1]) for chunk_id, score in ranked]
    else:
        hit_by_word = {chunk_id for chunk_id, _ in keyword}
        if relevant_only:
            floor = vectors.facts.relevance_floor
            near = [(chunk_id, cosine) for chunk_id, cosine in near if cosine >= floor or chunk_id in hit_by_word]
        facts = vectors.facts
        weight = facts.weight_for(query)
        if keyword and weight < 1:
            for best in reader.chunk_rows([keyword[0][0]]).values():
                weight = trusted(weight, live.coverage(query, best))
        ranked = near if mode == "vector" else fuse(keyword, near, weight, method, floor=facts.relevance_floor)
        served = mode
    if per_note == 1 and served != "vector":  # rows are notes, and words count
        ranked, is_called = called_first(reader, query, ranked, notes)
        if is_called and served == "hybrid":
            ranked = [(chunk_id, score / HIGHEST) for chunk_id, score in ranked]
    # where no words were asked for, none are marked
    words = keywords.words if mode != "vector" else {}
    chosen = _best_rows(reader, _first_of_each(ranked, notes, per_note), k)
    return Answer(served, [_hit(row, score, live.spans(_shown(row), words, row.language)) for row, score in chosen])


def nearest_notes(reader: ManifestReader, near: Sequence[tuple[int, float]], k: int) -> Sequence[Hit]:
    """The `k` best notes of chunks that were found by their vectors, as (chunk id, cosine), best first. Blocks."""
    notes = reader.notes_of([chunk_id for chunk_id, _ in near])
    known = [hit for hit in near if hit[0] in notes]
    return [_hit(row, score, ()) for row, score in _best_rows(reader, _first_of_each(known, notes, 1), k)]


def _best_rows(reader: ManifestReader, ranked: Sequence[tuple[int, float]], k: int) -> Sequence[tuple[ChunkRow, float]]:
    """The first `k`, equal scores by note id and by place in the note. What is gone by now is left out."""
    last = ranked[k - 1][1] if len(ranked) > k else float("-inf")
    rows = reader.chunk_rows([chunk_id for chunk_id, score in ranked if score >= last])
    found = [(rows[chunk_id], score) for chunk_id, score in ranked if chunk_id in rows]
    found.sort(key=lambda one: (-one[1], one[0].note_id, one[0].ordinal))
    return found[:k]


def _with_notes(
    live: LiveIndex, reader: ManifestReader, leg: KeywordLeg, k: int, also: Sequence[int]
) -> tuple[Sequence[tuple[int, float]], dict[int, int]]:
    """The keyword hits and the note of each chunk. A chunk without a note is gone and must not be shown.

    Where one of the hits is gone by now, its note may have other chunks, so the leg is made again.
    """
    notes = reader.notes_of([*(chunk_id for chunk_id, _ in leg.hits), *also])
    if all(chunk_id in notes for chunk_id, _ in leg.hits):
        return leg.hits, notes
    return live.rank_with_notes(reader, leg.words, depth_for(k), leg.among, also)


def _first_of_each(
    ranked: Sequence[tuple[int, float]], notes: dict[int, int], per_note: int
) -> list[tuple[int, float]]:
    """The first `per_note` chunks of every note, order kept. A note is as good as its best chunk (see `ranking`)."""
    seen: dict[int, int] = {}
    kept: list[tuple[int, float]] = []
    for chunk_id, score in ranked:
        note = notes[chunk_id]
        seen[note] = seen.get(note, 0) + 1
        if seen[note] <= per_note:
            kept.append((chunk_id, score))
    return kept


def _shown(row: ChunkRow) -> str:
    """What of a chunk is shown: its text; of a note without any, its title."""
    return row.text or row.breadcrumb


def _hit(row: ChunkRow, score: float, spans: Sequence[tuple[int, int]]) -> Hit:
    return Hit(row.path, row.note_id, row.title, row.line, snippet(_shown(row), spans), score)
