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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sidecar.index import naming, note_rows
from sidecar.index.batch import Applied, Batch
from sidecar.index.connection import identity_of
from sidecar.index.manifest_file import open_or_make
from sidecar.index.prepare import Piece, Prepared
from sidecar.vault.paths import printable

logger = logging.getLogger(__name__)


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
            moved = note_rows.rename_moved(db, batch)
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
                note_key = note_rows.put_note(db, put, claims)
                if put.note.path.text in moved:
                    note_rows.hand_on_vectors(db, note_key, put)
                dropped, fresh = note_rows.put_chunks(db, note_key, put)
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
