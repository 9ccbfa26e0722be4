"""The endpoint file: what it says, who may be believed, and who takes it away."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, private_files
from sidecar.errors import Unreadable

ONE = endpoint.of_this_process(24783, "one", "0.1.0")


def test_what_was_published_is_read_back_and_names_no_key(tmp_path: Path) -> None:
    """L05, D05."""
    endpoint.write(tmp_path, ONE)
    assert endpoint.read(tmp_path) == ONE
    found = json.loads((tmp_path / "endpoint.json").read_text())
    assert set(found) == {"url", "port", "pid", "instance", "version", "started"}
    assert found["url"] == "http://127.0.0.1:24783/mcp"
    assert found["pid"] == os.getpid()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["started"])
    assert (tmp_path / "endpoint.json").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["endpoint.json"]


def test_nothing_published_reads_as_none(tmp_path: Path) -> None:
    assert endpoint.read(tmp_path) is None
    endpoint.remove(tmp_path, "one")


def test_a_stale_file_is_replaced(tmp_path: Path) -> None:
    """D06."""
    endpoint.write(tmp_path, ONE)
    two = endpoint.of_this_process(24784, "two", "0.1.0")
    endpoint.write(tmp_path, two)
    assert endpoint.read(tmp_path) == two


def test_only_the_run_that_published_takes_its_file_away(tmp_path: Path) -> None:
    endpoint.write(tmp_path, ONE)
    endpoint.remove(tmp_path, "two")
    assert endpoint.read(tmp_path) == ONE
    endpoint.remove(tmp_path, "one")
    assert endpoint.read(tmp_path) is None


def test_d12_a_link_is_neither_read_nor_taken_away(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    endpoint.write(elsewhere, ONE)
    (tmp_path / "endpoint.json").symlink_to(elsewhere / "endpoint.json")
    with pytest.raises(Unreadable, match="is a link"):
        endpoint.read(tmp_path)
    endpoint.remove(tmp_path, "one")
    assert endpoint.read(elsewhere) == ONE


@pytest.mark.skipif(os.name == "nt", reason="modes say nothing on Windows")
def test_d12_a_file_that_anybody_may_write_is_refused(tmp_path: Path) -> None:
    endpoint.write(tmp_path, ONE)
    (tmp_path / "endpoint.json").chmod(0o666)
    with pytest.raises(Unreadable, match="may be written by other users"):
        endpoint.read(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a file away")
def test_d12_another_users_file_is_refused(tmp_path: Path) -> None:
    endpoint.write(tmp_path, ONE)
    os.chown(tmp_path / "endpoint.json", 12345, -1)
    with pytest.raises(Unreadable, match="belongs to another user"):
        endpoint.read(tmp_path)


GOOD = {"url": "u", "port": 1, "pid": 1, "instance": "i", "version": "v", "started": "s"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b"\xff",
        b"[" * 10_000,
        json.dumps(GOOD | {"port": "1"}).encode(),
        json.dumps(GOOD | {"port": True}).encode(),
        json.dumps(GOOD | {"port": 0}).encode(),
        json.dumps(GOOD | {"port": 65536}).encode(),
        json.dumps(GOOD | {"instance": 5}).encode(),
        json.dumps(GOOD | {"more": 5}).encode(),
        json.dumps({"port": 1}).encode(),
    ],
)
def test_a_damaged_file_is_an_error_and_not_a_crash(tmp_path: Path, content: bytes) -> None:
    private_files.write(tmp_path / "endpoint.json", content)
    with pytest.raises(Unreadable, match="damaged"):
        endpoint.read(tmp_path)
