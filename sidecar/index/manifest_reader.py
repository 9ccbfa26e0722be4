"""Read-only views of the manifest, one connection each. They block: call them in a lane.

A damaged manifest is set aside and another one begun while views are open, so
each call looks whether the file at the path is still the one it reads.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sidecar.index.chunks import Chunk
from sidecar.index.connection import connect, identity_of
from sidecar.index.manifest_rows import ChunkRow, Counts, NoteRow, ToEmbed
from sidecar.index.prepare import unpack
from sidecar.index.wire import Float16, Int64
from sidecar.vault.jail import FileStat

_NOTE = "SELECT path, note_id, title, tags, source, created, updated, checksum, ingested_at, links FROM notes"


class ManifestReader:
    """A read-only view on a connection of its own, for one lane."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)

    @property
    def _db(self) -> sqlite3.Connection:
        """A connection to what is at the path now."""
        now = identity_of(self._path)
        if self._connection is None or now not in (None, self._identity):
            self.close()
            self._connection = connect(self._path, mode="rw")  # never makes a file: an empty one would be believed
            self._connection.execute("PRAGMA query_only = ON")
            self._identity = now or (0, 0)
        return self._connection

    @contextmanager
    def moment(self) -> Generator[None]:
        """What is read inside is all as of one moment, that of the first reading or of the first after `anew`: a note
        that is stored anew in between would else be found and then be gone."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._end_moment()

    def anew(self) -> None:
        """Within a moment: what is read from now on is of another one."""
        if self._connection is not None and self._connection.in_transaction:
            self._end_moment()
            self._db.execute("BEGIN")

    def _end_moment(self) -> None:
        if self._connection is not None:
            try:
                self._connection.rollback()
            except sqlite3.Error:  # of a file that is damaged; in this connection no other moment could begin
                self.close()

    def seen(self) -> dict[str, FileStat]:
        """Every path the index has an opinion on, with the file state that opinion is of. Skipped ones included."""
        found = {
            path: FileStat(*stat)
            for path, *stat in self._db.execute("SELECT path, mtime_ns, size, ctime_ns, inode FROM skipped")
        }
        for path, *stat in self._db.execute("SELECT path, mtime_ns, size, ctime_ns, inode FROM notes"):
            found[path] = FileStat(*stat)
        return found

    def checksum(self, path: str) -> str | None:
        """Checksum of the indexed bytes of a note, None when it is not indexed."""
        row = self._db.execute("SELECT checksum FROM notes WHERE path = ?", (path,)).fetchone()
        return row[0] if row else None

    def is_skipped(self, path: str) -> bool:
        """Whether the path is recorded as left out."""
        return self._db.execute("SELECT 1 FROM skipped WHERE path = ?", (path,)).fetchone() is not None

    def below(self, folder: str) -> list[str]:
        """Known paths under a folder, notes and skipped files."""
        low, high = folder + "/", folder + "0"  # "0" is the character after "/"
        query = (
            "SELECT path FROM notes WHERE path > ? AND path < ?"
            " UNION SELECT path FROM skipped WHERE path > ? AND path < ?"
        )
        return [row[0] for row in self._db.execute(query, (low, high, low, high))]

    def notes_of(self, chunk_ids: Sequence[int]) -> dict[int, int]:
        """Note key of each chunk that exists; unknown ids are left out, so text that was deleted can't come back."""
        return dict(self._selected("SELECT chunk_id, note_key FROM chunks INDEXED BY chunks_with_notes", chunk_ids))

    def paths_of(self, chunk_ids: Sequence[int]) -> dict[int, str]:
        """Path of the note of each chunk that exists."""
        return dict(self._selected("SELECT chunk_id, path FROM chunks JOIN notes USING (note_key)", chunk_ids))

    def chunks_of(self, paths: Collection[str]) -> Int64:
        """Chunk ids of these notes, ascending."""
        query = (
            "SELECT chunk_id FROM chunks JOIN notes USING (note_key)"
            " WHERE path IN (SELECT value FROM json_each(?)) ORDER BY chunk_id"
        )
        return np.array([row[0] for row in self._db.execute(query, (json.dumps(list(paths)),))], np.int64)

    def vectors_of(self, chunk_ids: Int64, embedder: str) -> tuple[Int64, Float16]:
        """Those of the chunks that have a cached vector by that embedder, and the vectors: float16[n, dim]."""
        query = (
            "SELECT chunk_id, vector FROM chunks JOIN vectors USING (text_hash) WHERE embedder = ? AND chunk_id IN ({})"
        )
        ids: list[int] = []
        vectors = bytearray()
        for start in range(0, len(chunk_ids), 500):
            part = chunk_ids[start : start + 500].tolist()
            for chunk_id, vector in self._db.execute(query.format(",".join("?" * len(part))), (embedder, *part)):
                ids.append(chunk_id)
                vectors += vector
        matrix = np.frombuffer(vectors, np.float16)
        return np.array(ids, np.int64), matrix.reshape(len(ids), -1) if ids else matrix.reshape(0, 0)

    def chunk_rows(self, chunk_ids: Sequence[int]) -> dict[int, ChunkRow]:
        """The chunks that exist, by id."""
        columns = "SELECT chunk_id, path, note_id, title, ordinal, line, breadcrumb, text, language"
        rows = self._selected(f"{columns} FROM chunks JOIN notes USING (note_key)", chunk_ids)
        return {row[0]: ChunkRow(*row) for row in rows}

    def _selected(self, query: str, keys: Sequence[int], key: str = "chunk_id") -> Iterator[Any]:
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            yield from self._db.execute(f"{query} WHERE {key} IN ({','.join('?' * len(part))})", part)

    def note(self, path: str) -> NoteRow | None:
        """The note at a path."""
        row = self._db.execute(f"{_NOTE} WHERE path = ?", (path,)).fetchone()
        return NoteRow(*row) if row else None

    def note_named(self, note_id: str) -> NoteRow | None:
        """The note that an id other than its path belongs to."""
        row = self._db.execute(f"{_NOTE} WHERE note_id = ? AND claimed IS NOT NULL", (note_id,)).fetchone()
        return NoteRow(*row) if row else None

    def notes_called(self, name: str, most: int) -> list[tuple[str, str]]:
        """(path, id) of the notes that links call by a folded name (see `naming`), shortest path first."""
        query = (
            "SELECT path, note_id FROM names JOIN notes USING (note_key) WHERE name = ? AND linked"
            " ORDER BY length(path), path LIMIT ?"
        )
        return self._db.execute(query, (name, most)).fetchall()

    def called(self, name: str, most: int) -> list[tuple[int, int, bool]]:
        """(note key, first chunk, whether by its title) of the notes that have this folded title, stem, alias or path,
        shortest path first."""
        rows = self._db.execute(
            "SELECT note_key, chunk_id, is_title FROM names JOIN notes USING (note_key)"
            " JOIN chunks USING (note_key) WHERE name = ? AND ordinal = 0 ORDER BY length(path), path LIMIT ?",
            (name, most),
        )
        return [(note_key, chunk_id, bool(is_title)) for note_key, chunk_id, is_title in rows]

    def last_below(self, folder: str, namespace: str) -> NoteRow | None:
        """The last note under a folder, by code point order of its path, whose id is of a namespace."""
        row = self._db.execute(
            f"{_NOTE} WHERE path > ? AND path < ? AND substr(note_id, 1, ?) = ? ORDER BY path DESC LIMIT 1",
            (folder + "/", folder + "0", len(namespace) + 1, f"{namespace}:"),
        ).fetchone()
        return NoteRow(*row) if row else None

    def used_embedder(self) -> str | None:
        """The embedder whose vectors count."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
        return row[0] if row else None

    def text_at(self, path: str) -> str | None:
        """The whole text of the note at a path as it was indexed."""
        row = self._db.execute("SELECT text FROM notes JOIN texts USING (note_key) WHERE path = ?", (path,)).fetchone()
        return _unpacked(row[0]) if row else None

    def indexed_after(self, since: int, namespace: str | None) -> Iterator[tuple[int, str, int]]:
        """(time of indexing, id, note key) of what was indexed later than `since`, newest first."""
        low, high = (f"{namespace}:", f"{namespace};") if namespace else ("", "\U0010ffff")  # ";" follows ":"
        yield from self._db.execute(
            "SELECT ingested_at, note_id, note_key FROM notes"
            " WHERE ingested_at > ? AND note_id >= ? AND note_id < ? ORDER BY ingested_at DESC",
            (since, low, high),
        )

    def note_rows(self, note_keys: Sequence[int]) -> list[NoteRow]:
        """Those of the notes that exist, in the given order."""
        query = _NOTE.replace("SELECT", "SELECT note_key,", 1)
        found = {row[0]: NoteRow(*row[1:]) for row in self._selected(query, note_keys, key="note_key")}
        return [found[key] for key in note_keys if key in found]

    def chunk_ids(self) -> list[int]:
        """All chunk ids, ascending."""
        return [row[0] for row in self._db.execute("SELECT chunk_id FROM chunks ORDER BY chunk_id")]

    def keyword_texts(self, chunk_ids: Sequence[int]) -> Iterator[tuple[int, str, str]]:
        """(chunk id, everything a keyword can hit in it, language of its note)."""
        query = (
            "SELECT ordinal, breadcrumb, text, extra, language"
            " FROM chunks JOIN notes USING (note_key) WHERE chunk_id = ?"
        )
        for chunk_id in chunk_ids:
            row = self._db.execute(query, (chunk_id,)).fetchone()
            if row:
                ordinal, breadcrumb, text, extra, language = row
                yield chunk_id, Chunk(ordinal, breadcrumb, text, 1, extra).words, language

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """(note key, path, whole text) of every note."""
        for note_key, path, packed in self._db.execute(
            "SELECT note_key, path, text FROM notes JOIN texts USING (note_key)"
        ):
            yield note_key, path, _unpacked(packed)

    def text(self, note_key: int) -> str | None:
        """The whole text of one note as it was indexed."""
        row = self._db.execute("SELECT text FROM texts WHERE note_key = ?", (note_key,)).fetchone()
        return _unpacked(row[0]) if row else None

    def paths(self) -> list[str]:
        """Every note by name: indexed ones and listed ones that could not be indexed. No order."""
        query = "SELECT path FROM notes UNION SELECT path FROM skipped WHERE listed"
        return [row[0] for row in self._db.execute(query)]

    def skipped(self) -> list[tuple[str, str]]:
        """(path, reason) of every file left out, by path."""
        return [(p, r) for p, r in self._db.execute("SELECT path, reason FROM skipped ORDER BY path")]

    def left_out(self) -> int:
        """Notes by name that can't be searched: too large, or unreadable from the start."""
        query = "SELECT count(*) FROM skipped WHERE listed AND path NOT IN (SELECT path FROM notes)"
        return self._db.execute(query).fetchone()[0]

    def counts(self) -> Counts:
        """Rows by kind; a file that is indexed and can't be read any more counts as indexed."""
        notes, skipped, chunks, pending, firsts = self._db.execute(
            "SELECT (SELECT count(*) FROM notes),"
            " (SELECT count(*) FROM skipped WHERE path NOT IN (SELECT path FROM notes)),"
            " (SELECT count(*) FROM chunks),"
            " (SELECT count(*) FROM chunks WHERE state = 'pending'),"
            " (SELECT count(*) FROM chunks WHERE state = 'pending' AND ordinal = 0)"
        ).fetchone()
        return Counts(notes, skipped, chunks, chunks - pending, notes - firsts)

    def waiting_ids(self) -> tuple[list[int], list[int]]:
        """Chunks without a vector in the store: the first of each note, newest note first, and the others."""
        query = (
            "SELECT chunk_id FROM chunks JOIN notes USING (note_key)"
            " WHERE state = 'pending' AND {} ORDER BY mtime_ns DESC, note_key, ordinal"
        )
        firsts, rest = (
            [row[0] for row in self._db.execute(query.format(which))] for which in ("ordinal = 0", "ordinal > 0")
        )
        return firsts, rest

    def ready_ids(self) -> set[int]:
        """Chunks whose vector should be in the store."""
        return {row[0] for row in self._db.execute("SELECT chunk_id FROM chunks WHERE state = 'ready' AND text <> ''")}

    def to_embed(self, chunk_ids: Sequence[int], embedder: str) -> list[ToEmbed]:
        """Text of those chunks that exist and have one, and the cached vector of it."""
        query = (
            "SELECT chunk_id, text_hash, ordinal, breadcrumb, text,"
            " (SELECT vector FROM vectors WHERE vectors.text_hash = chunks.text_hash AND embedder = ?) FROM chunks"
            " WHERE text <> '' AND chunk_id IN ({})"
        )
        found: list[ToEmbed] = []
        for start in range(0, len(chunk_ids), 500):
            part = chunk_ids[start : start + 500]
            for chunk_id, text_hash, ordinal, breadcrumb, text, vector in self._db.execute(
                query.format(",".join("?" * len(part))), (embedder, *part)
            ):
                found.append(ToEmbed(chunk_id, text_hash, Chunk(ordinal, breadcrumb, text, 1).full, vector))
        return found

    def useless_vectors(self, embedder: str, start: bytes, most: int) -> tuple[int, list[tuple[bytes, str]]]:
        """The highest chunk id, and (text hash, embedder) of cached vectors from `start` on that are by another
        embedder or of a text in no chunk. Goes through all chunks."""
        with self._db:  # both answers are of one moment
            self._db.execute("BEGIN")
            last = self._db.execute("SELECT coalesce(max(chunk_id), 0) FROM chunks").fetchone()[0]
            rows = self._db.execute(
                "SELECT text_hash, embedder FROM vectors WHERE text_hash >= ?"
                " AND (embedder <> ? OR text_hash NOT IN (SELECT text_hash FROM chunks)) ORDER BY text_hash LIMIT ?",
                (start, embedder, most),
            ).fetchall()
        return last, rows

    def aside(self) -> list[str]:
        """The note of each chunk that the embedder can't take, by path."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'aside'").fetchone()
        return sorted(chunk.path for chunk in self.chunk_rows(json.loads(row[0])).values()) if row else []

    def embeddable_texts(self, path: str) -> list[str]:
        """What of a note an embedder would get, in order; chunks that only keywords can find have no text."""
        query = (
            "SELECT breadcrumb || char(10) || chunks.text FROM chunks JOIN notes USING (note_key)"
            " WHERE path = ? AND chunks.text <> '' ORDER BY ordinal"
        )
        return [row[0] for row in self._db.execute(query, (path,))]

    def contents(self) -> list[tuple[str, str, list[str]]]:
        """(path, checksum, chunk texts) of the whole index, for comparing two of them."""
        rows: dict[str, tuple[str, list[str]]] = {}
        for path, checksum, text in self._db.execute(
            "SELECT path, checksum, breadcrumb || char(10) || chunks.text || char(10) || extra"
            " FROM notes LEFT JOIN chunks USING (note_key) ORDER BY path, ordinal"
        ):
            texts = rows.setdefault(path, (checksum, []))[1]
            if text is not None:
                texts.append(text)
        return [(path, checksum, texts) for path, (checksum, texts) in rows.items()]

    def close(self) -> None:
        """Close this reader's connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _unpacked(packed: bytes) -> str:
    """A text, whose checksum tells of damage that SQLite does not see.

    Raises:
        sqlite3.DatabaseError: as SQLite does for a damaged file.
    """
    try:
        return unpack(packed)
    except (zlib.error, UnicodeDecodeError, TypeError) as failed:
        damaged = sqlite3.DatabaseError("a text can't be unpacked")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from failed
