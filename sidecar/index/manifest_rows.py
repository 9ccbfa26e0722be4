"""What the manifest is asked for, as rows."""

from __future__ import annotations

from typing import NamedTuple


class ChunkRow(NamedTuple):
    """A chunk joined with its note, as a search needs it."""

    chunk_id: int
    path: str
    note_id: str
    title: str
    ordinal: int
    line: int
    breadcrumb: str
    text: str
    language: str


class NoteRow(NamedTuple):
    """What is known of a note as a whole. `tags` and `links` are JSON, times RFC 3339; `ingested_at` is in seconds."""

    path: str
    note_id: str
    title: str
    tags: str
    source: str | None
    created: str | None
    updated: str | None
    checksum: str
    ingested_at: int
    links: str


class ToEmbed(NamedTuple):
    """A chunk that wants to be in the vector store; `vector` (float16 bytes) is that of its text, if it is cached."""

    chunk_id: int
    text_hash: bytes
    text: str
    vector: bytes | None


class Counts(NamedTuple):
    """How far the index is, in rows. A note is reachable by meaning once its first chunk is ready."""

    notes: int
    skipped: int
    chunks: int
    chunks_ready: int
    notes_ready: int
