"""Connections to the files of SQLite, all with the same settings, and which file one is connected to."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Literal
from urllib.parse import quote


def identity_of(path: Path) -> tuple[int, int] | None:
    """Which file is at the path; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def connect(path: Path, *, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    """A connection with the settings that writer and readers share. Only the writer opens it as `rwc`; `ro` leaves
    a file as it is that nobody uses any more."""
    # percent-encoded by hand: as_uri refuses names that are not UTF-8
    place = quote(os.fsencode(path.absolute().as_posix()), safe="/:")
    uri = f"file:{place if place.startswith('/') else '/' + place}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=10)
    try:
        if mode == "rwc":
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA wal_autocheckpoint = 8000")  # 32 MB: a checkpoint in mid-batch would hold up searches
        # read, not mapped: what is mapped counts as memory of this process (118 MB with 10,000 notes), and a disk that
        # fails under it ends the process; a search takes no longer (`chunks_with_notes`)
        db.execute("PRAGMA mmap_size = 0")
    except BaseException:
        db.close()
        raise
    return db
