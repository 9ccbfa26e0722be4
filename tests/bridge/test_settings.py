"""The two settings files as raw tables."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sidecar.bridge import settings
from sidecar.errors import BadConfig, SidecarError, Unreadable


def test_missing_files_are_empty(tmp_path: Path) -> None:
    assert settings.read_config_file(tmp_path) == {}
    assert settings.read_settings(tmp_path) == {}


def test_a_changed_setting_keeps_the_others_and_is_private(tmp_path: Path) -> None:
    settings.set_setting(tmp_path, "http", "port", 24790)
    settings.set_setting(tmp_path, "log", "level", "debug")
    settings.set_setting(tmp_path, "http", "port", 24791)
    assert settings.read_settings(tmp_path) == {"http": {"port": 24791}, "log": {"level": "debug"}}
    assert json.loads((tmp_path / "settings.json").read_text()) == settings.read_settings(tmp_path)
    assert (tmp_path / "settings.json").stat().st_mode & 0o777 == 0o600


def test_the_persons_file_may_be_a_link_and_is_never_written(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles.toml"
    dotfiles.write_text("[http]\nport = 2000 # mine\n")
    (tmp_path / "config.toml").symlink_to(dotfiles)
    assert settings.read_config_file(tmp_path) == {"http": {"port": 2000}}
    settings.set_setting(tmp_path, "http", "port", 24790)
    assert dotfiles.read_text() == "[http]\nport = 2000 # mine\n"


@pytest.mark.parametrize(
    "content",
    [b"[http", b"port = ", b"\xff\xfe", b"[log]\nlevel = 'debug'\n#" + b"x" * (1 << 20), b"a=" + b"[" * 50_000],
)
def test_a_config_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(BadConfig, match=r"^config\.toml: "):
        settings.read_config_file(tmp_path)


def test_a_config_file_that_is_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(BadConfig, match=r"^config\.toml: can't be read"):
        settings.read_config_file(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 10_000])
def test_damaged_settings_are_named_and_not_overwritten(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(BadConfig, match=r"^settings\.json: is damaged"):
        settings.read_settings(tmp_path)
    with pytest.raises(SidecarError):
        settings.set_setting(tmp_path, "http", "port", 1)
    assert file.read_bytes() == content


def test_a_damaged_section_is_named_and_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"http": 5}')
    file.chmod(0o600)
    with pytest.raises(BadConfig, match=r"^settings\.json: is damaged"):
        settings.set_setting(tmp_path, "http", "port", 1024)
    assert file.read_text() == '{"http": 5}'


def test_changes_in_several_threads_lose_none(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        changes = [pool.submit(settings.set_setting, tmp_path, "log", f"key{n}", n) for n in range(64)]
        for change in changes:
            change.result()
    assert settings.read_settings(tmp_path) == {"log": {f"key{n}": n for n in range(64)}}


def test_settings_that_are_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("{}")
    (tmp_path / "settings.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unreadable):
        settings.read_settings(tmp_path)
