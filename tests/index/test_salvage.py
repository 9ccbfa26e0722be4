"""Vectors come out of a damaged manifest unless they themselves were hit, and nothing comes out that was not in it."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sidecar.index import aside
from sidecar.index.manifest import Manifest
from sidecar.index.salvage import Row, vectors_in

PAGE = 4096
EMBEDDERS = {"small@1/64": 64, "e5@1571fc982750.1/384": 384, "use@2/512": 512, "large@1/3072": 3072}
"""The rows of the last two don't fit into a page."""


def rows(count: int, *, seed: int = 1) -> list[Row]:
    random_numbers = np.random.default_rng(seed)
    found: list[Row] = []
    for number in range(count):
        for embedder, dim in EMBEDDERS.items():
            vector = random_numbers.normal(size=dim)
            vector = vector / np.linalg.norm(vector) if number else vector * 0
            text_hash = hashlib.blake2b(f"{seed}-{number}".encode(), digest_size=16).digest()
            found.append(Row(text_hash, embedder, vector.astype("<f2").tobytes()))
    return found


@pytest.fixture(scope="module")
def wanted() -> set[Row]:
    return set(rows(60))


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory, wanted: set[Row]) -> Path:
    """A manifest with notes' rows between the vectors' ones, closed in order."""
    path = tmp_path_factory.mktemp("seed") / "manifest.sqlite"
    with closing(Manifest(path)) as manifest:
        for row in sorted(wanted, key=lambda row: row.vector):
            manifest.keep_vectors(row.embedder, {row.text_hash: row.vector})
            manifest.set_meta(row.text_hash.hex(), "x" * 500)
    return path


@pytest.fixture
def path(seed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy2(seed, tmp_path / "manifest.sqlite"))


def test_every_vector_of_a_sound_file_is_found(path: Path, wanted: set[Row]) -> None:
    assert set(vectors_in(path)) == wanted


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


@pytest.mark.parametrize("length", [16, 100])
def test_a_lost_header_costs_nothing(path: Path, wanted: set[Row], length: int) -> None:
    overwrite(path, 0, os.urandom(length))
    with pytest.raises(sqlite3.DatabaseError), closing(sqlite3.connect(path)) as db:
        db.execute("SELECT * FROM vectors").fetchall()
    assert set(vectors_in(path)) == wanted


def test_a_cut_file_gives_what_is_left_of_it(path: Path, wanted: set[Row]) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)
    found = set(vectors_in(path))
    assert found < wanted
    assert len(found) > len(wanted) // 3


def scrambled_pages(path: Path, seed: int) -> None:
    """Every third page, whole."""
    random_bytes = random.Random(seed)
    for number in range(1, path.stat().st_size // PAGE, 3):
        overwrite(path, number * PAGE, random_bytes.randbytes(PAGE))


def flipped_bytes(path: Path, seed: int) -> None:
    """Some hundred bytes anywhere."""
    places = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(300):
        data[places.randrange(len(data))] ^= 1 << places.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("seed_number", range(20))
@pytest.mark.parametrize("damage", [scrambled_pages, flipped_bytes], ids=lambda damage: damage.__name__)
def test_nothing_wrong_comes_out_of_damaged_pages(
    path: Path, wanted: set[Row], damage: Callable[[Path, int], None], seed_number: int
) -> None:
    damage(path, seed_number)
    found = set(vectors_in(path))
    known = {(row.text_hash, row.embedder): np.frombuffer(row.vector, "<f2").astype(float) for row in wanted}
    hashes = {row.text_hash for row in wanted}
    for row in found:
        if row.text_hash in hashes and row.embedder in EMBEDDERS:  # else nobody will ever ask for it
            before, after = known[row.text_hash, row.embedder], np.frombuffer(row.vector, "<f2").astype(float)
            # a bit or two that hardly change the length may slip through, and don't matter
            assert before @ after > 0.97 or np.count_nonzero(before != after) < 4
    assert len(found) > len(wanted) // 4


def test_what_is_only_in_the_log_is_found_and_what_is_stale_there_is_not(path: Path, wanted: set[Row]) -> None:
    late = rows(3, seed=2)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.executemany("INSERT INTO vectors VALUES (?, ?, ?)", late)
        db.commit()
        for name in ("manifest.sqlite", "manifest.sqlite-wal"):
            shutil.copy2(path.with_name(name), path.with_name(f"copy-{name}"))
    copy = path.with_name("copy-manifest.sqlite")
    assert set(vectors_in(copy)) == wanted | set(late)
    copy.unlink()
    assert set(late) <= set(vectors_in(copy)) <= wanted | set(late), "the log alone"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", os.urandom(5 * PAGE), bytes(3 * PAGE)])
def test_nothing_comes_out_of_what_is_no_manifest(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.sqlite").write_bytes(content)
    assert not list(vectors_in(tmp_path / "manifest.sqlite"))
    assert not list(vectors_in(tmp_path))
    assert not list(vectors_in(tmp_path / "missing"))


def test_a_process_killed_between_setting_aside_and_taking_back_loses_nothing(path: Path, wanted: set[Row]) -> None:
    overwrite(path, 0, bytes(100))
    aside.set_aside(path)
    with closing(Manifest(path)):
        pass
    assert set(vectors_in(path)) == wanted
    with closing(Manifest(path)) as manifest:  # once is enough
        manifest._db.execute("DELETE FROM vectors")
        manifest._db.commit()
    with closing(Manifest(path)) as manifest:
        assert not manifest._db.execute("SELECT * FROM vectors").fetchall()


def test_two_are_kept_aside_with_their_companions(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / "file").write_text(str(number))
        (tmp_path / "file-wal").write_text(f"log {number}")
        assert aside.set_aside(tmp_path / "file", ("-wal", "-shm")) == tmp_path / f"file.damaged-{number + 1}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "file.damaged-3", "file.damaged-3-wal", "file.damaged-4", "file.damaged-4-wal"
    ]  # fmt: skip
    assert (tmp_path / "file.damaged-4-wal").read_text() == "log 3"


def test_a_link_is_moved_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    for _ in range(4):
        (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
        aside.set_aside(tmp_path / "file")
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3
