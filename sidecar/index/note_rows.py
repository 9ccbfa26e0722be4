"""The rows of one note in the manifest: under which path, with which chunks, of which those that are the same stay.

Works on the writer's connection, inside the transaction of a batch. Blocks.
"""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Final

from sidecar.index import naming
from sidecar.index.batch import Batch
from sidecar.index.prepare import Piece, Prepared
from sidecar.vault.kp_block import path_id

_TITLE_MATTERS_BELOW: Final = 200
"""Characters of a chunk. With so many, another title moves its e5 vector by no more than the model's own rounding:
over 400 notes the cosine of before and after is .996 in the middle and above .988 for 19 of 20, where those of two
unrelated texts are .82. Shorter ones live by their title, and cost little to embed."""


def rename_moved(db: sqlite3.Connection, batch: Batch) -> dict[str, str]:
    """Rename rows whose content came up elsewhere in this batch; new paths to old ones."""
    found: dict[str, str] = {}
    wanted: dict[str, list[str]] = {}
    for put in batch.puts:
        wanted.setdefault(put.note.checksum, []).append(put.note.path.text)
    for path in batch.gone if wanted else ():
        row = db.execute("SELECT note_key, checksum FROM notes WHERE path = ?", (path,)).fetchone()
        # of notes with the same bytes, the first one goes to the first place, as they were ordered
        places = wanted.get(row[1]) if row else None
        new = places.pop(0) if places else None
        if row and new and not db.execute("SELECT 1 FROM notes WHERE path = ?", (new,)).fetchone():
            db.execute("UPDATE notes SET path = ? WHERE note_key = ?", (new, row[0]))
            found[new] = path
    return found


def hand_on_vectors(db: sqlite3.Connection, note_key: int, put: Prepared) -> None:
    """Let a note whose title is its file's name keep its vectors when it is renamed, where they say the same."""
    before = {
        ordinal: (text, text_hash)
        for ordinal, text, text_hash in db.execute(
            "SELECT ordinal, text, text_hash FROM chunks WHERE note_key = ?", (note_key,)
        )
    }
    for piece in put.pieces:
        text, text_hash = before.get(piece.chunk.ordinal, ("", b""))
        if text == piece.chunk.text and len(text) >= _TITLE_MATTERS_BELOW and text_hash != piece.text_hash:
            db.execute(
                "INSERT OR IGNORE INTO vectors SELECT ?, embedder, vector FROM vectors WHERE text_hash = ?",
                (piece.text_hash, text_hash),
            )


def put_note(db: sqlite3.Connection, put: Prepared, claims: set[str]) -> int:
    """Store the row of a note under its path. The ids in `claims` are to be settled then."""
    note = put.note
    claimed = naming.claim_of(note)
    before = db.execute("SELECT claimed FROM notes WHERE path = ?", (note.path.text,)).fetchone()
    claims.update(claim for claim in (claimed, *(before or ())) if claim)
    row = db.execute(
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
    naming.put_names(db, row[0], note)
    db.execute("DELETE FROM skipped WHERE path = ?", (note.path.text,))
    db.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (row[0], put.packed))
    return row[0]


def put_chunks(db: sqlite3.Connection, note_key: int, put: Prepared) -> tuple[list[int], list[tuple[int, Piece]]]:
    """Keep rows whose text is unchanged, drop and add the others."""
    kept: dict[bytes, list[int]] = {}
    for chunk_id, key in db.execute("SELECT chunk_id, key FROM chunks WHERE note_key = ?", (note_key,)):
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
    db.executemany("DELETE FROM chunks WHERE chunk_id = ?", [(chunk_id,) for chunk_id in dropped])
    db.executemany("UPDATE chunks SET ordinal = ?, line = ? WHERE chunk_id = ?", moved)
    added: list[tuple[int, Piece]] = []
    for piece in new:
        chunk = piece.chunk
        cursor = db.execute(
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
