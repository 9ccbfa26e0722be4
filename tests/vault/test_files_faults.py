"""The system refuses at every step of a change: the note is the old one or the new one, and nothing else is left.

The Nth call of an operation fails, for N = 1, 2 … until the operation is through before its turn comes.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import NotWritten, VaultAway
from sidecar.vault.folder_posix import PosixFolder
from sidecar.vault.leftovers import sweep
from sidecar.vault.paths import VaultPath
from tests.limits import files_at_most
from tests.vault.conftest import shows
from tests.vault.desk import Desk, at, checksum, open_desk

Patch = pytest.MonkeyPatch

if os.name != "posix":
    pytest.skip("the calls that fail here are those of Linux and macOS", allow_module_level=True)

OLD, NEW = b"old text\n" * 100, b"new text, longer\n" * 100
CALLS = ("open", "write", "fsync", "link", "rename", "replace", "unlink", "mkdir", "rmdir", "read", "fstat")
FOREVER_NS = 1 << 62


class Faults:
    """Lets the Nth of the system's calls fail."""

    def __init__(self, nth: int, number: int) -> None:
        self.nth = nth
        self.number = number
        self.count = 0
        self.failed: str | None = None

    def install(self, patch: Patch) -> None:
        for name in CALLS:
            patch.setattr(os, name, self._faulty(name, getattr(os, name)))
        patch.setattr(PosixFolder, "_rename", self._faulty("renameat2", PosixFolder._rename))

    def _faulty(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count != self.nth:
                return real(*args, **more)
            self.failed = name
            if name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])  # some of it is on the disk
            raise OSError(self.number, os.strerror(self.number))

        return call


@contextmanager
def faults(nth: int, number: int) -> Iterator[Faults]:
    found = Faults(nth, number)
    with pytest.MonkeyPatch.context() as patch:
        found.install(patch)
        yield found


Operation = Callable[[Desk], object]

OPERATIONS: dict[str, tuple[bytes | None, Operation, bytes | None]] = {
    "create": (None, lambda desk: desk.files.create(at("a/Plan.md"), NEW), NEW),
    "overwrite": (OLD, lambda desk: desk.files.change(at("a/Plan.md"), lambda _: NEW, keep="replaced"), NEW),
    "append": (
        OLD,
        lambda desk: desk.files.change(at("a/Plan.md"), lambda old: old + NEW, expected=checksum(OLD)),
        OLD + NEW,
    ),
    "remove": (OLD, lambda desk: desk.files.remove(at("a/Plan.md"), expected=checksum(OLD)), None),
}


def content(desk: Desk) -> bytes | None:
    file = desk.vault / "a/Plan.md"
    return file.read_bytes() if file.exists() else None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", OPERATIONS)
@shows("S08")
def test_whichever_call_fails_the_note_is_old_or_new(tmp_path: Path, name: str, number: int) -> None:
    before, operation, after = OPERATIONS[name]
    failures: Counter[str] = Counter()
    for nth in range(1, 500):
        vault = tmp_path / str(nth)
        with open_desk(vault) as desk:
            if before is not None:
                desk.lay("a/Plan.md", before)
            refused: NotWritten | None = None
            with faults(nth, number) as fault:
                try:
                    operation(desk)
                except NotWritten as error:
                    refused = error
            # a mistake at the very end of a change that is made does not unmake it
            assert content(desk) == (before if refused else after), (nth, fault.failed, refused)
            if refused:
                assert str(refused).startswith("'a/Plan.md' could not be written: ")
                assert str(refused).endswith(" The old text is unchanged." if before else ".")
            sweep(desk.jail, desk.keep, before_ns=FOREVER_NS)
            assert desk.names() == (["a/Plan.md"] if content(desk) is not None else [])
            desk.look_again()
            if fault.failed is None:
                assert refused is None
                break
            failures[fault.failed] += 1
        shutil.rmtree(vault)
    else:
        pytest.fail("it never got through")
    assert failures["open"] and failures["fsync"] and failures["unlink"]
    assert name == "remove" or failures["write"] == 1


def test_without_the_exchange_a_failure_in_the_middle_tears_the_note(tmp_path: Path) -> None:
    """The control: what many programs do."""

    def in_place(file: Path) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, NEW)
        finally:
            os.close(descriptor)

    file = tmp_path / "Plan.md"
    file.write_bytes(OLD)
    with faults(2, errno.ENOSPC) as fault, pytest.raises(OSError, match="No space"):
        in_place(file)
    assert fault.failed == "write"
    assert file.read_bytes() not in (OLD, NEW)


@shows("W31")
def test_a_sync_that_fails_is_an_error_to_the_caller(tmp_path: Path, monkeypatch: Patch) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "bad disk")

    with open_desk(tmp_path / "vault") as desk:
        desk.lay("Plan.md", OLD)
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(NotWritten) as refused:
            desk.files.change(at("Plan.md"), lambda _: NEW)
        assert str(refused.value) == "'Plan.md' could not be written: input/output error. The old text is unchanged."
        with pytest.raises(NotWritten) as refused:
            desk.files.create(at("New.md"), NEW)
        assert str(refused.value) == "'New.md' could not be written: input/output error."
        monkeypatch.undo()
        assert (desk.vault / "Plan.md").read_bytes() == OLD
        assert desk.names() == ["Plan.md"]


# real disks that refuse


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("row", ["S10", "W29"])
def test_a_full_disk_leaves_the_old_note_and_no_temporary_file(tmp_path: Path, row: str) -> None:
    with mounted(tmp_path / "vault", "size=64k") as vault, open_desk(vault) as desk:
        desk.lay("Plan.md", OLD)
        for call, ending in (
            (lambda: desk.files.change(at("Plan.md"), lambda _: b"x" * 100_000), " The old text is unchanged."),
            (lambda: desk.files.create(at("New.md"), b"x" * 100_000), ""),
        ):
            with pytest.raises(NotWritten) as refused:
                call()
            assert "could not be written: no space left." + ending in str(refused.value)
            assert desk.names() == ["Plan.md"]
            assert desk.files.read(at("Plan.md")) == OLD
        desk.files.change(at("Plan.md"), lambda _: NEW)  # there is space for this one
        assert (vault / "Plan.md").read_bytes() == NEW


@pytest.mark.parametrize("row", ["S10-read-only", "W28"])
def test_a_read_only_disk_leaves_the_old_note(tmp_path: Path, row: str) -> None:
    with mounted(tmp_path / "vault", "size=1m") as vault:
        (vault / "Plan.md").write_bytes(OLD)
        subprocess.run(["mount", "-o", "remount,ro", str(vault)], check=True)
        with open_desk(vault) as desk:
            for path in ("Plan.md", "New.md", "a/New.md"):
                with pytest.raises(NotWritten, match="could not be written: read-only file system"):
                    if path == "Plan.md":
                        desk.files.change(at(path), lambda _: NEW)
                    else:
                        desk.files.create(at(path), NEW)
            assert desk.names() == ["Plan.md"]
            assert desk.files.read(at("Plan.md")) == OLD
            subprocess.run(["mount", "-o", "remount,rw", str(vault)], check=True)
            desk.files.change(at("Plan.md"), lambda _: NEW)


@pytest.mark.parametrize("row", ["S10-limit", "W30"])
def test_the_limit_of_file_sizes_leaves_the_old_note(tmp_path: Path, row: str) -> None:
    with open_desk(tmp_path / "vault") as desk:
        desk.lay("Plan.md", OLD)
        too_large = r"could not be written: file too large\. The old text is unchanged"
        with files_at_most(50_000), pytest.raises(NotWritten, match=too_large):
            desk.files.change(at("Plan.md"), lambda _: b"x" * 100_000)
        assert desk.names() == ["Plan.md"]
        assert desk.files.read(at("Plan.md")) == OLD
        desk.files.change(at("Plan.md"), lambda _: b"x" * 100_000)


def test_a_vault_that_is_away_is_not_made_anew(tmp_path: Path) -> None:
    with open_desk(tmp_path / "vault") as desk:
        (tmp_path / "vault").rename(tmp_path / "away")
        with pytest.raises(VaultAway, match="The vault folder is missing"):
            desk.files.create(VaultPath("x.md"), NEW)
        assert not (tmp_path / "vault").exists()
