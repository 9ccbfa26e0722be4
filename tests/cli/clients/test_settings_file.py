"""The file itself: links, owners, backups, and another program that writes at the same time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sidecar.cli.clients import settings_file
from sidecar.errors import Busy, SidecarError, Unreadable


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    for before in (b"{}", None):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
        file = settings_file.load(path)
        path.write_bytes(b'{"by": "another program"}')
        with pytest.raises(Busy, match="changed by another program"):
            settings_file.save(file, "{ }", secret=False)
        assert path.read_bytes() == b'{"by": "another program"}'
        assert os.listdir(tmp_path) == ["mcp.json"]


def test_each_backup_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("0")
    kept = [settings_file.save(settings_file.load(path), str(number), secret=False) for number in (1, 2, 3)]
    assert [backup.read_text() for backup in kept if backup] == ["0", "1", "2"]
    assert len(set(kept)) == 3


def test_the_temporary_file_is_never_open_to_others(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.touch(mode=0o644)
    settings_file.save(settings_file.load(path), "{}", secret=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    settings_file.save(settings_file.load(path), "{ }", secret=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    for name in ("folder", "fifo", "loop", "file/mcp.json"):
        with pytest.raises(SidecarError):
            settings_file.save(settings_file.load(tmp_path / name), "{}", secret=False)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "file", "folder", "loop"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_refused(tmp_path: Path) -> None:
    """`sudo` would leave the person a file that is root's."""
    path = tmp_path / "mcp.json"
    path.touch()
    os.chown(path, 12345, -1)
    with pytest.raises(Unreadable, match="belongs to another user"):
        settings_file.load(path)


def test_a_link_that_leads_to_nothing_yet_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").symlink_to(tmp_path / "elsewhere" / "real.json")
    settings_file.save(settings_file.load(tmp_path / "mcp.json"), "{}", secret=True)
    assert (tmp_path / "mcp.json").is_symlink()
    assert (tmp_path / "elsewhere" / "real.json").read_text() == "{}"


def test_what_can_not_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("old")
    with pytest.raises(Unreadable, match="UTF-8"):
        settings_file.save(settings_file.load(path), "\udcff", secret=False)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["mcp.json"]
