"""The truth about one corpus: notes, their chunks, skipped files, cached vectors. SQLite, WAL.

Keyword postings and the vector store are caches that can be rebuilt from here
at any time. A chunk row never changes its text: another text is another row
with a new id, and ids are never used twice. Comparing ids is therefore all it
takes to bring a cache up to date.

One writer (the indexer); readers open connections of their own (`manifest_reader`).
Everything here blocks: call it in a lane.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.index import naming
from sidecar.index.counted import NO_WORDS, Counted
from sidecar.index.manifest_file import open_or_make
from sidecar.index.manifest_reader import identity_of
from sidecar.index.prepare import Piece, Prepared, Skip
from sidecar.vault.jail import FileStat
from sidecar.vault.kp_block import path_id
from sidecar.vault.paths import printable

logger = logging.getLogger(__name__)

_TITLE_MATTERS_BELOW: Final = 200
"""Characters of a chunk. With so many, another title moves its e5 vector by no more than the model's own rounding:
over 400 notes the cosine of before and after is .996 in the middle and above .988 for 19 of 20, where those of two
unrelated texts are .82. Shorter ones live by their title, and cost little to embed."""


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


class Manifest:
    """The writer's view. Opens the database, makes it when it is missing, sets an unfit one aside."""

    def __init__(self, path: Path, *, expected: bool = False) -> None:
        """`expected`: there are caches of a manifest, so a missing one is a loss worth a line.

        Raises:
            Unreadable: the disk doesn't let it be opened.
        """
        self._path = path
        self._db, self.problem = open_or_make(path, expected=expected)
        """What was wrong with the file found, if anything was."""
        self._identity = identity_of(path)
        self.generation = int(self._meta("generation") or 0)

    def begin_again(self, reason: str) -> None:
        """Set the file aside while it is in use, and go on with an empty one. Generations go on as well.

        `reason` is the end of a sentence that begins with "the manifest". May be called again after it failed.

        Raises:
            Unreadable: the disk doesn't let it be done.
        """
        self._db.close()
        self._db, self.problem = open_or_make(self._path, unfit=reason)
        self._identity = identity_of(self._path)
        with self._db:
            self._advance()

    @property
    def identity(self) -> str:
        """A name that no other manifest has; caches carry it."""
        return str(self._meta("identity"))

    @property
    def is_in_place(self) -> bool:
        """Whether the file at the path is the one that is written to."""
        return identity_of(self._path) == self._identity

    def serves(self, root: str) -> bool:
        """Whether this is the index of the folder `root`, as far as is known; from now on it is."""
        wanted, before = os.fsencode(root), self._meta("root")
        if before != wanted:
            self.set_meta("root", wanted)
        return before in (None, wanted)

    def _meta(self, key: str) -> Any:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def set_meta(self, key: str, value: str | int | bytes) -> None:
        """Keep one fact about the index as a whole."""
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def meta(self, key: str) -> str | int | None:
        """A fact kept by `set_meta`, or None."""
        return self._meta(key)

    def apply(self, batch: Batch) -> Applied:
        """Make a batch durable in one transaction and advance the generation.

        A note that vanished under one path and came up with equal bytes under
        another keeps its row: a rename changes as few chunks as it can.
        """
        removed_chunks: list[int] = []
        added_chunks: list[tuple[int, Piece]] = []
        removed_notes: list[int] = []
        put_notes: list[tuple[int, Prepared]] = []
        claims: set[str] = set()
        db = self._db
        with db:
            moved = self._moved(batch)
            gone = set(batch.gone) - set(moved.values()) | {skip.path for skip in batch.skips if skip.drops}
            for path in gone:
                row = db.execute("SELECT note_key, claimed FROM notes WHERE path = ?", (path,)).fetchone()
                if row:
                    note_key, claimed = row
                    claims.update((claimed,) if claimed else ())
                    removed_notes.append(note_key)
                    chunks = db.execute("SELECT chunk_id FROM chunks WHERE note_key = ?", (note_key,))
                    removed_chunks += [chunk_id for (chunk_id,) in chunks]
                    db.execute("DELETE FROM notes WHERE note_key = ?", (note_key,))
            back = [*batch.gone, *(path for path, _ in batch.touched)]
            db.executemany("DELETE FROM skipped WHERE path = ?", [(path,) for path in back])
            for put in batch.puts:
                note_key = self._put_note(put, claims)
                if put.note.path.text in moved:
                    self._hand_on_vectors(note_key, put)
                dropped, fresh = self._put_chunks(note_key, put)
                removed_chunks += dropped
                added_chunks += fresh
                put_notes.append((note_key, put))
            naming.settle(db, claims)
            db.executemany(
                "UPDATE notes SET mtime_ns = ?, size = ?, ctime_ns = ?, inode = ? WHERE path = ?",
                [(*stat, path) for path, stat in batch.touched],
            )
            db.executemany(
                "INSERT OR REPLACE INTO skipped VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(skip.path, skip.reason, skip.listed, *skip.stat) for skip in batch.skips],
            )
            if batch.puts or batch.skips or batch.gone:
                self._advance()
        if claims:
            self._warn_of_twins([note_key for note_key, _ in put_notes])
        return Applied(self.generation, removed_chunks, added_chunks, removed_notes, put_notes)

    def _warn_of_twins(self, note_keys: Sequence[int]) -> None:
        paths = naming.without_their_claim(self._db, note_keys)
        if paths:
            more = f" and {len(paths) - 1} others" if paths[1:] else ""
            logger.warning("another note has the id of %s%s; its path is its id", printable(paths[0]), more)

    def _moved(self, batch: Batch) -> dict[str, str]:
        """Rename rows whose content came up elsewhere in this batch; new paths to old ones."""
        moved: dict[str, str] = {}
        wanted: dict[str, list[str]] = {}
        for put in batch.puts:
            wanted.setdefault(put.note.checksum, []).append(put.note.path.text)
        for path in batch.gone if wanted else ():
            row = self._db.execute("SELECT note_key, checksum FROM notes WHERE path = ?", (path,)).fetchone()
            # of notes with the same bytes, the first one goes to the first place, as they were ordered
            places = wanted.get(row[1]) if row else None
            new = places.pop(0) if places else None
            if row and new and not self._db.execute("SELECT 1 FROM notes WHERE path = ?", (new,)).fetchone():
                self._db.execute("UPDATE notes SET path = ? WHERE note_key = ?", (new, row[0]))
                moved[new] = path
        return moved

    def _hand_on_vectors(self, note_key: int, put: Prepared) -> None:
        """Let a note whose title is its file's name keep its vectors when it is renamed, where they say the same."""
        before = {
            ordinal: (text, text_hash)
            for ordinal, text, text_hash in self._db.execute(
                "SELECT ordinal, text, text_hash FROM chunks WHERE note_key = ?", (note_key,)
            )
        }
        for piece in put.pieces:
            text, text_hash = before.get(piece.chunk.ordinal, ("", b""))
            if text == piece.chunk.text and len(text) >= _TITLE_MATTERS_BELOW and text_hash != piece.text_hash:
                self._db.execute(
                    "INSERT OR IGNORE INTO vectors SELECT ?, embedder, vector FROM vectors WHERE text_hash = ?",
                    (piece.text_hash, text_hash),
                )

    def _put_note(self, put: Prepared, claims: set[str]) -> int:
        """Store the row of a note under its path. The ids in `claims` are to be settled then."""
        note = put.note
        claimed = naming.claim_of(note)
        before = self._db.execute("SELECT claimed FROM notes WHERE path = ?", (note.path.text,)).fetchone()
        claims.update(claim for claim in (claimed, *(before or ())) if claim)
        row = self._db.execute(
            "INSERT INTO notes (path, note_id, claimed, title, language, tags, aliases, links, source, created,"
            " updated, checksum, mtime_ns, size, ctime_ns, inode, ingested_at, warnings)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
            " coalesce((SELECT ingested_at FROM former WHERE path = ? AND checksum = ?), ?),?)"
            " ON CONFLICT (path) DO UPDATE SET note_id=excluded.note_id, claimed=excluded.claimed,"
            " title=excluded.title, language=excluded.language, tags=excluded.tags,"
            " aliases=excluded.aliases, links=excluded.links, source=excluded.source, created=excluded.created,"
            " updated=excluded.updated, checksum=excluded.checksum, mtime_ns=excluded.mtime_ns, size=excluded.size,"
            " ctime_ns=excluded.ctime_ns, inode=excluded.inode, warnings=excluded.warnings,"
            # a rebuild or a rename is no news: only other bytes are
            " ingested_at=CASE checksum WHEN excluded.checksum THEN ingested_at ELSE excluded.ingested_at END"
            " RETURNING note_key",
            (
                note.path.text,
                path_id(note.path.text),
                claimed,
                note.title,
                put.language,
                json.dumps(note.tags, ensure_ascii=False),
                json.dumps(note.aliases, ensure_ascii=False),
                json.dumps([[link.target, link.kind] for link in note.links], ensure_ascii=False),
                note.source,
                note.created,
                note.updated,
                note.checksum,
                *put.stat,
                note.path.text,
                note.checksum,
                int(time.time()),
                json.dumps(note.warnings, ensure_ascii=False),
            ),
        ).fetchone()
        naming.put_names(self._db, row[0], note)
        self._db.execute("DELETE FROM skipped WHERE path = ?", (note.path.text,))
        self._db.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (row[0], put.packed))
        return row[0]

    def _put_chunks(self, note_key: int, put: Prepared) -> tuple[list[int], list[tuple[int, Piece]]]:
        """Keep rows whose text is unchanged, drop and add the others."""
        kept: dict[bytes, list[int]] = {}
        for chunk_id, key in self._db.execute("SELECT chunk_id, key FROM chunks WHERE note_key = ?", (note_key,)):
            kept.setdefault(key, []).append(chunk_id)
        moved: list[tuple[int, int, int]] = []
        new: list[Piece] = []
        for piece in put.pieces:
            same = kept.get(piece.key)
            if same:
                moved.append((piece.chunk.ordinal, piece.chunk.line + put.note.body_line - 1, same.pop()))
            else:
                new.append(piece)
        dropped = [chunk_id for ids in kept.values() for chunk_id in ids]
        self._db.executemany("DELETE FROM chunks WHERE chunk_id = ?", [(chunk_id,) for chunk_id in dropped])
        self._db.executemany("UPDATE chunks SET ordinal = ?, line = ? WHERE chunk_id = ?", moved)
        added: list[tuple[int, Piece]] = []
        for piece in new:
            chunk = piece.chunk
            cursor = self._db.execute(
                "INSERT INTO chunks (note_key, ordinal, line, key, text_hash, breadcrumb, text, extra, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    note_key,
                    chunk.ordinal,
                    chunk.line + put.note.body_line - 1,
                    piece.key,
                    piece.text_hash,
                    chunk.breadcrumb,
                    chunk.text,
                    chunk.extra,
                    "pending" if chunk.embeddable else "ready",  # of no text there is nothing to embed
                ),
            )
            added.append((cursor.lastrowid or 0, piece))
        return dropped, added

    def use_embedder(self, embedder: str) -> str | None:
        """Vectors by this embedder count from now on; with another one than before, all chunks wait for theirs.

        Returns the last embedder whose vectors were complete.
        """
        before = self._meta("embedder")
        if before != embedder:
            former = [*self.former_embedders(), *([before] if before else [])]
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (embedder,))
                self._keep_former([one for one in former if one != embedder])
                self._db.execute("DELETE FROM meta WHERE key = 'aside'")
                self._db.execute("UPDATE chunks SET state = 'pending' WHERE text <> ''")
        return self._meta("complete_embedder")

    def former_embedders(self) -> list[str]:
        """Embedders before the present one whose stores may still be there."""
        return json.loads(self._meta("former_embedders") or "[]")

    def _keep_former(self, embedders: Sequence[str]) -> None:
        kept = json.dumps(list(dict.fromkeys(embedders)))
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('former_embedders', ?)", (kept,))

    def embedder_complete(self, embedder: str) -> None:
        """Every chunk has its vector by this embedder, and the stores of those before are gone."""
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('complete_embedder', ?)", (embedder,))
            self._keep_former([])

    def forget_vectors(self, useless: Sequence[tuple[bytes, str]], last_chunk: int) -> None:
        """Drop cached vectors by (text hash, embedder), but for texts of chunks that are newer than `last_chunk`."""
        newer = {row[0] for row in self._db.execute("SELECT text_hash FROM chunks WHERE chunk_id > ?", (last_chunk,))}
        with self._db:
            self._db.executemany(
                "DELETE FROM vectors WHERE text_hash = ? AND embedder = ?",
                [row for row in useless if row[0] not in newer],
            )

    def set_aside(self, chunk_ids: Sequence[int]) -> None:
        """The present embedder can't take the texts of these chunks: they have zeros for a vector."""
        aside: list[int] = json.loads(self._meta("aside") or "[]")
        self.set_meta("aside", json.dumps(sorted({*aside, *chunk_ids})))

    def keep_vectors(self, embedder: str, vectors: Mapping[bytes, bytes]) -> None:
        """Cache vectors (float16 bytes) by text hash."""
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
                [(text_hash, embedder, vector) for text_hash, vector in vectors.items()],
            )

    def mark_ready(self, chunk_ids: Sequence[int]) -> list[int]:
        """The vectors of these chunks are stored: the second stage of a save. Returns ids that are gone meanwhile."""
        gone: list[int] = []
        with self._db:
            for chunk_id in chunk_ids:
                changed = self._db.execute("UPDATE chunks SET state = 'ready' WHERE chunk_id = ?", (chunk_id,))
                if not changed.rowcount:
                    gone.append(chunk_id)
            self._advance()
        return gone

    def mark_pending(self, chunk_ids: Sequence[int]) -> None:
        """The vectors of these chunks are not in the store after all."""
        if chunk_ids:
            with self._db:
                self._db.executemany(
                    "UPDATE chunks SET state = 'pending' WHERE chunk_id = ?", [(i,) for i in chunk_ids]
                )
                self._advance()

    def _advance(self) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('generation', ?)", (self.generation + 1,))
        self.generation += 1

    def forget_former(self) -> None:
        """Every note is indexed: times of indexing from before this manifest are of no more use."""
        if self._db.execute("SELECT 1 FROM former LIMIT 1").fetchone():
            with self._db:
                self._db.execute("DELETE FROM former")

    def last_chunk_id(self) -> int:
        """Highest chunk id ever given out."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
        return row[0] if row else 0

    def checkpoint(self) -> None:
        """Fold a long WAL into the database. Done when idle, because it syncs the disk."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close the writer's connection; the WAL is folded in when it is the last."""
        self._db.close()
