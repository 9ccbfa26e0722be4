"""Groups W and J of the security catalogue for write_note, over HTTP: only notes of the vault ever change.

Around each row the tree outside the vault is the same, and so is the vault,
but for what the row allows.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import wire
from tests.e2e.test_served import tree_hash
from tests.security.ground import INSIDE, PATIENCE_S, Ground, Said, served, write
from tests.security.lures import OUTSIDE_WORD, lay_links, lay_lures, lay_special_files, other_device
from tests.security.test_jail_rows import ROWS, fill, permissions_bite

WRITES = {"VAULT_SIDECAR_NOTES_ALLOW_WRITES": "true"}
MODES = ["create", "overwrite", "append"]
WRITTEN = "written 8816\n"

OUTSIDE = "is not a path inside the vault; use one like 'Folder/Note.md'."
PROTECTED = "is protected: agent files, the memory note and dot folders can't be written by a client."
BAD_NAME = "is not a name every system can store;"
NO_NOTE = "is not a note; notes end in .md."

LEGAL = {"J08-1", "J08-2", "J08-3", "J13-1", "J37-1", "J37-2", "J37-3"}
"""Rows whose text is an ordinary new name: it is taken literally."""
LEGAL_ROWS = [pytest.param(row.values[0], id=str(row.id)) for row in ROWS if row.id in LEGAL]
REFUSED_ROWS = [pytest.param(row.values[0], id=str(row.id)) for row in ROWS if row.id not in LEGAL]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A vault with lures, links and special files that may be written, agents and another device among them."""
    base = tmp_path_factory.mktemp("write") / "base"
    lay_lures(base)
    lay_links(base)
    lay_special_files(base / "vault")
    write(base / "vault", "Agents/Scout.md")
    write(base / "vault", "README.md")
    with (
        other_device(base / "vault" / "J39"),
        served(base, base.with_name("state"), env={**WRITES, "HOME": str(base / "home")}) as (ground, _),
    ):
        yield ground


def put(ground: Ground, path: str, content: str = WRITTEN, **more: str) -> Said:
    return ground.call("write_note", path=path, content=content, **more)


@pytest.fixture
def unchanged(ground: Ground) -> Iterator[None]:
    """Not a byte, a name, a mode or a time is changed."""
    before = ground.tree()
    yield
    assert ground.tree() == before


@contextmanager
def inside_only(ground: Ground) -> Iterator[None]:
    """What lies around the vault is the same afterwards."""
    around = [path for path in ground.base.iterdir() if path.name != "vault"]
    before = [tree_hash(path) if path.is_dir() else path.read_bytes() for path in around]
    yield
    assert sorted(path for path in ground.base.iterdir() if path.name != "vault") == sorted(around)
    assert [tree_hash(path) if path.is_dir() else path.read_bytes() for path in around] == before


# paths as text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("raw", REFUSED_ROWS)
def test_nothing_is_written_by_such_a_path(ground: Ground, unchanged: None, raw: str, mode: str) -> None:
    raw = fill(raw, ground)
    if raw == "J25-device.md" and not os.path.lexists(ground.vault / raw):
        pytest.skip("only root may make a device")
    assert put(ground, raw, mode=mode).is_error


@pytest.mark.parametrize("raw", LEGAL_ROWS)
def test_what_looks_like_a_detour_is_an_ordinary_name(ground: Ground, raw: str) -> None:
    with inside_only(ground):
        assert not put(ground, raw).is_error
        assert (ground.vault / raw).read_text() == WRITTEN
    top = ground.vault / raw.split("/")[0]
    shutil.rmtree(top) if top.is_dir() else top.unlink()


SENTENCES = [
    pytest.param(".obsidian/plugins/x/main.js", PROTECTED, id="W04"),
    pytest.param(".obsidian/community-plugins.json", PROTECTED, id="W05"),
    *(
        pytest.param(name, NO_NOTE, id=f"W06-{name}")
        for name in ("x.js", "x.sh", "x.desktop", "x.lnk", "x.url", "x.html")
    ),
    *(
        pytest.param(name, BAD_NAME, id=f"W07-{name}")
        for name in ("CON.md", "nul.md", "aux", "COM1.md", "lpt9.txt", "CONIN$.md", "COM\u00b9.md")
    ),
    pytest.param("a/NUL/b.md", BAD_NAME, id="W08"),
    *(
        pytest.param(name, BAD_NAME, id=f"W09-{number}")
        for number, name in enumerate(("x.md.", "x.md ", "dir./x.md", "dir /x.md"))
    ),
    *(
        pytest.param(name, BAD_NAME, id=f"W10-{number}")
        for number, name in enumerate(("a<b.md", "a>b.md", 'a"b.md', "a|b.md", "a?b.md", "a*b.md"))
    ),
    *(pytest.param(f"a{letter}b.md", OUTSIDE, id=f"W11-{ord(letter):02x}") for letter in "\n\r\t\x1b\x7f"),
    *(pytest.param(f"a{letter}b.md", BAD_NAME, id=f"W12-{ord(letter):04x}") for letter in "\u202e\u200b"),
    pytest.param("Readme.md", "differs only in case from 'README.md'; use that name.", id="W13-1"),
    pytest.param("notes/new.md", "differs only in case from 'Notes/new.md'; use that name.", id="W13-2"),
    pytest.param(
        unicodedata.normalize("NFD", "Notes/r\u00e9sum\u00e9.md"), "differs only in Unicode form from", id="W14-1"
    ),
    pytest.param("Notes/re\u0301sume\u0301.md", "differs only in Unicode form from", id="J38"),
    pytest.param("Agents/Scout.md", PROTECTED, id="agents"),
    pytest.param("aGENTS/new.md", PROTECTED, id="agents in another case"),
    pytest.param("J31~1/x.md", BAD_NAME, id="J31"),
    pytest.param("J18.md", "'J18.md' could not be written: it is a link, and links are not followed.", id="W24-1"),
    pytest.param("J20.md", "'J20.md' could not be written: it is a link, and links are not followed.", id="W24-2"),
    pytest.param("J22.md", "'J22.md' could not be written: it is a link, and links are not followed.", id="J22"),
    pytest.param(
        "J19/new.md", "'J19/new.md' could not be written: a part of its path is a link or no folder.", id="W22"
    ),
    pytest.param("J24.md", "could not be written: it is not a regular file.", id="J24"),
    pytest.param("J26.md", "could not be written: it is a folder.", id="J26"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("raw, sentence", SENTENCES)
def test_a_refusal_says_what_is_right(ground: Ground, unchanged: None, raw: str, sentence: str, mode: str) -> None:
    said = put(ground, raw, mode=mode)
    assert said.is_error
    assert sentence in said.text


@pytest.mark.parametrize("escaped", [pytest.param(rb"\ud800.md", id="J35-1"), pytest.param(rb"\udcff.md", id="J35-2")])
def test_half_a_character_never_reaches_the_tool(ground: Ground, unchanged: None, escaped: bytes) -> None:
    for field in ("path", "content"):
        arguments = {"path": "x.md", "content": "x"} | {field: "@"}
        reply = ground.post(wire.tool("write_note", **arguments).replace(b"@", escaped))
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32700)


@pytest.mark.parametrize("row", ["J39"])
def test_another_device_is_not_written(ground: Ground, row: str) -> None:
    if not (ground.vault / "J39").exists():
        pytest.skip("mounting is not permitted here")
    for mode in MODES:
        assert "could not be written: it is on another device." in put(ground, "J39/x.md", mode=mode).text
        assert put(ground, "J39/new.md", mode=mode).is_error
    assert os.listdir(ground.vault / "J39") == ["x.md"]


@pytest.mark.parametrize("row", ["J40", "W26"])
def test_a_hard_link_outside_keeps_its_text(ground: Ground, row: str) -> None:
    with inside_only(ground):
        assert not put(ground, "J40.md", mode="append").is_error
        assert WRITTEN in ground.call("read_note", path="J40.md").text
    assert (ground.outside / "J40.md").read_text() == OUTSIDE_WORD


@pytest.mark.parametrize("row", ["J44"])
def test_an_error_does_not_tell_what_exists_outside(ground: Ground, unchanged: None, row: str) -> None:
    for there, nowhere in (("../canary.md", "../nowhere.md"), ("J19/x.md", "J19/nowhere.md"), (".env", ".none")):
        first, second = put(ground, there, mode="overwrite"), put(ground, nowhere, mode="overwrite")
        assert first.text.replace(there, "PATH") == second.text.replace(nowhere, "PATH")


@pytest.mark.parametrize("row", ["J43", "W25-unreadable"])
def test_what_can_not_be_read_is_not_written(tmp_path: Path, row: str) -> None:
    base = tmp_path / "base"
    closed = write(base / "vault", "closed.md", "closed 2281")
    shut = write(base / "vault", "shut/x.md").parent
    closed.chmod(0)
    shut.chmod(0)
    with served(base, tmp_path / "state", under=permissions_bite(), env=WRITES) as (ground, _):
        for path in ("closed.md", "shut/x.md", "shut/new.md"):
            for mode in MODES:
                assert "permission denied" in put(ground, path, mode=mode).text
    shut.chmod(0o700)
    closed.chmod(0o600)
    assert (closed.read_text(), os.listdir(shut)) == ("closed 2281", ["x.md"])


def test_the_protected_places_are_unchanged_after_a_fuzz_of_paths(ground: Ground) -> None:
    """The agents folder, the memory note, the dot folders, and all that lies outside."""
    hidden = [ground.vault / name for name in ("Agents", ".obsidian", ".git", ".trash", "a/.b")]
    before = [tree_hash(path) for path in hidden]
    chance = random.Random(8816)
    pieces = ["Agents", "agents", "AGENTS", ".obsidian", ".git", "..", ".", "/", "/", "/", "\\", "Scout", "Memory", "a"]
    pieces += [".md", ".md", ".MD", "\u200b", "\u0301", " ", "~1", "%2e", "AGENTS~1", ":", "x"]
    made = 0
    with inside_only(ground):
        for _ in range(600):
            path = "".join(chance.choices(pieces, k=chance.randint(1, 6))) + chance.choice(["", ".md"])
            made += not put(ground, path, mode=chance.choice(MODES)).is_error
    assert [tree_hash(path) for path in hidden] == before
    assert made > 5, "nearly all of it was refused, so this proves little"


# the switch


@pytest.fixture
def switched(tmp_path: Path) -> Iterator[Ground]:
    """Writing is off, and can be switched."""
    write(tmp_path / "base/vault", "a.md")
    with served(tmp_path / "base", tmp_path / "state") as (ground, _):
        yield ground


def offered(ground: Ground) -> bool:
    tools = ground.post(wire.call("tools/list")).json()["result"]["tools"]
    return "write_note" in {tool["name"] for tool in tools}


@pytest.mark.parametrize("row", ["W01", "W02", "W03"])
def test_write_note_does_not_exist_while_writing_is_off(switched: Ground, row: str) -> None:
    order = wire.tool("write_note", path="new.md", content="x")

    def refused() -> bool:
        error = switched.post(order).json().get("error", {})
        return (error.get("code"), error.get("message")) == (-32602, "Unknown tool: write_note")

    before = switched.tree()
    assert not offered(switched)
    assert refused()
    assert switched.order("settings", allow_writes=True).status == 200
    assert offered(switched)  # and now it is called, but too late
    assert switched.order("settings", allow_writes=False).json() == {"allow_writes": False}
    assert refused()
    assert switched.tree() == before
    switched.order("settings", allow_writes=True)
    assert not switched.call("write_note", path="new.md", content="x").is_error


def test_the_switch_lasts_and_what_is_fixed_can_not_be_switched(tmp_path: Path) -> None:
    write(tmp_path / "base/vault", "a.md")
    with served(tmp_path / "base", tmp_path / "state") as (ground, _):
        ground.order("settings", allow_writes=True)
    with served(tmp_path / "base", tmp_path / "state") as (ground, _):
        assert offered(ground)
        assert ground.admin("status")["allow_writes"] is True
    fixed = {"VAULT_SIDECAR_NOTES_ALLOW_WRITES": "false"}
    with served(tmp_path / "base", tmp_path / "state", env=fixed) as (ground, _):
        assert not offered(ground)
        reply = ground.order("settings", allow_writes=True)
        assert (reply.status, reply.json()["message"]) == (
            409,
            "Allow writes comes from the environment variable VAULT_SIDECAR_NOTES_ALLOW_WRITES;"
            " change it there and restart.",
        )
        assert not offered(ground)


# links that come and go


# Both names are there at every moment; a folder that is missing for a moment would be made by the write.
SWAPPER = """
import ctypes, os, sys, threading, time
libc, (v, o) = ctypes.CDLL(None), map(os.fsencode, sys.argv[1:])
os.mkdir(v + b"/swap"); os.symlink(o, v + b"/link")
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("begun", flush=True)
while not over.is_set():
    assert libc.renameat2(-100, v + b"/swap", -100, v + b"/link", 2) == 0
    time.sleep(0.0005)
"""


@contextmanager
def exchanging(vault: Path, outside: Path) -> Iterator[None]:
    """Another process exchanges the folder `swap` and a link to the outside, all the time."""
    command = [sys.executable, "-I", "-c", SWAPPER, str(vault), str(outside)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdin is not None and swapper.stdout is not None
        assert swapper.stdout.readline() == b"begun\n"
        try:
            yield
        finally:
            swapper.stdin.close()
    assert swapper.returncode == 0
    for name in ("swap", "link"):
        path = vault / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)


def race(write_to: Callable[[str], bool], vault: Path, outside: Path, *, until_escaped: bool) -> set[str]:
    """How writing into the folder ended; every escape is cleared away."""
    seen: set[str] = set()
    begin = time.monotonic()
    with exchanging(vault, outside):
        while (now := time.monotonic() - begin) < 2 or ((until_escaped or len(seen) < 2) and now < PATIENCE_S):
            seen.add("written" if write_to(f"swap/{int(now * 1e6)}.md") else "refused")
            escaped = list(outside.glob("[0-9]*"))
            if escaped:
                seen.add("escaped")
                if until_escaped:
                    break
    for path in outside.glob("[0-9]*"):
        path.unlink()
    return seen


@pytest.mark.skipif(sys.platform != "linux", reason="the swapping needs Linux")
@pytest.mark.parametrize("row", ["W23", "J45-write"])
def test_a_parent_swapped_for_a_link_leads_nowhere(ground: Ground, row: str) -> None:
    before = sorted(os.listdir(ground.outside))
    seen = race(lambda path: not put(ground, path).is_error, ground.vault, ground.outside, until_escaped=False)
    assert seen == {"refused", "written"}
    assert sorted(os.listdir(ground.outside)) == before


@pytest.mark.skipif(sys.platform != "linux", reason="the swapping needs Linux")
def test_the_same_swapping_leads_a_weak_writer_outside(tmp_path: Path) -> None:
    """The control of W23."""
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    vault.mkdir()
    outside.mkdir()

    def weak(path: str) -> bool:
        """Checks where the path leads, then writes by name."""
        try:
            if not (vault / path).parent.resolve().is_relative_to(vault.resolve()):
                return False
        except OSError:  # it was a link when it was looked at, and none any more when it was read
            return False
        time.sleep(0.0002)
        (vault / path).write_text(WRITTEN)
        return True

    assert "escaped" in race(weak, vault, outside, until_escaped=True)


# disks that refuse, under a running daemon


@pytest.mark.parametrize("row", ["S10-daemon", "W28-daemon", "W29-daemon"])
def test_the_daemon_outlives_a_full_and_a_read_only_disk(tmp_path: Path, row: str) -> None:
    vault = tmp_path / "base/vault"
    vault.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(vault)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        write(vault, "Plan.md")
        with served(tmp_path / "base", tmp_path / "state", env=WRITES) as (ground, _):
            said = put(ground, "Plan.md", "x" * 100_000, mode="overwrite")
            assert said.text == "'Plan.md' could not be written: no space left. The old text is unchanged."
            assert ground.call("read_note", path="Plan.md").text == INSIDE
            assert os.listdir(vault) == ["Plan.md"]
            subprocess.run(["mount", "-o", "remount,ro", str(vault)], check=True)
            assert "read-only file system. The old text is unchanged." in put(ground, "Plan.md", mode="append").text
            assert "read-only file system." in put(ground, "New.md").text
            assert ground.call("read_note", path="Plan.md").text == INSIDE
            subprocess.run(["mount", "-o", "remount,rw", str(vault)], check=True)
            assert not put(ground, "Plan.md", mode="append").is_error
            assert ground.call("read_note", path="Plan.md").text == INSIDE + WRITTEN
    finally:
        subprocess.run(["umount", str(vault)], check=True)
