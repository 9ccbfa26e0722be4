"""Controls of group W: with a defence taken out, the write does the harm. A row that can't fail proves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.services import protection
from sidecar.surfaces.notes import SURFACE
from sidecar.vault import folder_posix, names
from sidecar.vault.door import NotThere
from sidecar.vault.folder_posix import PosixFolder
from sidecar.vault.jail_posix import PosixDoor
from sidecar.vault.paths import VaultPath
from sidecar.vault.placing import Placing
from tests import wire
from tests.security.ground import SECRET, Ground, write
from tests.security.inside import served_here
from tests.security.lures import lay_lures

Patch = pytest.MonkeyPatch

if os.name != "posix":
    pytest.skip("what is taken out here is the way of Linux and macOS", allow_module_level=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    lay_lures(base)
    write(base / "vault", "Agents/Scout.md")
    (base / "vault/link").symlink_to(base / "outside")
    (base / "vault/link.md").symlink_to(base / "outside/canary.md")
    return base


def put(ground: Ground, path: str, **more: str) -> bool:
    """Whether it was written."""
    return not ground.call("write_note", path=path, content="harm\n", **more).is_error


def test_without_the_gate_a_client_writes_although_it_may_not(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """W01 and W02."""
    [tool] = [tool for tool in SURFACE.tools if tool.name == "write_note"]
    gate = tool.offered
    object.__setattr__(tool, "offered", lambda _: True)
    try:
        with served_here(base, tmp_path / "state") as ground:
            said = ground.post(wire.tool("write_note", path="x.md", content="harm")).json()
            assert "switched off" in said["result"]["content"][0]["text"]  # the second gate, right before the write
    finally:
        object.__setattr__(tool, "offered", gate)


def test_without_the_check_of_names_hidden_places_are_written(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """W04, W05 and W06."""
    monkeypatch.setattr(protection, "writable", lambda raw, *, by: VaultPath(raw))
    with served_here(base, tmp_path / "state", allow_writes=True) as ground:
        assert put(ground, ".obsidian/plugins/p/main.js")
        assert (base / "vault/.obsidian/plugins/p/main.js").read_text() == "harm\n"


def test_without_the_rule_of_portable_names_they_are_written(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """W07 to W10 and W12."""
    monkeypatch.setattr(names, "_is_portable", lambda _: True)
    with served_here(base, tmp_path / "state", allow_writes=True) as ground:
        for path in ("CON.md", "a/NUL/b.md", "dir./x.md", "a?b.md", "a\u202eb.md"):
            assert put(ground, path)


def test_without_the_look_for_twins_there_are_two(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """W13 and W14."""
    monkeypatch.setattr(Placing, "_refuse_twin", lambda *_: None)
    with served_here(base, tmp_path / "state", allow_writes=True) as ground:
        assert put(ground, "A.md")
        assert put(ground, "Notes/re\u0301sume\u0301.md")


def test_without_protection_an_agent_is_rewritten(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    check = protection.Protection.check
    monkeypatch.setattr(
        protection.Protection, "check", lambda self, raw: check(protection.Protection("x", "x.md"), raw)
    )
    with served_here(base, tmp_path / "state", allow_writes=True) as ground:
        assert put(ground, "Agents/Scout.md", mode="overwrite")


def test_without_the_walk_a_link_leads_outside(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """W22, W23 and J19."""

    def folder(door: PosixDoor, parts: tuple[str, ...]) -> PosixFolder:
        try:
            return PosixFolder(os.open(os.path.join(door._root, *parts), os.O_RDONLY | os.O_DIRECTORY))
        except OSError as failed:
            raise NotThere from failed

    monkeypatch.setattr(PosixDoor, "folder", folder)
    with served_here(base, tmp_path / "state", allow_writes=True) as ground:
        assert put(ground, "link/new.md")
        assert (base / "outside/new.md").read_text() == "harm\n"


def test_without_no_follow_the_target_of_a_link_is_what_is_changed(
    base: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """W24: its secret gets into the vault."""
    monkeypatch.setattr(folder_posix, "_READ", folder_posix._READ & ~os.O_NOFOLLOW)
    with served_here(base, tmp_path / "state", allow_writes=True) as ground:
        assert put(ground, "link.md", mode="append")
    assert (base / "vault/link.md").read_text() == SECRET + "harm\n"
