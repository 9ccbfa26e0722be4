"""A worn vector store is written anew: nothing is lost, whatever changes or ends meanwhile. With the real database."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sidecar.index.lines import Steps
from sidecar.index.renewal import LEAST_REMOVED
from sidecar.index.store_folder import name_for
from sidecar.index.stores import Stores
from sidecar.index.wire import Array, Message
from tests.index.rigs import PATIENT, rigged

DIM = 16
EMBEDDER = "e5@1/16"
KEPT = 300
FILLED = LEAST_REMOVED + KEPT

Contents = dict[int, list[float]]


def unit(count: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


ALL = unit(FILLED, 0)


def done(steps: Steps) -> Message:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Site:
    """The stores of a worker, one of them open, and what it has to hold."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / name_for(EMBEDDER)
        self.stores = Stores(lambda _: None)
        self.wanted: Contents = {}
        self.open()

    def open(self) -> Message:
        head = {"store": 1, "set_aside": None, "server": None, "root": str(self.root), "collection": ""}
        return done(self.stores.open(Message(head), EMBEDDER))

    def kill(self) -> None:
        """What a process that is killed leaves, elsewhere."""
        left = self.root.with_name("left")
        shutil.copytree(self.root, left)
        self.stores.close(sound=True)
        self.root, self.folder = left, left / self.folder.name
        self.stores = Stores(lambda _: None)

    def reopen(self) -> Message:
        done(self.stores.shut(Message({"store": 1})))
        return self.open()

    def upsert(self, ids: range, vectors: Array) -> None:
        done(self.stores.upsert(Message({"store": 1}, (np.array(ids), vectors))))
        self.wanted.update(zip(ids, vectors.tolist(), strict=True))

    def delete(self, ids: range) -> None:
        done(self.stores.delete(Message({"store": 1}, (np.array(ids),))))
        for chunk_id in ids:
            self.wanted.pop(chunk_id, None)

    def renew(self) -> Steps:
        return self.stores.renew(Message({"store": 1}))

    def renewed(self) -> Message:
        while (answer := done(self.renew())).head["more"]:
            pass
        return answer

    def holds_what_it_should(self) -> None:
        listed = done(self.stores.ids(Message({"store": 1, "offset": 0, "limit": 10_000}))).arrays[0]
        assert sorted(listed.tolist()) == sorted(self.wanted)
        for chunk_id in (*list(self.wanted)[::40], *list(self.wanted)[-3:]):
            vector = np.array(self.wanted[chunk_id], np.float32)
            ids, cosines = self.stores.nearest(Message({"store": 1, "n": 1}), vector).arrays
            assert ids.tolist() == [chunk_id]
            assert cosines[0] > 0.999

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    @property
    def beside(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if path.suffix not in ("", ".lock"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (root := tmp_path / "root").mkdir()
    made = Site(root)
    yield made
    made.stores.close(sound=True)


@pytest.fixture
def worn(site: Site) -> Site:
    site.upsert(range(FILLED), ALL)
    site.delete(range(LEAST_REMOVED))
    return site


def test_a_worn_store_is_written_anew_without_what_was_deleted(worn: Site) -> None:
    worn.reopen()  # how worn it is, is known at the next start too
    before = worn.size
    assert worn.renewed().head == {"more": False, "whole": True}
    worn.holds_what_it_should()  # it answers until it is closed
    assert worn.reopen().head == {"count": KEPT, "clean": True, "set_aside": None, "missed": False}
    worn.holds_what_it_should()
    assert worn.size < before / 2
    assert worn.beside == []
    assert worn.renewed().head == {"more": False, "whole": False}, "it is as good as new"
    worn.upsert(range(10_000, 10_100), unit(100, 3))
    worn.reopen()
    worn.holds_what_it_should()


def test_a_store_that_is_not_worn_is_left_alone(site: Site) -> None:
    site.upsert(range(FILLED), ALL)
    site.delete(range(LEAST_REMOVED - 1))
    assert site.renewed().head == {"more": False, "whole": False}
    assert site.beside == []
    site.delete(range(LEAST_REMOVED - 1, LEAST_REMOVED))
    assert site.renewed().head["whole"]


@pytest.mark.parametrize("pieces", range(8))
def test_what_is_changed_while_it_is_copied_is_changed_in_both(worn: Site, pieces: int) -> None:
    steps = worn.renew()
    for _ in range(pieces):
        next(steps, None)
    worn.upsert(range(LEAST_REMOVED - 5, LEAST_REMOVED + 5), unit(10, 4))  # some come back, some change
    worn.delete(range(FILLED - 100, FILLED - 90))
    worn.upsert(range(10_000, 10_200), unit(200, 5))
    worn.delete(range(10_000, 10_010))
    worn.delete(range(LEAST_REMOVED + 70, LEAST_REMOVED + 80))
    assert worn.renewed().head["whole"]
    worn.upsert(range(10_300, 10_310), unit(10, 6))  # and after the last piece
    worn.delete(range(10_100, 10_110))
    worn.reopen()
    assert worn.beside == []
    assert worn.renewed().head == {"more": False, "whole": False}, "the copy is what was opened"
    worn.holds_what_it_should()


@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_a_copy_that_was_cut_off_is_forgotten(worn: Site, pieces: int) -> None:
    worn.reopen()
    steps = worn.renew()
    for _ in range(pieces):
        next(steps, None)
    worn.upsert(range(10_000, 10_010), unit(10, 5))
    assert worn.beside == [f"{worn.folder.name}.next"]
    worn.kill()
    assert worn.open().head["count"] == KEPT + 10
    assert worn.beside == []
    worn.holds_what_it_should()
    assert worn.renewed().head["whole"], "it is as worn as before"


def test_half_a_copy_does_not_take_the_place_of_the_store_that_is_closed(worn: Site) -> None:
    steps = worn.renew()
    for _ in range(3):
        next(steps)
    assert worn.reopen().head["count"] == KEPT
    worn.holds_what_it_should()
    assert worn.beside == []


@pytest.mark.parametrize("moves", range(3))
def test_the_change_over_may_be_cut_off_at_each_move(worn: Site, moves: int) -> None:
    assert worn.renewed().head["whole"]
    done(worn.stores.shut(Message({"store": 1})))
    copy = worn.root / f"{worn.folder.name}.next"
    if moves > 0:
        worn.folder.rename(worn.root / f"{worn.folder.name}.worn")
    if moves > 1:
        copy.rename(worn.folder)
    assert worn.open().head == {"count": KEPT, "clean": True, "set_aside": None, "missed": False}
    worn.holds_what_it_should()
    assert worn.beside == []
    assert worn.renewed().head["whole"] is False


def test_a_copy_that_fails_ends_and_the_store_goes_on(worn: Site, caplog: pytest.LogCaptureFixture) -> None:
    steps = worn.renew()
    next(steps)
    next(steps)
    shutil.rmtree(worn.root / f"{worn.folder.name}.next")
    with caplog.at_level(logging.WARNING):
        assert worn.renewed().head == {"more": False, "whole": False}
    assert "a worn vector store can't be written anew" in caplog.text
    worn.upsert(range(10_000, 10_010), unit(10, 5))
    worn.delete(range(LEAST_REMOVED, LEAST_REMOVED + 10))
    worn.reopen()
    worn.holds_what_it_should()


def test_without_room_for_two_it_stays_as_it_is(worn: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(worn.root)
    free = worn.size
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    assert worn.renewed().head == {"more": False, "whole": False}
    assert worn.beside == []
    free += 64 << 20
    assert worn.renewed().head["whole"] is False
    free += 1
    assert worn.renewed().head["whole"]


def test_how_worn_it_is_outlives_a_kill_but_for_the_last_thousand(site: Site) -> None:
    site.upsert(range(FILLED + 1_000), unit(FILLED + 1_000, 2))
    for start in range(0, 2_900, 100):
        site.delete(range(start, start + 100))
    site.kill()
    site.open()
    assert site.renewed().head["whole"]


async def test_a_quiet_time_is_used_and_answers_go_on(tmp_path: Path) -> None:
    async with rigged(tmp_path, patience=replace(PATIENT, calm_s=0.2)) as rig:
        await rig.started()
        await rig.fill(range(1, FILLED + 1))
        await rig.vectors.delete(np.arange(1, LEAST_REMOVED + 1))
        await rig.started(2)
        assert rig.vectors.count == KEPT
        await rig.finds_itself(*range(LEAST_REMOVED + 1, FILLED, 30))
        await rig.fill(range(LEAST_REMOVED - 9, FILLED + 1))
        assert rig.vectors.state == "ready"
        assert not rig.aside
    assert sorted(path.suffix for path in rig.root.iterdir() if path.is_dir()) == [""]
    assert (rig.folder / "clean").exists()


async def test_while_it_is_used_nothing_is_written_anew(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.started()
        await rig.fill(range(1, FILLED + 1))
        await rig.vectors.delete(np.arange(1, LEAST_REMOVED + 1))
        await rig.finds_itself(FILLED)
        assert rig.starts == 1
        assert not [path for path in rig.root.iterdir() if path.suffix == ".next"]
