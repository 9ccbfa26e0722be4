"""The manifest's file: its layout, how it is opened, and what happens to one that is no good.

It is set aside and an empty one begun; the indexer then fills that from the
notes. What would cost most to make again, the vectors, is taken out of what
was set aside, and so is what can't be made again: when each note was indexed.
Everything blocks.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Literal

from sidecar.errors import Unreadable
from sidecar.index import aside
from sidecar.index.connection import connect
from sidecar.index.salvage import vectors_in
from sidecar.index.trouble import disk_trouble, is_damage

logger = logging.getLogger(__name__)

FILE_NAME: Final = "manifest.sqlite"
SCHEMA_VERSION: Final = 6

_APPLICATION_ID: Final = 0x5653_4D31  # in the header of each: no other program's database is taken for one
_COMPANIONS: Final = ("-wal", "-shm")
_TAKEN_AT_ONCE: Final = 1000

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE notes (
    note_key INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    note_id TEXT NOT NULL,
    claimed TEXT,
    title TEXT NOT NULL,
    language TEXT NOT NULL,
    tags TEXT NOT NULL,
    aliases TEXT NOT NULL,
    links TEXT NOT NULL,
    source TEXT, created TEXT, updated TEXT,
    checksum TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    ingested_at INTEGER NOT NULL,
    warnings TEXT NOT NULL
);
CREATE INDEX notes_claiming ON notes (claimed, length(path), path) WHERE claimed IS NOT NULL;
CREATE INDEX notes_named ON notes (note_id) WHERE claimed IS NOT NULL;
CREATE INDEX notes_by_time ON notes (ingested_at, note_id);
CREATE TABLE names (
    name TEXT NOT NULL, note_key INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
    linked INTEGER NOT NULL, is_title INTEGER NOT NULL, PRIMARY KEY (name, note_key)
) WITHOUT ROWID;
CREATE INDEX names_of_note ON names (note_key);
CREATE TABLE former (path TEXT PRIMARY KEY, checksum TEXT NOT NULL, ingested_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE texts (note_key INTEGER PRIMARY KEY REFERENCES notes ON DELETE CASCADE, text BLOB NOT NULL);
CREATE TABLE chunks (
    chunk_id INTEGER PRIMARY KEY AUTOINCREMENT,
    note_key INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    line INTEGER NOT NULL,
    key BLOB NOT NULL,
    text_hash BLOB NOT NULL,
    breadcrumb TEXT NOT NULL,
    text TEXT NOT NULL,
    extra TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'ready'))
);
CREATE INDEX chunks_of_note ON chunks (note_key, ordinal);
CREATE INDEX chunks_with_notes ON chunks (chunk_id, note_key); -- a search asks for 200, and rows have whole texts
CREATE INDEX chunks_pending ON chunks (ordinal) WHERE state = 'pending';
CREATE TABLE skipped (
    path TEXT PRIMARY KEY, reason TEXT NOT NULL, listed INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE vectors (
    text_hash BLOB NOT NULL, embedder TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (text_hash, embedder)
) WITHOUT ROWID;
INSERT INTO meta VALUES ('identity', lower(hex(randomblob(8))));
"""


class Unfit(Exception):
    """What is at the path is no manifest that can be used. Its text is the end of a sentence about the manifest."""


def open_or_make(
    path: Path, *, expected: bool = False, unfit: str | None = None
) -> tuple[sqlite3.Connection, str | None]:
    """The writer's connection, and what was wrong with the file found, if anything was; that is logged as well.

    Args:
        path: of the file; its folder exists.
        expected: there are caches of a manifest, so a missing one is a loss.
        unfit: why the file at the path must not be used, as the end of a sentence that begins with "the manifest".

    Raises:
        Unreadable: the disk doesn't let it be opened.
    """
    problem = None
    try:
        try:
            if unfit:
                raise Unfit(unfit)
            if not path.exists() and not path.is_symlink():
                aside.set_aside(path, _COMPANIONS)  # a log without its database: SQLite would delete it unread
                if expected:
                    raise Unfit("is gone")
            elif expected and path.is_file() and not path.stat().st_size:
                raise Unfit("is empty")
            db = checked(path, mode="rwc")
        except Unfit as found:
            problem = f"the manifest {found}; the index is made again from the notes"
            logger.warning("%s", problem)
            aside.set_aside(path, _COMPANIONS)
            db = _made(path)
        _take_back(db, path)
    except (OSError, sqlite3.Error, Unfit) as failed:
        reason = disk_trouble(failed) or getattr(failed, "strerror", None) or str(failed)
        raise Unreadable(f"the index in the state folder can't be opened: {reason}") from failed
    return db, problem


def checked(path: Path, *, mode: Literal["rw", "rwc"]) -> sqlite3.Connection:
    """A connection to the manifest at `path`. `rwc` makes what is missing.

    Raises:
        Unfit: it is none, damaged or of another layout.
        sqlite3.Error: it can't be opened or made.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise Unfit("is no plain file")
    db = None
    try:
        db = connect(path, mode=mode)
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if mode == "rwc" and not version and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID};"
                f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        elif db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise Unfit("is the database of another program, or of an older version of this one")
        elif version != SCHEMA_VERSION:
            raise Unfit(f"has layout {version}, and this program has layout {SCHEMA_VERSION}")
        db.execute("SELECT count(*) FROM (SELECT 1 FROM notes LIMIT 1)").fetchone()
    except BaseException as failed:
        if db is not None:
            db.close()
        if is_damage(failed):
            raise Unfit(f"is damaged ({failed})") from failed
        raise
    return db


def _made(path: Path) -> sqlite3.Connection:
    """A new manifest, where nothing is. A disk that takes only half of it leaves nothing: set aside at each further
    attempt, such halves would push out what is worth keeping."""
    try:
        return checked(path, mode="rwc")
    except (OSError, sqlite3.Error):
        for end in ("", *_COMPANIONS):
            with suppress(OSError):
                path.with_name(path.name + end).unlink()
        raise


def _take_back(db: sqlite3.Connection, path: Path) -> None:
    """Copy what is worth most from manifests that were set aside: the cached vectors, so that their texts are not
    embedded again, and the times at which notes were indexed."""
    kept = aside.found(path)
    newest = max(kept, default=0)
    # remembered, and not done just where one is set aside: a process may be killed between the two
    taken = db.execute("SELECT value FROM meta WHERE key = 'taken_back'").fetchone()
    if not newest or (taken and taken[0] == newest):
        return
    count = 0
    for number in sorted(kept, reverse=True):
        rows = vectors_in(kept[number])
        while part := list(itertools.islice(rows, _TAKEN_AT_ONCE)):
            with db:
                count += db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", part).rowcount
    with db:
        db.executemany("INSERT OR IGNORE INTO former VALUES (?, ?, ?)", _times_in(kept[newest]))
        db.execute("INSERT OR REPLACE INTO meta VALUES ('taken_back', ?)", (newest,))
    logger.info("%d vectors were taken out of what was set aside", count)


def _times_in(path: Path) -> Iterator[tuple[str, str, int]]:
    """(path, checksum, time of indexing) of the notes in a manifest that was set aside, as far as it can be read."""
    query = (
        "SELECT path, checksum, ingested_at FROM notes"
        " WHERE typeof(path) = 'text' AND typeof(checksum) = 'text' AND typeof(ingested_at) = 'integer'"
    )
    with suppress(sqlite3.Error), closing(connect(path, mode="ro")) as old:
        yield from old.execute(query)
