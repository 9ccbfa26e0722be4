"""The file of the registry, `knowledge.db`: its layout, and how it is opened. It is the truth and nothing else has it.

So a file that can't be used is left as it is, and the registry says so until a
person has looked. Everything blocks.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sidecar.bridge import private_files
from sidecar.errors import Unreadable
from sidecar.index.connection import connect
from sidecar.index.trouble import disk_trouble, is_damage

FILE_NAME: Final = "knowledge.db"
LAYOUT: Final = 1

_APPLICATION_ID: Final = 0x5653_4B31  # in the header: no other program's database is taken for ours

_LEFT: Final = (
    f"{FILE_NAME} in the state folder can't be used: {{}}. It was left as it is;"
    " put a copy in its place, or move it away to begin anew."
)

_TABLES: Final = """
CREATE TABLE items (
    item_key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    own_id TEXT NOT NULL,
    given_id TEXT NOT NULL,
    name TEXT NOT NULL,
    domain TEXT NOT NULL,
    folded_domain TEXT NOT NULL,
    tags TEXT NOT NULL,
    contributor TEXT NOT NULL,
    org TEXT NOT NULL,
    credited TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('private', 'org', 'network')),
    contributed REAL NOT NULL,
    quality REAL NOT NULL,
    checksum BLOB NOT NULL,
    suspicious INTEGER NOT NULL,
    held INTEGER NOT NULL,
    quarantined INTEGER NOT NULL DEFAULT 0,
    warnings TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE UNIQUE INDEX items_once ON items (contributor, checksum, given_id);
CREATE INDEX items_by_own_id ON items (own_id) WHERE own_id <> '';
CREATE INDEX items_seen ON items
    (kind, quality, held, quarantined, visibility, contributor, org, folded_domain, item_key);
CREATE TABLE contents (
    item_key INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    content TEXT NOT NULL,
    words TEXT NOT NULL
);
CREATE TABLE tags (
    tag TEXT NOT NULL,
    item_key INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    PRIMARY KEY (tag, item_key)
) WITHOUT ROWID;
CREATE INDEX tags_of_item ON tags (item_key);
CREATE TABLE vectors (
    item_key INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    embedder TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (item_key, embedder)
) WITHOUT ROWID;
CREATE TABLE judgments (
    item_key INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    agent TEXT NOT NULL,
    valid INTEGER NOT NULL,
    counts INTEGER NOT NULL,
    by_other INTEGER NOT NULL,
    feedback TEXT,
    made TEXT NOT NULL,
    PRIMARY KEY (item_key, agent)
) WITHOUT ROWID;
CREATE TABLE ledger (
    agent TEXT NOT NULL,
    deed TEXT NOT NULL CHECK (deed IN ('unit', 'skill', 'judgment')),
    item_key INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    made TEXT NOT NULL,
    PRIMARY KEY (agent, deed, item_key)
) WITHOUT ROWID;
CREATE INDEX ledger_of_item ON ledger (item_key);
"""


def open_or_make(state_dir: Path) -> sqlite3.Connection:
    """A connection to the registry of a vault; only the holder of the vault's lock may have one.

    Raises:
        Unreadable: it is damaged, of a newer program, not private, or the disk refuses.
    """
    path = state_dir / FILE_NAME
    os.close(private_files.open_own(path, os.O_RDWR))
    try:
        db = connect(path, mode="rw")
        try:
            _prepare(db)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as failed:
        raise unusable(failed) from failed
    return db


def looked_at(state_dir: Path) -> int | None:
    """How many items a registry has that SQLite finds whole; None where there is no registry yet. Nothing is changed.

    Raises:
        Unreadable: as `open_or_make`, or a part of it is damaged.
    """
    path = state_dir / FILE_NAME
    if not path.exists() and not path.is_symlink():
        return None
    if path.is_symlink() or not path.is_file():
        raise Unreadable(f"{FILE_NAME} in the state folder is no plain file; move it away.")
    try:
        with closing(connect(path, mode="rw")) as db:
            db.execute("PRAGMA query_only = ON")
            if not _is_new(db):
                _refuse_others(db)
            problem = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise Unreadable(_LEFT.format("it is damaged"))
            return 0 if _is_new(db) else db.execute("SELECT count(*) FROM items").fetchone()[0]
    except sqlite3.Error as failed:
        raise unusable(failed) from failed


def unusable(failed: sqlite3.Error) -> Unreadable:
    """What to say of the file when SQLite can't read it."""
    return Unreadable(_LEFT.format("it is damaged" if is_damage(failed) else disk_trouble(failed) or str(failed)))


def _is_new(db: sqlite3.Connection) -> bool:
    """Whether nothing was made in it yet."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    return not version and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _refuse_others(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise Unreadable(f"{FILE_NAME} in the state folder is the database of another program; move it away.")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != LAYOUT:
        raise Unreadable(
            f"{FILE_NAME} in the state folder has layout {version}, and this program has layout {LAYOUT};"
            " use the program that wrote it."
        )


def _prepare(db: sqlite3.Connection) -> None:
    is_new = _is_new(db)
    if not is_new:
        _refuse_others(db)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")  # what was answered survives a power cut, too
    db.execute("PRAGMA secure_delete = ON")  # what a person removes is gone from the file
    if is_new:
        db.executescript(
            f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {LAYOUT}; COMMIT;"
        )
    db.execute("SELECT count(*) FROM (SELECT 1 FROM items LIMIT 1)").fetchone()
