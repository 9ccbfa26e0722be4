"""Texts are kept outside the vault, newest first, privately, and 200 of them."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from sidecar.errors import NotFound, Unreadable
from sidecar.services import copies as module
from sidecar.services.copies import FOLDER, MOST_COPIES, Copies
from sidecar.vault.paths import VaultPath
from tests.vault.desk import checksum

PLAN = VaultPath("Projects/Plan.md")


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def test_a_text_comes_back_as_it_was(copies: Copies, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfone\r\n\n\x00two\xff"
    kept = copies.add(PLAN, data, "replaced")
    assert (kept.path, kept.why, kept.size, kept.checksum) == (PLAN.text, "replaced", len(data), checksum(data))
    assert Copies(tmp_path).all() == [kept]  # also for the next process
    assert Copies(tmp_path).find(kept.copy_id) == (kept, data)


def test_files_and_folder_are_private(copies: Copies, tmp_path: Path) -> None:
    kept = copies.add(PLAN, b"secret", "replaced")
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / FOLDER / kept.copy_id).stat().st_mode) == 0o600


def test_newest_come_first_and_200_stay(copies: Copies, tmp_path: Path) -> None:
    assert MOST_COPIES == 200
    added = [copies.add(PLAN, b"%d" % number, "replaced") for number in range(150)]
    assert copies.all() == added[::-1]
    added += [copies.add(PLAN, b"%d" % number, "replaced") for number in range(55)]
    assert copies.all() == added[:4:-1]
    assert len(list((tmp_path / FOLDER).iterdir())) == MOST_COPIES


def test_a_clock_that_was_set_back_throws_nothing_new_away(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """D22."""
    monkeypatch.setattr(module, "MOST_COPIES", 3)
    added = [copies.add(PLAN, b"%d" % number, "replaced") for number in range(3)]
    later = added[-1].copy_id.replace("20", "29", 1)
    (copies._folder / added[-1].copy_id).rename(copies._folder / later)
    newest = copies.add(PLAN, b"after the clock was set back", "replaced")
    assert newest.copy_id > later
    assert copies.find(newest.copy_id)[1] == b"after the clock was set back"


def test_an_ending_will_do_if_it_is_long_enough_and_only_one_has_it(copies: Copies) -> None:
    first, second = copies.add(PLAN, b"1", "replaced"), copies.add(PLAN, b"2", "left")
    assert copies.find(second.copy_id[-10:]) == (second, b"2")
    assert copies.find(first.copy_id) == (first, b"1")
    for ending, sentence in {
        second.copy_id[-5:]: "There is no copy",
        "nothing": "There is no copy 'nothing'. 'vault-sidecar recover list' shows those there are.",
        "../../lock": "There is no copy",
        "": "There is no copy",
    }.items():
        with pytest.raises(NotFound) as refused:
            copies.find(ending)
        assert sentence in str(refused.value)


def test_several_with_one_ending_are_not_guessed_at(copies: Copies) -> None:
    kept = copies.add(PLAN, b"1", "replaced")
    (copies._folder / ("2" * 8 + kept.copy_id[8:])).write_bytes(b"")
    with pytest.raises(NotFound, match="Several copies end in"):
        copies.find(kept.copy_id[8:])


@pytest.mark.parametrize("content", [b"", b"{}", b"[]\nx", b"nonsense\nx", b'{"copy_id": 3}\nx', b"[" * 100_000])
def test_a_damaged_copy_hides_no_other(copies: Copies, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    kept = copies.add(PLAN, b"1", "replaced")
    damaged = copies._folder / "20200101-000000-000000"
    damaged.write_bytes(content)
    damaged.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        assert copies.all() == [kept]
    assert "is damaged" in caplog.text
    with pytest.raises(Unreadable, match="is damaged"):
        copies.find("20200101-000000-000000")


def test_a_changed_text_is_noticed(copies: Copies) -> None:
    kept = copies.add(PLAN, b"one", "replaced")
    file = copies._folder / kept.copy_id
    file.write_bytes(file.read_bytes().replace(b"\none", b"\ntwo"))
    with pytest.raises(Unreadable):
        copies.find(kept.copy_id)


def test_nothing_kept_is_an_empty_list(copies: Copies, tmp_path: Path) -> None:
    assert copies.all() == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_cut_off_process_left_is_cleared_away(copies: Copies, tmp_path: Path) -> None:
    kept = copies.add(PLAN, b"1", "replaced")
    left = tmp_path / FOLDER / f".{kept.copy_id}.0123456789abcdef.tmp"
    left.write_bytes(b"half")
    Copies(tmp_path).add(PLAN, b"2", "replaced")
    assert not left.exists()
