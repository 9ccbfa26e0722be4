"""The registry of databases: `db.json` in the state folder. Everything blocks.

Only the holder of the vault's lock may change it: the daemon, or a command
while none runs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from sidecar.bridge import private_files, times
from sidecar.errors import BadArguments, NotFound, Unreadable
from sidecar.services.database_rules import Ground, folded, folder_of, name_of
from sidecar.vault.paths import echo

logger = logging.getLogger(__name__)

FILE_NAME: Final = "db.json"
FOLDER: Final = "databases"
"""Below the state folder: one folder for the index of each database."""

_KEY: Final = "i-"
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered database. `createAt` is RFC 3339 UTC; the odd name is the one that clients know."""

    db: str
    createAt: str
    folder: str

    @property
    def key(self) -> str:
        """A name for files about it. One that is added again at another time has another key, so it begins anew."""
        told = json.dumps([self.db, self.createAt, self.folder]).encode()
        return f"{_KEY}{hashlib.blake2b(told, digest_size=10).hexdigest()}"


def facts_of(entry: Entry) -> dict[str, Any]:
    """An entry as JSON."""
    return asdict(entry)


def index_of(state_dir: Path, entry: Entry) -> Path:
    """The folder of its index."""
    return state_dir / FOLDER / entry.key


def remove_index(state_dir: Path, entry: Entry) -> None:
    """Delete what was made of its files. What can't be deleted now is, by `sweep`, at the next start."""
    _delete(index_of(state_dir, entry))


def sweep(state_dir: Path, entries: Sequence[Entry]) -> None:
    """Delete the indexes of databases that are not registered any more."""
    kept = {entry.key for entry in entries}
    folder = state_dir / FOLDER
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name.startswith(_KEY) and path.name not in kept:
                _delete(path)


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        logger.warning("the index of a removed database can't be deleted now; the next start tries again")


def no_database(name: str) -> NotFound:
    """For a command about one that is not registered."""
    return NotFound(f"'{echo(name)}' does not exist; 'vault-sidecar db list' names the databases.")


class Registry:
    """What is registered, as of the file."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE_NAME

    def entries(self) -> Sequence[Entry]:
        """In the order of registration; none where the file is missing.

        Raises:
            Unreadable, TooLarge: the file is damaged, or can't be believed by the rule of `private_files`.
        """
        content = private_files.read(self._path, max_bytes=_MAX_BYTES)
        if content is None:
            return ()
        try:
            return _entries(json.loads(content))
        except (BadArguments, ValueError, TypeError, RecursionError) as error:
            raise Unreadable(
                f"{FILE_NAME} in the state folder is damaged; delete it, and add the databases again"
            ) from error

    def add(self, raw_name: str, raw_folder: str, ground: Ground) -> Entry:
        """Register a folder under a name.

        Raises:
            BadArguments: the name is wrong or taken, or the folder must not be a database.
            Unreadable: the file is damaged, or the disk refused.
        """
        name = name_of(raw_name)
        entries = self.entries()
        if any(folded(name) == folded(entry.db) for entry in entries):
            raise BadArguments(f"'{echo(name)}' exists already.")
        new = Entry(name, times.now(), str(folder_of(raw_folder, ground)))
        self._write([*entries, new])
        return new

    def remove(self, raw_name: str) -> Entry:
        """Forget a database; its folder is not touched.

        Raises:
            BadArguments: that is not a name.
            NotFound: none is called so.
            Unreadable: the file is damaged, or the disk refused.
        """
        name = name_of(raw_name)
        entries = self.entries()
        gone = next((entry for entry in entries if entry.db == name), None)
        if gone is None:
            raise no_database(name)
        self._write([entry for entry in entries if entry is not gone])
        return gone

    def _write(self, entries: Sequence[Entry]) -> None:
        content = json.dumps(
            [facts_of(entry) for entry in entries], indent=1
        )  # ASCII, so that any name of a folder fits
        private_files.write(self._path, content.encode() + b"\n")


def _entries(raw: Any) -> Sequence[Entry]:
    if not isinstance(raw, list):
        raise TypeError("list")
    entries = tuple(map(_entry, cast("list[Any]", raw)))
    if len({folded(entry.db) for entry in entries}) != len(entries):
        raise ValueError("names")
    return entries


def _entry(raw: Any) -> Entry:
    """Checked by hand: a name that could not be given must not come in by the file."""
    entry = Entry(**cast("dict[str, Any]", raw))
    if not all(isinstance(value, str) for value in facts_of(entry).values()) or name_of(entry.db) != entry.db:
        raise ValueError("entry")
    if not Path(entry.folder).is_absolute():
        raise ValueError("folder")
    return entry
