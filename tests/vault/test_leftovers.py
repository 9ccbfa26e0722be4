"""Temporary files of a process that was ended in the middle are cleared away, and nothing of worth with them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.vault.leftovers import sweep
from sidecar.vault.temporary import temporary_name
from tests.vault.conftest import shows, walked
from tests.vault.desk import Desk, open_desk

FOREVER_NS = 1 << 62


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path / "vault") as desk:
        yield desk


@shows("W32")
def test_leftovers_are_swept_and_never_listed(desk: Desk) -> None:
    desk.lay("a/b/Plan.md", b"old\n")
    left = desk.lay("a/b/" + temporary_name("Plan.md"), b"new, half wri")
    same = desk.lay("a/b/" + temporary_name("Plan.md"), b"old\n")
    empty = desk.lay(temporary_name("Plan.md"), b"")
    twin = desk.vault / "a/b" / temporary_name("Plan.md")
    twin.hardlink_to(desk.vault / "a/b/Plan.md")
    assert walked(desk.jail)[0] == {"a/b/Plan.md"}
    assert sweep(desk.jail, desk.keep, before_ns=FOREVER_NS) == 4
    assert desk.names() == ["a/b/Plan.md"]
    assert desk.kept == [("a/b/Plan.md", b"new, half wri", "left")]
    assert not any(file.exists() for file in (left, same, empty, twin))


def test_those_of_a_living_process_and_of_other_programs_stay(desk: Desk) -> None:
    theirs = [".Plan.md.tmp", ".Plan.md.0123.tmp", "Plan.md.0123456789abcdef.tmp", ".hidden/" + temporary_name("x.md")]
    for name in theirs:
        desk.lay(name, b"x")
    os.symlink("nowhere", desk.vault / temporary_name("link.md"))
    (desk.vault / temporary_name("folder.md")).mkdir()
    assert sweep(desk.jail, desk.keep, before_ns=FOREVER_NS) == 0
    before_ns = time.time_ns() - 10_000_000_000
    desk.lay(temporary_name("Plan.md"), b"x")
    assert sweep(desk.jail, desk.keep, before_ns=before_ns) == 0
    assert len(desk.names()) == len(theirs) + 2
    assert desk.kept == []


def test_what_can_not_be_kept_is_not_removed(desk: Desk) -> None:
    left = desk.lay(temporary_name("Plan.md"), b"somebody's edit")

    def keep(*_: object) -> None:
        raise OSError("full")

    assert sweep(desk.jail, keep, before_ns=FOREVER_NS) == 0
    assert left.exists()
