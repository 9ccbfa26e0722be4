"""Any text whatever, asked for as a path: what is opened lies in the vault, or nothing is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sidecar.errors import SidecarError
from sidecar.vault.jail import Jail
from sidecar.vault.paths import VaultPath
from tests.vault.conftest import CANARY, Ground, shows

PIECES = [
    "..", ".", "/", "//", "\\", "\0", ":", "~1", "~", "$HOME", "%2e", "%2f", " ", "\n", "\x7f",
    "\u202e", "\u200b", "\u200c", "\ufeff", "\ud800", "\udcff", "é", "e\u0301", "／", "．", "․",
    ".md", ".MD", "md", "a", "b", "note", "link", "loop", "folder.md", "C:", "file://", "path:",
    ".obsidian", "OBSIDI~1", ".git", "vault", "outside", "canary.md", "a/note.md", "note.md", "::$DATA",
]  # fmt: skip

paths = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=2)), max_size=9).map("".join)


@dataclass(frozen=True)
class House:
    """A vault with links in every direction, beside a canary."""

    vault: Path
    jail: Jail
    inodes: frozenset[int]
    """Of every regular file in the vault, found without following a link."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Nothing in it changes while it is asked."""
    base = tmp_path_factory.mktemp("house")
    ground = Ground(base / "vault", base / "outside")
    for folder in (ground.vault, ground.outside):
        folder.mkdir()
    for name in ("canary.md", "note.md", "a.md"):
        (base / name).write_bytes(CANARY)
        (ground.outside / name).write_bytes(CANARY)
    for name in ("note.md", "a/note.md", "a/b.md", "folder.md/note.md", "é/é.md", ".obsidian/note.md", ".md", "b.MD"):
        ground.write(name, name)
    os.mkfifo(ground.vault / "a" / "a.md")
    (ground.vault / "link").symlink_to(ground.outside)
    (ground.vault / "link.md").symlink_to(ground.outside / "canary.md")
    (ground.vault / "a" / "link").symlink_to("..")
    (ground.vault / "a" / "loop").symlink_to(".")
    files = [Path(folder) / name for folder, _, names in os.walk(ground.vault) for name in names]
    inodes = frozenset(file.stat().st_ino for file in files if file.is_file() and not file.is_symlink())
    jail = Jail(ground.vault)
    yield House(ground.vault, jail, inodes)
    jail.close()


def check(house: House, raw: str) -> None:
    for checked in (VaultPath.note, VaultPath):  # the door alone has to hold as well
        opened = _opened(house.jail, checked, raw)
        if opened is not None:
            inode, data = opened
            assert inode in house.inodes
            assert CANARY not in data


def _opened(jail: Jail, checked: Callable[[str], VaultPath], raw: str) -> tuple[int, bytes] | None:
    try:
        note = jail.read(checked(raw), max_bytes=1000)
    except SidecarError as refused:
        assert CANARY.decode() not in str(refused)
        str(refused).encode()
        return None
    return note.stat.inode, note.data


@shows("F01")
@settings(max_examples=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("a/note.md")
@example("a/link/../../canary.md")
@example("link/canary.md")
@example("é/é.md")
@given(raw=paths)
def test_whatever_is_opened_lies_in_the_vault(house: House, raw: str) -> None:
    check(house, raw)


@shows("F01")
@pytest.mark.slow
@settings(max_examples=20_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=paths)
def test_whatever_is_opened_in_20_000_tries_lies_in_the_vault(house: House, raw: str) -> None:
    check(house, raw)


def test_the_property_sees_an_escape_and_lets_a_note_pass(house: House) -> None:
    assert (house.vault / "link" / "canary.md").stat().st_ino not in house.inodes
    assert _opened(house.jail, VaultPath.note, "a/note.md") is not None
    check(house, "a/note.md")
