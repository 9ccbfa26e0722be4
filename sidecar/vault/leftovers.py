"""Clears away the temporary files that a process left behind when it was ended in the middle of a write.

At such a moment the file may hold what another program had just saved, so its
text is kept, unless the note itself has it.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import Final

from sidecar.errors import SidecarError
from sidecar.vault.contents import read_all
from sidecar.vault.displaced import Keep
from sidecar.vault.door import Folder, NotThere
from sidecar.vault.jail import Jail
from sidecar.vault.names import MAX_NEW_SEGMENTS
from sidecar.vault.paths import VaultPath, is_hidden, printable
from sidecar.vault.temporary import is_temporary, name_within

logger = logging.getLogger(__name__)

_VAULT: Final = VaultPath.root()
_MOST_KEPT: Final = 64 << 20  # a larger one can't be ours: no note of that size is changed


def sweep(jail: Jail, keep: Keep, *, before_ns: int, start: VaultPath = _VAULT) -> int:
    """Remove our temporary files below `start` that were last touched before a time; how many there were. Blocks.

    What can't be looked at is left for the next time.

    Raises:
        VaultAway: the vault itself is gone.
    """
    removed = 0
    pending = [start]
    while pending:
        path = pending.pop()
        try:
            folder = jail.folder(path)
        except (NotThere, OSError):
            continue
        try:
            for name, is_folder in folder.entries():
                if not _is_utf8(name):
                    continue
                below = VaultPath(f"{path}/{name}" if path.text else name)
                if is_folder and not is_hidden(name) and len(below.parts) < MAX_NEW_SEGMENTS:
                    pending.append(below)
                elif not is_folder and is_temporary(name):
                    removed += _clear(folder, below, keep, before_ns)
        except OSError:
            logger.warning("%s is not looked through for temporary files", printable(path.text), exc_info=True)
        finally:
            folder.close()
    return removed


def _clear(folder: Folder, path: VaultPath, keep: Keep, before_ns: int) -> bool:
    """Remove one, if it is old enough; whether it was."""
    try:
        descriptor = folder.open_file(path.name)
    except (NotThere, OSError):
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_ctime_ns >= before_ns or status.st_size > _MOST_KEPT:
            return False
        note = VaultPath(f"{path.parent}/{name_within(path.name)}".removeprefix("/"))
        if status.st_nlink == 1 and status.st_size:
            data = read_all(descriptor, status.st_size, _MOST_KEPT)
            if data != _content(folder, note.name):
                keep(note, data, "left")
        folder.remove(path.name)
    except (OSError, SidecarError):
        logger.warning("the temporary file %s could not be removed", printable(path.text), exc_info=True)
        return False
    finally:
        os.close(descriptor)
    return True


def _content(folder: Folder, name: str) -> bytes | None:
    try:
        descriptor = folder.open_file(name)
    except (NotThere, OSError):
        return None
    try:
        return read_all(descriptor, os.fstat(descriptor).st_size, _MOST_KEPT)
    finally:
        os.close(descriptor)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
