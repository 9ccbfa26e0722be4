"""A vault whose notes are changed by `Files`, and what it asked to have kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.vault.files import Files
from sidecar.vault.jail import Jail
from sidecar.vault.paths import VaultPath

MAX_BYTES = 1 << 20


@dataclass
class Desk:
    """`files` works in `vault`; `kept` holds (path, bytes, why)."""

    vault: Path
    jail: Jail
    kept: list[tuple[str, bytes, str]] = field(default_factory=list)
    files: Files = field(init=False)

    def __post_init__(self) -> None:
        self.files = Files(self.jail, self.keep, max_bytes=MAX_BYTES)

    def keep(self, path: VaultPath, data: bytes, why: str) -> None:
        self.kept.append((path.text, data, why))

    def lay(self, path: str, content: bytes = b"old\n", *, age_s: float = 60) -> Path:
        """A note of another program, saved a while ago."""
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        status = file.stat()
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns - int(age_s * 1e9)))
        return file

    def look_again(self) -> None:
        """As the daemon does a moment after each write."""
        assert self.files.displaced.look_again(at_all=True) is None

    def names(self) -> list[str]:
        """Every file in the vault, hidden ones too."""
        return sorted(str(path.relative_to(self.vault)) for path in self.vault.rglob("*") if not path.is_dir())


@contextmanager
def open_desk(vault: Path) -> Iterator[Desk]:
    vault.mkdir(exist_ok=True)
    jail = Jail(vault)
    desk = Desk(vault, jail)
    try:
        yield desk
    finally:
        desk.files.displaced.look_again(at_all=True)
        jail.close()


def at(path: str) -> VaultPath:
    return VaultPath(path)


def checksum(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
