"""One note is changed whole or not at all, and nobody's edit is lost."""

from __future__ import annotations

import errno
import gc
import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import BadPath, Conflict, NotFound, NotWritten, TooLarge
from sidecar.vault import folder_posix
from sidecar.vault.door import Unsupported
from sidecar.vault.files import Changed
from sidecar.vault.folder_posix import PosixFolder
from sidecar.vault.placing import Exists
from sidecar.vault.resting import Resting
from tests.vault.conftest import shows
from tests.vault.desk import MAX_BYTES, Desk, at, checksum, open_desk

Patch = pytest.MonkeyPatch

if os.name != "posix":
    pytest.skip("the folder that is tested is the one of Linux and macOS", allow_module_level=True)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path / "vault") as desk:
        yield desk


def without_exchange(patch: Patch) -> None:
    def swap(folder: PosixFolder, name: str, other: str) -> None:
        raise Unsupported

    patch.setattr(PosixFolder, "swap", swap)


def without_links(patch: Patch) -> None:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    patch.setattr(os, "link", link)


def without_any_help(patch: Patch) -> None:
    """FAT behind an old kernel: neither links nor any rename but the plain one."""

    def rename(folder: PosixFolder, name: str, new: str, wish: int) -> None:
        raise Unsupported

    without_links(patch)
    patch.setattr(PosixFolder, "_rename", rename)


def nothing(patch: Patch) -> None:
    pass


EVERY_DISK = pytest.mark.parametrize("disk", [nothing, without_exchange, without_links, without_any_help])


@EVERY_DISK
def test_a_note_is_created_replaced_and_removed(desk: Desk, monkeypatch: Patch, disk: Any) -> None:
    disk(monkeypatch)
    made = desk.files.create(at("a/b/Plan.md"), b"one\n")
    assert (made.data, made.before, made.checksum) == (b"one\n", None, checksum(b"one\n"))
    changed = desk.files.change(at("a/b/Plan.md"), lambda old: old + b"two\n", expected=made.checksum)
    assert (changed.data, changed.before) == (b"one\ntwo\n", b"one\n")
    assert (desk.vault / "a/b/Plan.md").read_bytes() == b"one\ntwo\n"
    assert desk.names() == ["a/b/Plan.md"]
    assert desk.files.remove(at("a/b/Plan.md"), expected=changed.checksum) == b"one\ntwo\n"
    assert desk.names() == []
    desk.look_again()
    assert desk.kept == []


@EVERY_DISK
@shows("W18")
def test_creating_what_exists_is_a_conflict(desk: Desk, monkeypatch: Patch, disk: Any) -> None:
    disk(monkeypatch)
    desk.lay("Plan.md")
    with pytest.raises(Exists, match=r"^'Plan\.md' exists already\.$"):
        desk.files.create(at("Plan.md"), b"new")
    assert (desk.vault / "Plan.md").read_bytes() == b"old\n"
    assert desk.names() == ["Plan.md"]


@EVERY_DISK
@shows("W19")
def test_another_checksum_than_expected_is_a_conflict(desk: Desk, monkeypatch: Patch, disk: Any) -> None:
    disk(monkeypatch)
    desk.lay("Plan.md", b"foreign edit\n")
    for call in (
        lambda: desk.files.change(at("Plan.md"), lambda _: b"new", expected=checksum(b"old\n")),
        lambda: desk.files.remove(at("Plan.md"), expected=checksum(b"old\n")),
    ):
        with pytest.raises(Changed) as stale:
            call()
        now = checksum(b"foreign edit\n")
        assert str(stale.value) == f"'Plan.md' has changed; its checksum is now {now}. Read it again before writing."
    assert (desk.vault / "Plan.md").read_bytes() == b"foreign edit\n"


def test_what_is_missing_can_not_be_changed(desk: Desk) -> None:
    for path in ("Plan.md", "no/folder/Plan.md"):
        for call in (desk.files.read, desk.files.remove):
            with pytest.raises(NotFound, match=f"^There is no note '{path}'.$"):
                call(at(path))
    assert list(desk.vault.iterdir()) == []


def test_the_old_text_is_kept_where_that_is_asked_for(desk: Desk) -> None:
    desk.lay("Plan.md")
    desk.files.change(at("Plan.md"), lambda _: b"new", keep="replaced")
    assert desk.kept == [("Plan.md", b"old\n", "replaced")]


def test_a_text_that_can_not_be_kept_is_not_replaced(desk: Desk, monkeypatch: Patch) -> None:
    desk.lay("Plan.md")

    def keep(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(desk.files, "_keep", keep)
    with pytest.raises(NotWritten, match="its old text can't be kept: no space left"):
        desk.files.change(at("Plan.md"), lambda _: b"new", keep="replaced")
    assert (desk.vault / "Plan.md").read_bytes() == b"old\n"


@shows("W25")
@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664, 0o444])
def test_the_mode_stays(desk: Desk, mode: int) -> None:
    desk.lay("Plan.md").chmod(mode)
    desk.files.change(at("Plan.md"), lambda _: b"new")
    assert stat.S_IMODE((desk.vault / "Plan.md").stat().st_mode) == mode


def test_new_notes_and_folders_have_the_rights_of_the_folder_they_come_into(desk: Desk) -> None:
    """The daemon's own mask would hide a new note from whoever shares the vault."""
    desk.vault.chmod(0o750)
    before = os.umask(0o077)
    try:
        desk.files.create(at("new/Plan.md"), b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((desk.vault / "new").stat().st_mode) == 0o750
    assert stat.S_IMODE((desk.vault / "new/Plan.md").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(desk: Desk) -> None:
    os.chown(desk.vault, 1000, 1001)
    os.chown(desk.lay("Plan.md"), 1002, 1003)
    desk.files.change(at("Plan.md"), lambda _: b"new")
    desk.files.create(at("New.md"), b"new")
    owners = [((desk.vault / name).stat().st_uid, (desk.vault / name).stat().st_gid) for name in ("Plan.md", "New.md")]
    assert owners == [(1002, 1003), (1000, 1001)]


@EVERY_DISK
@shows("W26")
def test_the_other_name_of_a_hard_link_keeps_its_text(desk: Desk, monkeypatch: Patch, disk: Any) -> None:
    outside = desk.vault.parent / "outside.md"
    outside.write_bytes(b"old\n")
    (desk.vault / "Plan.md").hardlink_to(outside)
    disk(monkeypatch)
    desk.files.change(at("Plan.md"), lambda old: old + b"new\n")
    assert outside.read_bytes() == b"old\n"
    assert (desk.vault / "Plan.md").read_bytes() == b"old\nnew\n"
    outside.write_bytes(b"its own life\n")
    desk.look_again()
    assert desk.kept == []  # it has a name; nothing was lost


@pytest.mark.parametrize(
    "lay, why",
    [
        pytest.param(lambda v: (v / "x.md").symlink_to(v / "other.md"), "it is a link", id="W24"),
        pytest.param(lambda v: (v / "x.md").symlink_to(v.parent / "nothing.md"), "it is a link", id="J22"),
        pytest.param(lambda v: (v / "x.md").symlink_to("x.md"), "it is a link", id="J21"),
        pytest.param(lambda v: os.mkfifo(v / "x.md"), "it is not a regular file", id="J24"),
        pytest.param(lambda v: (v / "x.md").mkdir(), "it is a folder", id="J26"),
    ],
)
def test_what_is_no_file_is_not_written(desk: Desk, lay: Any, why: str) -> None:
    desk.lay("other.md")
    lay(desk.vault)
    before = os.lstat(desk.vault / "x.md")
    for call in (
        lambda: desk.files.create(at("x.md"), b"new"),
        lambda: desk.files.change(at("x.md"), lambda _: b"new"),
        lambda: desk.files.remove(at("x.md")),
    ):
        with pytest.raises(NotWritten, match=f"^'x.md' could not be written: {why}"):
            call()
    assert os.lstat(desk.vault / "x.md") == before
    assert (desk.vault / "other.md").read_bytes() == b"old\n"
    assert not (desk.vault.parent / "nothing.md").exists()


@shows("W22")
def test_a_missing_folder_is_made_but_never_through_a_link(desk: Desk) -> None:
    outside = desk.vault.parent / "outside"
    outside.mkdir()
    (desk.vault / "link").symlink_to(outside)
    (desk.vault / "inner").symlink_to(".")
    (desk.vault / "file").write_bytes(b"x")
    for path in ("link/x.md", "link/deep/x.md", "inner/x.md", "file/x.md"):
        with pytest.raises(NotWritten, match="a part of its path is a link or no folder"):
            desk.files.create(at(path), b"new")
        with pytest.raises(NotFound):
            desk.files.change(at(path), lambda _: b"new")
    assert list(outside.iterdir()) == []
    assert sorted(os.listdir(desk.vault)) == ["file", "inner", "link"]


@pytest.mark.parametrize(
    "there, wanted, sentence",
    [
        pytest.param(
            "README.md", "readme.md", "'readme.md' differs only in case from 'README.md'; use that name.", id="W13"
        ),
        pytest.param(
            "Projects/Plan.md",
            "projects/plan.md",
            "'projects/plan.md' differs only in case from 'Projects/Plan.md'; use that name.",
            id="W13-folder",
        ),
        pytest.param(
            "Ü.md",
            unicodedata.normalize("NFD", "Ü.md"),
            f"'{unicodedata.normalize('NFD', 'Ü.md')}' differs only in Unicode form from 'Ü.md'; use that name.",
            id="W14",
        ),
    ],
)
def test_no_name_gets_a_twin(desk: Desk, there: str, wanted: str, sentence: str) -> None:
    desk.lay(there)
    with pytest.raises(Conflict) as twin:
        desk.files.create(at(wanted), b"new")
    assert str(twin.value) == sentence
    assert desk.names() == [there]


def test_a_new_name_is_in_nfc_and_an_old_one_stays_as_it_is(desk: Desk) -> None:
    name = unicodedata.normalize("NFD", "Ü.md")
    with pytest.raises(BadPath):
        desk.files.create(at(name), b"new")
    with pytest.raises(BadPath):
        desk.files.create(at("OBSIDI~1/x.md"), b"new")
    assert list(desk.vault.iterdir()) == []
    desk.lay(name)
    desk.files.change(at(name), lambda old: old + b"new\n")
    assert (desk.vault / name).read_bytes() == b"old\nnew\n"


def test_a_note_that_is_too_large_is_not_changed(desk: Desk) -> None:
    desk.lay("Plan.md", b"x" * (MAX_BYTES + 1))
    with pytest.raises(TooLarge):
        desk.files.change(at("Plan.md"), lambda _: b"new")


# other programs at the same moment


class Intruder:
    """Does something when the exchange is about to happen, or has just happened."""

    def __init__(self, patch: Patch, before: Any = None, after: Any = None) -> None:
        real = PosixFolder.swap
        self.swaps = 0

        def swap(folder: PosixFolder, name: str, other: str) -> None:
            self.swaps += 1
            if self.swaps == 1 and before:
                before()
            real(folder, name, other)
            if self.swaps == 1 and after:
                after()

        patch.setattr(PosixFolder, "swap", swap)


def save_by_rename(file: Path, data: bytes) -> None:
    other = file.with_name("other.tmp")
    other.write_bytes(data)
    other.rename(file)


@pytest.mark.parametrize("save", [save_by_rename, Path.write_bytes], ids=["by rename", "in place"])
def test_an_edit_in_the_last_moment_stays(desk: Desk, monkeypatch: Patch, save: Any) -> None:
    file = desk.lay("Plan.md")
    Intruder(monkeypatch, before=lambda: save(file, b"foreign\n"))
    with pytest.raises(Changed, match=f"its checksum is now {checksum(b'foreign' + bytes([10]))}"):
        desk.files.change(at("Plan.md"), lambda _: b"new", expected=checksum(b"old\n"))
    assert file.read_bytes() == b"foreign\n"
    desk.look_again()
    assert (desk.names(), desk.kept) == (["Plan.md"], [])


@pytest.mark.parametrize("save", [save_by_rename, Path.write_bytes], ids=["by rename", "in place"])
def test_without_an_expectation_the_change_is_made_on_top_of_such_an_edit(
    desk: Desk, monkeypatch: Patch, save: Any
) -> None:
    file = desk.lay("Plan.md")
    Intruder(monkeypatch, before=lambda: save(file, b"foreign\n"))
    desk.files.change(at("Plan.md"), lambda old: old + b"new\n")
    assert file.read_bytes() == b"foreign\nnew\n"
    assert desk.names() == ["Plan.md"]


@pytest.mark.parametrize("huge", [save_by_rename, Path.write_bytes], ids=["by rename", "in place"])
def test_an_edit_that_is_too_large_for_us_stays_as_well(desk: Desk, monkeypatch: Patch, huge: Any) -> None:
    file = desk.lay("Plan.md")
    Intruder(monkeypatch, before=lambda: huge(file, b"x" * (MAX_BYTES + 1)))
    with pytest.raises(TooLarge):
        desk.files.change(at("Plan.md"), lambda _: b"new", expected=checksum(b"old\n"))
    assert file.stat().st_size == MAX_BYTES + 1
    assert (desk.names(), desk.kept) == (["Plan.md"], [])


def test_a_note_that_is_deleted_in_the_last_moment_is_missing(desk: Desk, monkeypatch: Patch) -> None:
    file = desk.lay("Plan.md")
    Intruder(monkeypatch, before=file.unlink)
    with pytest.raises(NotFound):
        desk.files.change(at("Plan.md"), lambda _: b"new")
    assert desk.names() == []


def test_without_the_look_at_what_came_out_the_edit_is_lost(desk: Desk, monkeypatch: Patch) -> None:
    """The control."""
    file = desk.lay("Plan.md")
    monkeypatch.setattr(type(desk.files), "_verify", lambda *_: None)
    Intruder(monkeypatch, before=lambda: save_by_rename(file, b"foreign\n"))
    monkeypatch.setattr(desk.files, "_keep", lambda *_: None)
    desk.files.change(at("Plan.md"), lambda _: b"new", expected=checksum(b"old\n"))
    assert file.read_bytes() == b"new"


def test_a_save_between_the_exchange_and_its_undoing_wins(desk: Desk, monkeypatch: Patch) -> None:
    file = desk.lay("Plan.md")
    Intruder(
        monkeypatch,
        before=lambda: save_by_rename(file, b"first\n"),
        after=lambda: save_by_rename(file, b"second\n"),
    )
    with pytest.raises(Changed):
        desk.files.change(at("Plan.md"), lambda _: b"new", expected=checksum(b"old\n"))
    assert file.read_bytes() == b"second\n"
    assert desk.kept == [("Plan.md", b"first\n", "displaced")]
    assert desk.names() == ["Plan.md"]


@EVERY_DISK
@shows("W35")
def test_what_is_still_written_to_the_displaced_file_is_kept(desk: Desk, monkeypatch: Patch, disk: Any) -> None:
    disk(monkeypatch)
    file = desk.lay("Plan.md")
    with file.open("r+b") as editor:
        desk.files.change(at("Plan.md"), lambda _: b"new")
        editor.write(b"foreign edit\n")
    assert file.read_bytes() == b"new"
    desk.look_again()
    assert desk.kept == [("Plan.md", b"foreign edit\n", "displaced")]


def test_without_the_second_look_it_goes_to_the_bin(desk: Desk, monkeypatch: Patch) -> None:
    """The control of W35."""
    monkeypatch.setattr(desk.files.displaced, "add", lambda _path, descriptor, _checksum: os.close(descriptor))
    with desk.lay("Plan.md").open("r+b") as editor:
        desk.files.change(at("Plan.md"), lambda _: b"new")
        editor.write(b"foreign edit\n")
    desk.look_again()
    assert desk.kept == []


def test_displaced_files_are_not_held_without_end(desk: Desk) -> None:
    desk.lay("Plan.md")
    gc.collect()  # what tests before this one left open is not closed meanwhile, but for what threads of theirs close
    before = len(os.listdir("/dev/fd"))
    for number in range(150):
        desk.files.change(at("Plan.md"), lambda _, number=number: b"%d" % number)
    assert len(os.listdir("/dev/fd")) <= before + 100
    desk.look_again()
    assert len(os.listdir("/dev/fd")) <= before


# files that are being saved


@shows("W34")
@pytest.mark.parametrize("half", [b"", b"foreign e"])
def test_a_change_is_never_built_on_half_a_save(desk: Desk, monkeypatch: Patch, half: bytes) -> None:
    file = desk.lay("Plan.md")
    file.write_bytes(half)  # truncated, and partly written
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 1:
            file.write_bytes(b"foreign edit\n")

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.time_ns", lambda: file.stat().st_mtime_ns)  # it was saved just now, however long ago
    desk.files.change(at("Plan.md"), lambda old: old + b"new\n")
    assert file.read_bytes() == b"foreign edit\nnew\n"
    assert waited[0] > (0.3 if not half else 0.02)


def test_without_the_second_reading_half_a_save_is_built_on(desk: Desk, monkeypatch: Patch) -> None:
    """The control of W34."""
    file = desk.lay("Plan.md")
    file.write_bytes(b"")
    monkeypatch.setattr(Resting, "_is_own", lambda *_: True)
    desk.files.change(at("Plan.md"), lambda old: old + b"new\n")
    assert file.read_bytes() == b"new\n"


def test_what_never_rests_is_a_conflict(desk: Desk, monkeypatch: Patch) -> None:
    file = desk.lay("Plan.md")
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        file.write_bytes(b"%f" % clock[0])

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with pytest.raises(Conflict, match="is being changed by another program"):
        desk.files.change(at("Plan.md"), lambda _: b"new")
    assert clock[0] < 10


def test_our_own_writes_need_no_rest(desk: Desk, monkeypatch: Patch) -> None:
    desk.files.create(at("Plan.md"), b"")
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    for number in range(3):
        desk.files.change(at("Plan.md"), lambda old, number=number: old + b"%d\n" % number)
    assert (desk.vault / "Plan.md").read_bytes() == b"0\n1\n2\n"


# W33: another program holds the file


def in_use(patch: Patch, times: int) -> list[int]:
    real, calls = PosixFolder._rename, []

    def rename(folder: PosixFolder, name: str, new: str, wish: int) -> None:
        calls.append(wish)
        if len(calls) <= times:
            raise OSError(errno.EBUSY, "busy")
        real(folder, name, new, wish)

    patch.setattr(PosixFolder, "_rename", rename)
    patch.setattr("time.sleep", lambda _: None)
    return calls


@shows("W33")
@pytest.mark.parametrize("times", [1, 5])
def test_a_file_in_use_is_tried_again(desk: Desk, monkeypatch: Patch, times: int) -> None:
    desk.lay("Plan.md")
    in_use(monkeypatch, times)
    desk.files.change(at("Plan.md"), lambda _: b"new")
    assert (desk.vault / "Plan.md").read_bytes() == b"new"


def test_w33_a_file_that_stays_in_use_is_an_error(desk: Desk, monkeypatch: Patch) -> None:
    desk.lay("Plan.md")
    calls = in_use(monkeypatch, 1000)
    with pytest.raises(NotWritten) as refused:
        desk.files.change(at("Plan.md"), lambda _: b"new")
    assert str(refused.value) == (
        "'Plan.md' could not be written: another program holds it open. The old text is unchanged."
    )
    assert len(calls) == 6
    assert (desk.vault / "Plan.md").read_bytes() == b"old\n"
    assert desk.names() == ["Plan.md"]


def test_a_missing_call_of_the_c_library_is_no_failure(desk: Desk, monkeypatch: Patch) -> None:
    monkeypatch.setattr(folder_posix, "_libc", object())
    desk.lay("Plan.md")
    desk.files.change(at("Plan.md"), lambda _: b"new")
    assert (desk.vault / "Plan.md").read_bytes() == b"new"
