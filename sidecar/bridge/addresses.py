"""The address of the running daemon in plain files, one line each, for scripts of the same user. They hold no key.

Written once the socket listens and removed at the end; after a crash they may
be stale until the next start. Programs of ours use `endpoint`, which is
believed after a proof only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sidecar.bridge import private_files

BASE: Final = "endpoint"
DATABASES: Final = "databases/endpoint"
DATABASES_PATH: Final = "/databases"


def sweep(state_dir: Path) -> None:
    """Delete what writes in the two folders that were cut off have left. Only for the holder of the lock. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    private_files.sweep(state_dir)
    beside = (state_dir / DATABASES).parent
    if beside.is_dir():
        private_files.sweep(beside)


def publish(state_dir: Path, port: int, *, databases: bool) -> None:
    """Write where the daemon listens, and with `databases` the base of that surface's addresses. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    base = f"http://127.0.0.1:{port}"
    private_files.write(state_dir / BASE, f"{base}\n".encode())
    place = state_dir / DATABASES
    private_files.make_folder(place.parent)
    if databases:
        private_files.write(place, f"{base}{DATABASES_PATH}\n".encode())
    else:
        private_files.remove(place)


def withdraw(state_dir: Path) -> None:
    """Remove the files. Only the holder of the vault's lock may. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    for name in (BASE, DATABASES):
        private_files.remove(state_dir / name)
