"""What notes go by in the manifest: one id each, the names that links call them by, and their titles.

An id that several files claim belongs to the one with the shortest path, among
equals to the first by code point order; the others go by their paths. A link
calls a note by its path, its stem or an alias, without regard to case.

Works on the writer's connection, inside the transaction of a batch. Blocks.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence

from sidecar.vault.kp_block import path_id
from sidecar.vault.notes import Note
from sidecar.vault.paths import NOTE_SUFFIX, is_note_name


def fold(name: str) -> str:
    """Equal for names that a link takes for the same: case and the form of accents make no difference."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def folded_path(path: str) -> str:
    """A note's path as links write it: without its suffix, folded."""
    return fold(path[: -len(NOTE_SUFFIX)] if is_note_name(path) else path)


def fold_title(title: str) -> str:
    """Equal for titles that a person takes for the same: blanks make no difference either."""
    return fold(" ".join(title.split()))


def claim_of(note: Note) -> str | None:
    """The id that a note's block claims; None if it goes by its path."""
    return None if note.note_id == path_id(note.path.text) else note.note_id


def put_names(db: sqlite3.Connection, note_key: int, note: Note) -> None:
    """Store what links may call a note by, and its title, by which only people call it."""
    whole = folded_path(note.path.text)
    title = fold_title(note.title)
    names = {title: 0} | dict.fromkeys((whole, whole[whole.rfind("/") + 1 :], *map(fold, note.aliases)), 1)
    db.execute("DELETE FROM names WHERE note_key = ?", (note_key,))
    db.executemany(
        "INSERT INTO names VALUES (?, ?, ?, ?)",
        [(name, note_key, linked, name == title) for name, linked in names.items()],
    )


def settle(db: sqlite3.Connection, claims: Iterable[str]) -> None:
    """Give each of these ids to the note it belongs to, after the notes that claim it have changed."""
    for claim in claims:
        owner = db.execute(
            "SELECT note_key FROM notes WHERE claimed = ? ORDER BY length(path), path LIMIT 1", (claim,)
        ).fetchone()
        if owner:
            db.execute(
                "UPDATE notes INDEXED BY notes_named SET note_id = 'path:' || path"
                " WHERE note_id = ? AND claimed IS NOT NULL AND note_key <> ?",
                (claim, *owner),
            )
            db.execute("UPDATE notes SET note_id = ? WHERE note_key = ?", (claim, *owner))


def without_their_claim(db: sqlite3.Connection, note_keys: Sequence[int]) -> list[str]:
    """Paths of those of the notes whose id belongs to another one, as they were given."""
    query = "SELECT path FROM notes WHERE note_key = ? AND claimed IS NOT NULL AND note_id <> claimed"
    return [row[0] for key in note_keys for row in db.execute(query, (key,))]
