"""Which folder is the vault, and which folder of state belongs to it.

The state folder is where the processes of one vault meet, so all of them must
come to the same one: its name is made from the vault's resolved path.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import unicodedata
from pathlib import Path

from sidecar.errors import BadConfig

_NAME_LETTERS = 40
_HASH_LETTERS = 12


def state_dir_of(vault: Path, root: Path) -> Path:
    """The state folder of a vault below the state root: `<name>-<hash of the resolved vault path>`. Creates nothing."""
    resolved = true_path(vault)
    name = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", resolved.name))[:_NAME_LETTERS].strip(".-")
    digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:_HASH_LETTERS]
    return _resolved(root) / f"{name or 'vault'}-{digest}"


def check_vault(vault: Path, *, home: Path) -> Path:
    """The resolved folder, if it may be served. Blocks.

    Raises:
        BadConfig: it is missing, out of reach, no folder, or holds far more than notes.
    """
    resolved = true_path(vault)
    try:
        mode = resolved.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = f"there is no folder {str(vault)!r} to serve; check the path, or whether its disk is mounted"
        raise BadConfig(missing) from error
    except OSError as error:
        raise BadConfig(f"{str(vault)!r} can't be looked at: {error.strerror}") from error
    if not stat.S_ISDIR(mode):
        raise BadConfig(f"{str(vault)!r} is not a folder; name the folder that your editor opens as the vault")
    if resolved.parent == resolved:
        raise BadConfig("the root of the file system can't be a vault; name the folder that holds your notes")
    if _is_within(home, resolved):
        raise BadConfig("your home folder can't be a vault, nor a folder around it; name the one that holds your notes")
    return resolved


def nearest_vault(start: Path) -> Path | None:
    """The nearest folder, from `start` upward, that an editor opened as a vault; None if there is none. Blocks."""
    return next((folder for folder in (start, *start.parents) if (folder / ".obsidian").is_dir()), None)


def refuse_inside(state_dir: Path, vault: Path) -> None:
    """Keys and indexes must not lie in the vault: synchronisation and backups would carry them away. Blocks.

    Raises:
        BadConfig: they would.
    """
    if _is_within(state_dir, vault):
        raise BadConfig("the state folder must not lie in the vault, where it would be synchronised; choose another")


def true_path(path: Path) -> Path:
    """The path without links, spelled as the disk spells it. It need not exist. Blocks.

    Raises:
        BadConfig: it has no end.
    """
    resolved = _resolved(path)
    if sys.platform == "darwin" and resolved.is_dir():
        # the disk compares names without case there, and `resolve` keeps the case it was given
        import fcntl

        descriptor = os.open(resolved, os.O_RDONLY)
        try:
            found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        finally:
            os.close(descriptor)
        return Path(os.fsdecode(found.rstrip(b"\0")))
    return resolved


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:  # newer versions of Python return such a path as it is
        raise BadConfig(f"{str(path)!r} leads nowhere: a link in it leads back to itself") from error


def _is_within(path: Path, folder: Path) -> bool:
    """Is `path` the folder or below it? By the folder's identity on disk, since names can differ in case."""
    resolved = path.resolve()
    for parent in (resolved, *resolved.parents):
        try:
            if os.path.samefile(parent, folder):
                return True
        except OSError:  # not there (yet), so not the folder either
            continue
    return False
