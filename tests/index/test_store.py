"""The vector store and its folder, with the real database in this process."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.store import Store, StoreFailed
from sidecar.index.store_folder import KEPT_ASIDE, StoreFolder, Taken, name_for
from sidecar.index.wire import Server
from tests.index.servers import chroma_server

DIM = 16
IDS = np.arange(100, 400, dtype=np.int64)


def made(count: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


VECTORS = made(IDS.size)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def store(place: Path) -> Iterator[Store]:
    opened = Store(place, "collection")
    yield opened
    opened.close()


@pytest.fixture
def filled(store: Store) -> Store:
    store.upsert(IDS, VECTORS.astype(np.float16))
    return store


# the store


def test_the_nearest_come_with_their_cosines_best_first(filled: Store) -> None:
    wanted = made(1, seed=1)[0]
    exact = VECTORS.astype(np.float16).astype(np.float32) @ wanted
    ids, cosines = filled.query(wanted, 20)
    order = np.argsort(-exact)[:20]
    assert ids.tolist() == IDS[order].tolist()
    np.testing.assert_allclose(cosines, exact[order], atol=2e-3)
    assert (ids.dtype, cosines.dtype) == (np.int64, np.float32)


def test_fewer_than_wanted_are_all_there_are(store: Store) -> None:
    assert store.query(VECTORS[0], 10)[0].tolist() == []
    store.upsert(IDS[:3], VECTORS[:3])
    assert sorted(store.query(VECTORS[0], 1000)[0].tolist()) == IDS[:3].tolist()


def test_a_vector_of_zeros_may_be_stored_and_is_near_to_nothing(store: Store) -> None:
    store.upsert(IDS[:2], np.stack([np.zeros(DIM, np.float32), VECTORS[1]]))
    ids, cosines = store.query(VECTORS[1], 2)
    assert ids.tolist() == [IDS[1], IDS[0]]
    assert cosines[1] == pytest.approx(0.0, abs=1e-6)


def test_what_was_deleted_is_not_found_and_unknown_ids_are_passed_over(filled: Store) -> None:
    filled.delete(np.array([IDS[5], 9_999_999]))
    filled.delete(np.empty(0, np.int64))
    assert filled.count() == IDS.size - 1
    assert IDS[5] not in filled.query(VECTORS[5], 10)[0]


def test_pages_of_ids_fit_together(filled: Store) -> None:
    pages = [filled.ids(offset, 70) for offset in range(0, 400, 70)]
    assert np.sort(np.concatenate(pages)).tolist() == IDS.tolist()


def test_a_sample_holds_ids_of_the_store_and_its_newest(filled: Store) -> None:
    sample = filled.sample(20)
    assert set(sample.tolist()) <= set(IDS.tolist())
    assert IDS[-1] in sample
    assert 2 <= sample.size <= 20
    assert filled.sample(IDS.size).tolist() == IDS.tolist()


def test_a_sample_is_of_single_ids_from_all_over_the_store(filled: Store) -> None:
    sample = filled.sample(60)
    assert sample.size > 50
    # of 54 drawn from 300, some ten stand beside another; of nine places with six ids each, all would
    assert np.count_nonzero(np.diff(sample) == 1) < 30


def test_a_sample_of_ids_in_a_wide_range_has_enough_of_them(store: Store) -> None:
    ids = IDS * 10**9
    store.upsert(ids, VECTORS)
    sample = store.sample(40)
    assert set(sample.tolist()) <= set(ids.tolist())
    assert ids[-1] in sample
    assert 15 <= sample.size <= 40


def test_known_vectors_find_themselves_and_others_do_not(filled: Store) -> None:
    assert filled.self_hits(IDS[:40], VECTORS[:40]) == 40
    assert filled.self_hits(IDS[:40], made(40, seed=2)) < 4


def test_chunks_with_the_same_vector_find_each_other(store: Store) -> None:
    store.upsert(IDS[:50], np.repeat(VECTORS[:1], 50, axis=0))
    assert store.self_hits(IDS[:50], np.repeat(VECTORS[:1], 50, axis=0)) == 50


def test_what_was_stored_is_there_after_opening_again(place: Path, filled: Store) -> None:
    filled.close()
    again = Store(place, "collection")
    assert again.count() == IDS.size
    assert again.self_hits(IDS, VECTORS) == IDS.size
    again.close()


def test_failures_of_the_database_are_told_without_its_words(filled: Store) -> None:
    with pytest.raises(StoreFailed) as failed:
        filled.upsert(IDS[:1], np.zeros((1, DIM + 1), np.float32))
    assert re.fullmatch("[A-Za-z]+", str(failed.value))


def test_a_settings_file_in_the_present_folder_is_not_read(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("CHROMA_API_IMPL=nonsense\nIS_PERSISTENT=false\n")
    monkeypatch.chdir(tmp_path)
    Store(place, "collection").close()
    assert (place / "chroma.sqlite3").exists()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with chroma_server(tmp_path_factory.mktemp("server")) as server:
        yield server.port


def test_a_chroma_server_serves_as_well(port: int) -> None:
    server = Server(port=port)
    store = Store(server, "vault-a")
    other = Store(server, "vault-b")
    store.upsert(IDS, VECTORS)
    assert store.query(VECTORS[7], 1)[0].tolist() == [IDS[7]]
    assert store.self_hits(IDS[:30], VECTORS[:30]) == 30
    assert other.count() == 0
    store.delete(IDS[:100])
    assert np.sort(Store(server, "vault-a").ids(0, 1000)).tolist() == IDS[100:].tolist()
    assert Store(server, "vault-a", anew=True).count() == 0


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(StoreFailed):
            Store(Server(port=taken.getsockname()[1]), "vault-a")


def test_a_server_shows_no_secret() -> None:
    assert "hush" not in repr(Server(headers={"Authorization": "hush"}, api_key="hush"))


# its folder


def held(root: Path, embedder_id: str = "e5@1/384") -> StoreFolder:
    folder = StoreFolder(root, embedder_id)
    folder.hold(grace_s=0.0)
    return folder


def test_only_one_may_hold_a_folder(tmp_path: Path) -> None:
    first = held(tmp_path)
    with pytest.raises(Taken):
        held(tmp_path)
    held(tmp_path, "use@1/512").release()
    first.release()
    held(tmp_path).release()


def test_the_lock_holds_while_the_folder_is_moved_away(tmp_path: Path) -> None:
    first = held(tmp_path)
    first.begin()
    first.set_aside()
    with pytest.raises(Taken):
        held(tmp_path)
    first.release()


def test_the_clean_mark_is_seen_once(tmp_path: Path) -> None:
    folder = held(tmp_path)
    assert folder.begin() is False
    folder.mark_clean()
    assert folder.begin() is True
    assert folder.begin() is False


def test_a_vanished_folder_is_missed(tmp_path: Path) -> None:
    folder = held(tmp_path)
    assert not folder.missed
    folder.begin()
    folder.release()
    again = held(tmp_path)
    assert not again.missed
    again.path.rename(tmp_path / "elsewhere")
    again.mark_clean()  # has nowhere to go
    again.release()
    assert held(tmp_path).missed


def test_the_store_of_another_embedder_and_what_is_not_ours_are_strange(tmp_path: Path) -> None:
    folder = held(tmp_path)
    assert folder.strangeness() is None
    folder.path.mkdir()
    assert folder.strangeness() is None
    folder.begin()
    assert folder.strangeness() is None
    (folder.path / "store.json").write_text('{"layout": 1, "embedder": "use@1/512"}')
    assert folder.strangeness() == "is of another embedder or layout"
    (folder.path / "store.json").write_text("{")
    assert folder.strangeness() == "is not one of ours"
    (folder.path / "store.json").unlink()
    (folder.path / "thesis.txt").touch()
    assert folder.strangeness() == "is not one of ours"


@pytest.mark.parametrize("kind", ["a file", "a link"])
def test_what_is_no_folder_is_moved_and_not_followed(tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "store.json").write_text("{}")
    root = tmp_path / "root"
    root.mkdir()
    folder = held(root)
    if kind == "a file":
        folder.path.write_text("canary")
    else:
        folder.path.symlink_to(elsewhere)
    assert folder.strangeness() == "is not one of ours"
    folder.set_aside()
    folder.begin()
    assert not folder.path.is_symlink()
    for _ in range(KEPT_ASIDE + 1):  # until it is dropped
        folder.set_aside()
        folder.begin()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["store.json"]


def test_the_newest_damaged_stores_are_kept_and_only_those_are_dropped(tmp_path: Path) -> None:
    folder = held(tmp_path)
    others = [f"{folder.path.name}.damaged-x", f"{folder.path.name}.damaged-1.txt", "use.damaged-1"]
    for name in others:
        (tmp_path / name).mkdir()
    for number in range(12):
        folder.begin()
        (folder.path / "number").write_text(str(number))
        folder.set_aside()
    kept = sorted(path for path in tmp_path.glob(f"{folder.path.name}.damaged-*") if path.name not in others)
    assert [(path / "number").read_text() for path in kept] == ["10", "11"]
    assert all((tmp_path / name).is_dir() for name in others)


@given(st.text(max_size=40), st.text(max_size=40))
def test_names_fit_the_database_and_are_one_for_each_embedder(one: str, other: str) -> None:
    try:
        one.encode(), other.encode()
    except UnicodeEncodeError:
        return
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,110}[a-z0-9]", name_for(one))
    assert (name_for(one).lower() == name_for(other).lower()) == (one == other)
