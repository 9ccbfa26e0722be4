"""Which folder is the vault, and where its state lies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.bridge.places import check_vault, nearest_vault, refuse_inside, state_dir_of
from sidecar.errors import BadConfig


def test_a_vault_reached_by_a_link_has_the_same_state(tmp_path: Path) -> None:
    vault = tmp_path / "My Notes"
    vault.mkdir()
    (tmp_path / "link").symlink_to(vault, target_is_directory=True)
    state = state_dir_of(vault, tmp_path / "root")
    assert re.fullmatch(r"My-Notes-[0-9a-f]{12}", state.name)
    assert state.parent == (tmp_path / "root").resolve()
    assert state_dir_of(tmp_path / "link", tmp_path / "root") == state
    assert state_dir_of(vault / ".." / "My Notes", tmp_path / "root") == state
    assert not state.exists(), "asking creates nothing"


def test_two_vaults_of_one_name_have_two_states(tmp_path: Path) -> None:
    assert state_dir_of(tmp_path / "a" / "v", tmp_path) != state_dir_of(tmp_path / "b" / "v", tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Заметки 2", "Заметки-2"),
        ("日本語", "日本語"),
        ("e\u0301tude", "\u00e9tude"),
        (".hidden.", "hidden"),
        ("???", "vault"),
        ("a\nb\x1b", "a-b"),
        ("x" * 200, "x" * 40),
        ("a\udcffb", "a-b"),
    ],
)
def test_the_name_of_a_state_folder_is_safe_on_every_file_system(tmp_path: Path, name: str, expected: str) -> None:
    assert state_dir_of(tmp_path / name, tmp_path).name.rpartition("-")[0] == expected


def test_a_folder_of_notes_is_served(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert check_vault(tmp_path / "notes", home=tmp_path / "home") == (tmp_path / "notes").resolve()


def refused(vault: Path, home: Path) -> str:
    with pytest.raises(BadConfig) as error:
        check_vault(vault, home=home)
    return str(error.value)


def test_what_cannot_be_a_vault_is_refused_with_a_reason(tmp_path: Path) -> None:
    """D15."""
    home = tmp_path / "users" / "me"
    home.mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(home, target_is_directory=True)
    assert "there is no folder" in refused(tmp_path / "missing", home)
    assert "is not a folder" in refused(tmp_path / "file", home)
    assert "root of the file system" in refused(Path("/"), home)
    assert "home folder" in refused(home, home)
    assert "home folder" in refused(tmp_path / "link", home)
    assert "home folder" in refused(tmp_path / "users", home)
    (home / "notes").mkdir()
    assert check_vault(home / "notes", home=home) == (home / "notes").resolve()


def test_a_place_that_can_not_even_be_looked_at_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert re.search(r"leads back to itself|can't be looked at", refused(tmp_path / "loop", tmp_path))
    assert "can't be looked at: " in refused(tmp_path / ("x" * 300), tmp_path)


def test_the_nearest_folder_with_editor_settings_is_the_vault(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    (inner / "deep" / "er").mkdir(parents=True)
    (tmp_path / "outer" / ".obsidian").mkdir()
    (inner / ".obsidian").mkdir()
    assert nearest_vault(inner / "deep" / "er") == inner
    assert nearest_vault(inner) == inner
    assert nearest_vault(tmp_path / "outer") == tmp_path / "outer"
    (inner / "deep" / ".obsidian").write_bytes(b"")
    assert nearest_vault(inner / "deep") == inner, "a file of that name is no vault"


def test_nowhere_near_a_vault_there_is_none(tmp_path: Path) -> None:
    assert nearest_vault(tmp_path) is None


def test_state_that_does_not_exist_yet_is_judged_by_where_it_would_lie(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    with pytest.raises(BadConfig):
        refuse_inside(tmp_path / "vault" / "not" / "yet", tmp_path / "vault")
    refuse_inside(tmp_path / "not" / "yet", tmp_path / "vault")
