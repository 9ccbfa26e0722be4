"""A vault on a real disk with something secret beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from sidecar.vault.ignore import IgnoreRules
from sidecar.vault.jail import Found, Jail, Trouble
from sidecar.vault.paths import VaultPath

P = ParamSpec("P")
T = TypeVar("T")

CANARY = b"the canary sings of pomegranates"
EVERYTHING = IgnoreRules.parse("")


@dataclass(frozen=True)
class Ground:
    """Folders of one test: `outside` holds a canary, `vault` lies beside it."""

    vault: Path
    outside: Path

    def write(self, path: str, content: str | bytes = "text\n") -> Path:
        """Write a note, folders included, and return where it is."""
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """An empty vault beside a folder with the canary, which is named like notes people would ask for."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("canary.md", "x.md", "a.md"):
        (outside / name).write_bytes(CANARY)
        (tmp_path / name).write_bytes(CANARY)
    secret = tmp_path / "vault-secret"
    secret.mkdir()
    (secret / "x.md").write_bytes(CANARY)
    vault = tmp_path / "vault"
    vault.mkdir()
    return Ground(vault, outside)


@pytest.fixture
def jail(ground: Ground) -> Iterator[Jail]:
    """The vault's jail."""
    jail = Jail(ground.vault)
    yield jail
    jail.close()


@pytest.fixture(scope="session")
def row(request: pytest.FixtureRequest) -> str:
    """The row of the security catalogue that a test shows."""
    return request.param


def shows(row: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Gives a test of one case the catalogue's row as its id, so that a red case names it."""

    def mark(test: Callable[P, T]) -> Callable[P, T]:
        return pytest.mark.usefixtures("row")(pytest.mark.parametrize("row", [row], indirect=True)(test))

    return mark


def read(jail: Jail, raw: str, *, max_bytes: int = 1 << 20) -> bytes:
    """What a caller gets who asks for the note `raw`."""
    return jail.read(VaultPath.note(raw), max_bytes=max_bytes).data


def walked(jail: Jail, folder: str = "", ignored: IgnoreRules = EVERYTHING) -> tuple[set[str], list[Trouble]]:
    """Paths of the notes that a walk finds, and its troubles."""
    notes: set[str] = set()
    troubles: list[Trouble] = []
    for entry in jail.walk(VaultPath.folder(folder), ignored):
        if isinstance(entry, Found):
            notes.add(entry.path.text)
        else:
            troubles.append(entry)
    return notes, troubles
