"""Looks at folders and processes that change meanwhile. What goes before it is looked at is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """All files below a folder that others write in, each with what it holds."""
    for within, _, names in os.walk(folder):
        for path in (Path(within, name) for name in names):
            with suppress(FileNotFoundError):
                yield path, path.read_bytes()


def children(pid: int) -> list[int]:
    """Processes started by a process."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def arguments(pid: int) -> bytes:
    """What a process was started with; nothing of one that has gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def environ(pid: int) -> bytes:
    """The variables that a process was started with; nothing of one that has gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to look is dead."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def sockets(pid: int) -> list[str]:
    """Inodes of the sockets of a process."""
    found: list[str] = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            found += [target[8:-1]] if target.startswith("socket:[") else []
    return found


def listening(pid: int) -> set[tuple[str, str]]:
    """(table, address) of every listening socket of a process."""
    inodes = sockets(pid)
    found: set[tuple[str, str]] = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        path = Path(f"/proc/net/{table}")
        rows = path.read_text().splitlines()[1:] if path.exists() else []
        for row in (line.split() for line in rows):
            if row[9] in inodes and (row[3] == "0A" or table.startswith("udp")):
                found.add((table, row[1]))
    return found
