"""A place to run commands in: a vault, a state root, and nothing of the person who runs the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keyring
import pytest

from sidecar.bridge import client
from sidecar.bridge.places import state_dir_of
from sidecar.cli.main import main
from tests.bridge.keyrings import Memory

_PEOPLES_FOLDERS = ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    vault: Path
    root: Path
    keyring: Memory

    @property
    def home(self) -> Path:
        """The home folder, where clients keep their files."""
        return self.vault.parent / "person"

    @property
    def state(self) -> Path:
        return state_dir_of(self.vault, self.root)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A vault that the commands find by themselves, because the present folder lies in it."""
    for name in [name for name in os.environ if name.startswith("VAULT_SIDECAR_") or name in _PEOPLES_FOLDERS]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()
    backend = Memory()
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
    monkeypatch.setattr(client, "_PROOF_TIMEOUT_S", 60.0)  # a daemon of tests may be held up
    found = Place(tmp_path / "My Notes", tmp_path / "root", backend)
    (found.vault / ".obsidian").mkdir(parents=True)
    (found.vault / "Folder").mkdir()
    found.state.mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("VAULT_SIDECAR_STATE", str(found.root))
    monkeypatch.chdir(found.vault / "Folder")
    return found


@pytest.fixture
def run(place: Place, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs one command in this process."""

    def call(*argv: str) -> Said:
        try:
            code = main(argv)
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return call
