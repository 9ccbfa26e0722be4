"""Private files: made private from the first moment, and judged before they are believed."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.bridge import private_files
from sidecar.errors import TooLarge, Unreadable

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and owners say nothing on Windows")


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of private files; others may write there, too."""
    return [record.getMessage() for record in caplog.records if record.name == private_files.logger.name]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [pytest.param(0, id="L04-umask-000"), pytest.param(0o077, id="L04-umask-077")])
def test_file_and_folders_are_private_whatever_the_umask_is(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        private_files.make_folder(tmp_path / "root" / "state")
        private_files.write(tmp_path / "root" / "state" / "token", b"x")
    assert mode(tmp_path / "root") == mode(tmp_path / "root" / "state") == 0o700
    assert mode(tmp_path / "root" / "state" / "token") == 0o600
    assert (tmp_path / "root" / "state" / "token").stat().st_uid == os.geteuid()


def test_the_mode_is_given_when_a_file_is_made_and_never_changed_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L04: between making a file and closing it to others, others could open it."""
    made: list[int] = []
    plain = os.open

    def watched(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
        if flags & os.O_CREAT:
            made.append(mode)
            assert flags & os.O_EXCL
        return plain(path, flags, mode, **more)

    def forbidden(*_: object) -> None:
        raise AssertionError("a mode was changed")

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(os, "chmod", forbidden)
    monkeypatch.setattr(os, "fchmod", forbidden)
    private_files.write(tmp_path / "token", b"x")
    assert made == [0o600]


def test_a_write_replaces_the_whole_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "token"
    private_files.write(file, b"a long first content")
    private_files.write(file, b"short")
    assert private_files.read(file) == b"short"
    assert os.listdir(tmp_path) == ["token"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    private_files.write(file, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(Unreadable, match="token can't be written: No space left on device"):
                private_files.write(file, b"new")
        assert private_files.read(file) == b"old"
        assert os.listdir(tmp_path) == ["token"]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"canary")
    (tmp_path / "token").symlink_to(outside)
    private_files.write(tmp_path / "token", b"new")
    assert outside.read_bytes() == b"canary"
    assert not (tmp_path / "token").is_symlink()


def test_what_is_missing_reads_as_none(tmp_path: Path) -> None:
    assert private_files.read(tmp_path / "token") is None
    assert private_files.read(tmp_path / "no folder" / "token") is None
    private_files.remove(tmp_path / "token")


@pytest.mark.parametrize(
    "target", [pytest.param("real", id="L07-to-a-file"), pytest.param("nothing", id="L07-to-nothing")]
)
def test_a_link_is_refused(tmp_path: Path, target: str) -> None:
    private_files.write(tmp_path / "real", b"canary")
    (tmp_path / "token").symlink_to(tmp_path / target)
    with pytest.raises(Unreadable, match="token is a link"):
        private_files.read(tmp_path / "token")


def test_a_link_is_followed_without_the_flag_against_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of L07."""
    private_files.write(tmp_path / "real", b"canary")
    (tmp_path / "token").symlink_to(tmp_path / "real")
    monkeypatch.setattr(private_files, "_NO_FOLLOW", 0)
    assert private_files.read(tmp_path / "token") == b"canary"


@pytest.mark.parametrize("found", [0o644, 0o640, 0o604, 0o755], ids=oct)
def test_a_file_others_can_read_is_made_private_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, found: int
) -> None:
    """L06."""
    file = tmp_path / "token"
    private_files.write(file, b"x")
    file.chmod(found)
    with caplog.at_level(logging.WARNING):
        assert private_files.read(file) == b"x"
    assert mode(file) == 0o600
    assert told(caplog) == ["token could be read by other users; its mode is now 0600"]


@pytest.mark.parametrize("found", [0o620, 0o602, 0o666], ids=oct)
def test_a_file_others_can_write_is_refused_and_left_alone(tmp_path: Path, found: int) -> None:
    """L06, D12."""
    file = tmp_path / "token"
    private_files.write(file, b"x")
    file.chmod(found)
    with pytest.raises(Unreadable, match="may be written by other users"):
        private_files.read(file)
    assert mode(file) == found


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """D12."""
    file = tmp_path / "token"
    private_files.write(file, b"x")
    os.chown(file, 12345, -1)
    with pytest.raises(Unreadable, match="token belongs to another user"):
        private_files.read(file)
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(Unreadable, match="belongs to another user"):
        private_files.make_folder(tmp_path)


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(Unreadable, match="no plain file"):
        private_files.read(tmp_path / "token")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir(0o700)
    with pytest.raises(Unreadable):
        private_files.read(tmp_path / "token")
    with pytest.raises(Unreadable):
        private_files.write(tmp_path / "token", b"x")
    assert os.listdir(tmp_path) == ["token"]


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"")
    with pytest.raises(Unreadable, match="a folder belongs there"):
        private_files.make_folder(tmp_path / "state")
    with pytest.raises(Unreadable, match="deeper can't be used"):
        private_files.make_folder(tmp_path / "state" / "deeper")


def test_more_than_the_limit_is_not_read(tmp_path: Path) -> None:
    private_files.write(tmp_path / "token", b"x" * 11)
    with pytest.raises(TooLarge):
        private_files.read(tmp_path / "token", max_bytes=10)
    assert private_files.read(tmp_path / "token", max_bytes=11) == b"x" * 11


def test_a_folder_open_to_others_is_closed_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)
    private_files.make_folder(folder)
    assert mode(folder) == 0o700
    assert len(told(caplog)) == 1


def test_no_message_holds_a_path_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "token").symlink_to(tmp_path / "x")
    with pytest.raises(Unreadable) as refused:
        private_files.read(tmp_path / "token")
    assert str(tmp_path) not in str(refused.value)
