"""Controls of group J: with a defence taken out, the secret comes back. A row that can't fail proves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sidecar.vault import jail_posix, paths
from sidecar.vault.door import Entry
from sidecar.vault.jail import Jail
from sidecar.vault.jail_posix import PosixDoor
from sidecar.vault.paths import VaultPath
from tests import wire
from tests.lab import wait_until
from tests.security.ground import CANARY, INSIDE, LURE, Ground, said
from tests.security.inside import served_here
from tests.security.lures import lay_lures

Patch = pytest.MonkeyPatch

if os.name != "posix":
    pytest.skip("what is taken out here is the way of Linux and macOS", allow_module_level=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    lay_lures(base)
    (base / "vault" / "link").symlink_to(base / "outside")
    (base / "vault" / "link.md").symlink_to(base / "outside" / "canary.md")
    return base


def read(ground: Ground, path: str) -> str:
    """What read_note answers, whatever it is."""
    return said(ground.ask(wire.tool("read_note", path=path))).text


def without_the_check_of_the_text(monkeypatch: Patch) -> None:
    monkeypatch.setattr(VaultPath, "note", VaultPath)


def without_the_walk(monkeypatch: Patch) -> None:
    """A door that opens by name, as most programs do."""

    def open_file(door: PosixDoor, parts: Sequence[str]) -> int:
        return os.open(os.path.join(door._root, "/".join(parts)), os.O_RDONLY | os.O_NONBLOCK)

    monkeypatch.setattr(PosixDoor, "open_file", open_file)


def without_no_follow(monkeypatch: Patch) -> None:
    for flags in ("_FILE", "_STEP", "_LIST"):
        monkeypatch.setattr(jail_posix, flags, getattr(jail_posix, flags) & ~os.O_NOFOLLOW)


OUTWARD = ["../canary.md", "a/../../canary.md", "../vault-secret/x.md", "BASE/canary.md"]


def test_without_both_checks_a_path_leads_anywhere(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """J01, J02, J05 and J17."""
    without_the_check_of_the_text(monkeypatch)
    without_the_walk(monkeypatch)
    with served_here(base, tmp_path / "state") as ground:
        for raw in OUTWARD:
            assert CANARY in read(ground, raw.replace("BASE", str(base)))


@pytest.mark.parametrize("take_out", [without_the_check_of_the_text, without_the_walk])
def test_either_check_alone_still_holds(
    base: Path, tmp_path: Path, monkeypatch: Patch, take_out: Callable[[Patch], None]
) -> None:
    take_out(monkeypatch)
    with served_here(base, tmp_path / "state") as ground:
        for raw in OUTWARD:
            assert ground.call("read_note", path=raw.replace("BASE", str(base))).is_error
        assert ground.call("read_note", path="a.md").text == INSIDE


def test_without_no_follow_a_link_leads_outside(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """J18, J19 and J41."""
    without_no_follow(monkeypatch)
    with served_here(base, tmp_path / "state") as ground:
        assert CANARY in read(ground, "link.md")
        assert CANARY in read(ground, "link/x.md")


def test_without_no_follow_in_the_walk_what_is_outside_is_indexed(
    base: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """J42."""
    without_no_follow(monkeypatch)

    def entry(found: os.DirEntry[str], takes: Callable[[str], bool]) -> Entry | None:
        if found.is_dir():
            return Entry(found.name, None)
        return Entry(found.name, found.stat()) if takes(found.name) else None

    monkeypatch.setattr(jail_posix, "_entry", entry)
    with served_here(base, tmp_path / "state") as ground:
        assert CANARY in said(ground.ask(wire.tool("search_notes", query=LURE))).text


def test_without_the_rule_on_dots_hidden_folders_are_open(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """J27 and J28."""
    monkeypatch.setattr(paths, "is_hidden", lambda _: False)
    with served_here(base, tmp_path / "state") as ground:
        for raw in (".obsidian/x.md", ".trash/x.md", ".hidden.md", "a/.b/c.md"):
            assert CANARY in read(ground, raw)


def test_without_the_rule_on_suffixes_every_file_is_open(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """J33."""
    monkeypatch.setattr(paths, "is_note_name", lambda _: True)
    with served_here(base, tmp_path / "state") as ground:
        for raw in ("image.png", "main.js", "x.md.exe", "x"):
            assert CANARY in read(ground, raw)


def test_without_nonblock_a_fifo_holds_its_reader(base: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """J24."""
    fifo = base / "vault" / "fifo.md"

    def let_go() -> bool:
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads from it
            return False
        return True

    with served_here(base, tmp_path / "state") as ground:
        os.mkfifo(fifo)
        monkeypatch.setattr(jail_posix, "_FILE", jail_posix._FILE & ~os.O_NONBLOCK)
        body = wire.tool("read_note", path=fifo.name)
        with wire.Wire(ground.port, timeout_s=1) as client:
            client.send(wire.request("POST", "/mcp", wire.mcp_headers(ground.port, ground.token), body))
            with pytest.raises(TimeoutError):
                client.reply()
            wait_until(let_go)


def test_without_a_look_at_the_way_a_link_above_the_vault_leads_to_another(tmp_path: Path, monkeypatch: Patch) -> None:
    """The last folder alone is no link, so refusing that one is not enough."""
    monkeypatch.setattr(jail_posix, "_open_root", lambda root: os.open(root, jail_posix._STEP))
    for above in ("above", "elsewhere"):
        (tmp_path / above / "vault").mkdir(parents=True)
        (tmp_path / above / "vault/a.md").write_text(INSIDE if above == "above" else CANARY)
    jail = Jail(tmp_path / "above/vault")
    (tmp_path / "above").rename(tmp_path / "moved")
    (tmp_path / "above").symlink_to(tmp_path / "elsewhere")
    jail.reopen()
    assert jail.read(VaultPath.note("a.md"), max_bytes=100).data.decode() == CANARY
    jail.close()
