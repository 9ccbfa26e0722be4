"""What was made once is kept, and made again only where it is missing or damaged."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sidecar.errors import Unreadable
from sidecar.index.embed.e5_made import Made, kept

CONTENT = Made(b"the body", b"the pieces")


class Maker:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Made:
        self.times += 1
        return CONTENT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "root" / "models" / "e5-abc-1"


def test_it_is_made_once(folder: Path) -> None:
    make = Maker()
    assert kept(folder, make) == kept(folder, make) == CONTENT
    assert make.times == 1
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert os.name == "nt" or folder.parent.stat().st_mode & 0o077 == 0


def flip(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a changed body": lambda folder: flip(folder / "body.onnx"),
    "changed pieces": lambda folder: flip(folder / "pieces.model"),
    "a cut body": lambda folder: (folder / "body.onnx").write_bytes(b""),
    "no pieces": lambda folder: (folder / "pieces.model").unlink(),
    "no hashes": lambda folder: (folder / "hashes.json").unlink(),
    "hashes that are no JSON": lambda folder: (folder / "hashes.json").write_bytes(b"\xff{"),
    "hashes of another kind": lambda folder: (folder / "hashes.json").write_text("[]"),
    "a folder in a file's place": lambda folder: ((folder / "body.onnx").unlink(), (folder / "body.onnx").mkdir()),
    "an empty folder": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
    "a file in the folder's place": lambda folder: (shutil.rmtree(folder), folder.write_bytes(b"x")),
    "nothing": shutil.rmtree,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_made_anew(folder: Path, damage: Callable[[Path], object]) -> None:
    make = Maker()
    kept(folder, make)
    damage(folder)
    assert kept(folder, make) == CONTENT
    assert make.times == 2
    assert kept(folder, make) == CONTENT
    assert make.times == 2
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_processes_that_come_at_once_all_get_it(folder: Path) -> None:
    together = threading.Barrier(4)

    def make() -> Made:
        together.wait(timeout=30)
        return CONTENT

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: kept(folder, make), range(4))) == [CONTENT] * 4
    assert kept(folder, Maker()) == CONTENT
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_what_a_killed_process_left_is_removed_after_a_while(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True)
    old, new = folder.parent / f".{folder.name}.old", folder.parent / f".{folder.name}.new"
    for left in (old, new):
        left.mkdir()
        (left / "body.onnx").write_bytes(b"half")
    os.utime(old, (0, 0))
    kept(folder, Maker())
    assert not old.exists()
    assert new.exists()


def test_a_maker_that_fails_leaves_nothing(folder: Path) -> None:
    def make() -> Made:
        raise MemoryError

    with pytest.raises(MemoryError):
        kept(folder, make)
    assert list(folder.parent.iterdir()) == []


def test_a_place_that_can_t_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "models").write_bytes(b"")
    with pytest.raises(Unreadable, match="models"):
        kept(tmp_path / "models" / "e5-abc-1", Maker())
