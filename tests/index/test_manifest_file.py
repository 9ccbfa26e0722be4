"""A manifest is set aside for good: no failure to begin another one pushes it out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sidecar.errors import Unreadable
from sidecar.index import aside
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_file import open_or_make
from tests.limits import files_at_most

EMBEDDER = "hash@1/64"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_vectors_outlast_a_disk_that_takes_no_new_manifest_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "manifest.sqlite"
    vector = np.full(64, 0.125, np.float16).tobytes()
    with closing(Manifest(path)) as manifest:
        manifest.keep_vectors(EMBEDDER, {bytes(16): vector})
    for _ in range(4):
        with files_at_most(2_000), pytest.raises(Unreadable):
            open_or_make(path, unfit="is damaged")
    assert names(tmp_path) == ["manifest.sqlite.damaged-1"]
    db, problem = open_or_make(path, unfit="is damaged")
    with closing(db):
        assert problem is not None
        assert db.execute("SELECT * FROM vectors").fetchall() == [(bytes(16), EMBEDDER, vector)]


def test_nothing_that_is_kept_goes_where_nothing_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for _ in range(3):
        path.write_text("bad")
        aside.set_aside(path)
    assert names(tmp_path) == ["file.damaged-2", "file.damaged-3"]
    assert aside.set_aside(path) is None
    assert names(tmp_path) == ["file.damaged-2", "file.damaged-3"]
