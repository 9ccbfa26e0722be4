"""The files that hold the address of a running daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.bridge import addresses, private_files

LEFT = f".endpoint.{'0a' * 8}.tmp"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    private_files.make_folder(tmp_path / "state")
    return tmp_path / "state"


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_both_are_written_and_removed(state: Path) -> None:
    addresses.publish(state, 24783, databases=True)
    assert (state / "endpoint").read_text() == "http://127.0.0.1:24783\n"
    assert (state / "databases" / "endpoint").read_text() == "http://127.0.0.1:24783/databases\n"
    addresses.publish(state, 24783, databases=False)
    assert names(state) == ["databases", "endpoint"]
    addresses.withdraw(state)
    assert names(state) == ["databases"]


def test_what_writes_that_were_cut_off_have_left_is_deleted_and_nothing_else(state: Path) -> None:
    addresses.sweep(state)  # nothing is there yet
    addresses.publish(state, 24783, databases=True)
    kept = names(state)
    for folder in (state, state / "databases"):
        (folder / LEFT).write_bytes(b"http://127.0")
    addresses.sweep(state)
    assert names(state) == kept
