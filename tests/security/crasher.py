"""A daemon that ends itself, as if by kill -9, at a named point of writing the note Crash.md.

python crasher.py POINT ARGUMENTS OF vault-sidecar
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from sidecar.cli.main import main
from sidecar.vault.folder_posix import PosixFolder

POINT = sys.argv.pop(1)
armed: set[int] = set()


def end() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


make_file, rename, sync, remove = PosixFolder.make_file, PosixFolder._rename, PosixFolder.sync, PosixFolder.remove
link, write, fsync = os.link, os.write, os.fsync
has_its_name = False


def faulty_make_file(folder: PosixFolder, name: str) -> int:
    descriptor = make_file(folder, name)
    if name.startswith(".Crash.md."):
        armed.add(descriptor)
        if POINT == "temporary file opened":
            end()
    return descriptor


def faulty_write(descriptor: int, data: bytes) -> int:
    if descriptor in armed and POINT == "half written":
        write(descriptor, bytes(data)[: len(data) // 2])
        end()
    return write(descriptor, data)


def faulty_fsync(descriptor: int) -> None:
    fsync(descriptor)
    if descriptor in armed and POINT == "synced":
        end()


def named() -> None:
    global has_its_name
    has_its_name = True
    if POINT == "has its name":
        end()


def faulty_rename(folder: PosixFolder, name: str, new: str, wish: int) -> None:
    rename(folder, name, new, wish)
    if new == "Crash.md":
        named()


def faulty_link(name: str, new: str, **more: object) -> None:
    link(name, new, **more)  # type: ignore[arg-type]
    if new == "Crash.md":
        named()


def faulty_sync(folder: PosixFolder) -> None:
    sync(folder)
    if has_its_name and POINT == "folder synced":
        end()


def faulty_remove(folder: PosixFolder, name: str) -> None:
    remove(folder, name)
    if name.startswith(".Crash.md.") and POINT == "temporary name gone":
        end()


PosixFolder.make_file = faulty_make_file  # type: ignore[method-assign]
PosixFolder._rename = faulty_rename  # type: ignore[method-assign]
PosixFolder.sync = faulty_sync  # type: ignore[method-assign]
PosixFolder.remove = faulty_remove  # type: ignore[method-assign]
os.write, os.fsync, os.link = faulty_write, faulty_fsync, faulty_link  # type: ignore[assignment]

if __name__ == "__main__":
    sys.exit(main())
