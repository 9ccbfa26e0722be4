"""`plugin install`: whole or not at all, never over what is the person's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.cli import plugin
from sidecar.errors import NotWritten
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]

FILES = {"main.js": b"x = 1\n", "manifest.json": b'{"id": "vault-sidecar", "version": "0.1.0"}', "styles.css": b""}
NEWER = {**FILES, "main.js": b"x = 2\n", "manifest.json": b'{"id": "vault-sidecar", "version": "0.2.0"}'}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package as it was built: a folder that holds what a test puts into it."""
    folder = tmp_path / "package" / "plugin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(plugin.resources, "files", lambda _: folder.parent)
    yield folder


def build(package: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (package / name).write_bytes(content)


def installed(place: Place) -> dict[str, bytes]:
    folder = place.vault / ".obsidian" / "plugins" / "vault-sidecar"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_build_without_a_plugin_says_so(run: Run, package: Path, place: Place) -> None:
    said = run("plugin", "install")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "vault-sidecar: this build of vault-sidecar has no editor plugin in it;"
        " in a clone of the sources 'scripts/plugin' makes it\n"
    )
    build(package, {"main.js": b""})
    assert run("plugin", "install").code == 1, "a part of it is none either"
    assert list((place.vault / ".obsidian").iterdir()) == []


def test_it_is_installed_brought_up_to_date_and_left_alone(run: Run, package: Path, place: Place) -> None:
    build(package, FILES)
    said = run("plugin", "install")
    folder = place.vault / ".obsidian" / "plugins" / "vault-sidecar"
    assert (said.code, said.out) == (0, f"version 0.1.0 of the plugin is in {folder}\n")
    assert "switch on Vault Sidecar" in said.err
    assert installed(place) == FILES
    own = b'{"showStatusBar": false}'
    (folder / "data.json").write_bytes(own)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert "nothing was changed" in run("plugin", "install").out
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    build(package, NEWER)
    facts = json.loads(run("plugin", "install", "--json").out)
    assert facts == {"version": "0.2.0", "folder": str(folder), "changed": True}
    assert installed(place) == {**NEWER, "data.json": own}
    assert os.listdir(folder.parent) == ["vault-sidecar"]


def test_a_folder_that_no_editor_has_opened_is_left_as_it_is(run: Run, package: Path, place: Place) -> None:
    build(package, FILES)
    (place.vault / ".obsidian").rmdir()
    said = run("plugin", "install", "--vault", str(place.vault))
    assert said.code == 1
    assert said.err == (
        "vault-sidecar: this folder has no .obsidian in it: open it in Obsidian as a vault once, then try again\n"
    )
    assert not (place.vault / ".obsidian").exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_in_the_way_is_not_followed(run: Run, package: Path, place: Place, tmp_path: Path, kind: str) -> None:
    build(package, FILES)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place.vault / ".obsidian" / "plugins").mkdir()
    target = place.vault / ".obsidian" / "plugins" / "vault-sidecar"
    if kind == "link":
        target.symlink_to(elsewhere, target_is_directory=True)
    else:
        target.write_bytes(b"")
    said = run("plugin", "install")
    assert said.code == 1 and "is a link or a file" in said.err
    assert os.listdir(elsewhere) == []


def test_a_file_that_is_a_link_is_replaced_and_not_written_through(
    run: Run, package: Path, place: Place, tmp_path: Path
) -> None:
    build(package, FILES)
    run("plugin", "install")
    canary = tmp_path / "canary"
    canary.write_bytes(FILES["main.js"])
    script = place.vault / ".obsidian" / "plugins" / "vault-sidecar" / "main.js"
    script.unlink()
    script.symlink_to(canary)
    assert "is in" in run("plugin", "install").out
    assert not script.is_symlink()
    build(package, NEWER)
    run("plugin", "install")
    assert canary.read_bytes() == FILES["main.js"]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="folders refuse nobody here")
def test_a_disk_that_refuses_leaves_nothing_half(place: Place) -> None:
    (place.vault / ".obsidian").chmod(0o500)
    with pytest.raises(NotWritten, match="can't be written: Permission denied"):
        plugin.install(place.vault, FILES)


@pytest.mark.parametrize("is_update", [False, True])
def test_a_disk_that_is_full_leaves_the_old_or_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_update: bool
) -> None:
    if is_update:
        plugin.install(place.vault, FILES)
    calls = 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(plugin.os, "fsync", full)
    with pytest.raises(NotWritten, match="No space left on device"):
        plugin.install(place.vault, NEWER)
    folder = place.vault / ".obsidian" / "plugins"
    if is_update:
        assert installed(place)["manifest.json"] == FILES["manifest.json"], "which the editor goes by"
        assert set(installed(place)) == set(FILES)
    else:
        assert list(folder.iterdir()) == []
