from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.index.counted import counted
from sidecar.index.keyword_store import KeywordStore
from sidecar.index.keywords import KeywordIndex
from tests.limits import files_at_most

Batch = tuple[list[int], list[tuple[int, dict[str, int]]]]

BATCHES: list[Batch] = [
    ([], [(1, {"heat": 1, "pump": 2}), (2, {"solar": 1}), (3, {})]),
    ([2], [(4, {"pump": 1, "größe": 3, "東京": 1, "#a/b": 1})]),
    ([99], [(5, {"many": 70_000}), (1, {"heat": 5})]),
]


def record(store: KeywordStore, remove: list[int], add: list[tuple[int, dict[str, int]]]) -> None:
    """Write down one batch."""
    store.append(remove, [doc_id for doc_id, _ in add], counted(counts for _, counts in add))


def write(folder: Path, batches: list[Batch], snapshot_after: int = -1) -> KeywordIndex:
    """An index that got these batches, written down as they came."""
    store = KeywordStore(folder)
    index, problem = store.load()
    assert problem is None
    for number, (remove, add) in enumerate(batches):
        index.replace(remove, add)
        record(store, remove, add)
        if number == snapshot_after:
            store.snapshot(index)
    store.close()
    return index


def read(folder: Path) -> tuple[KeywordIndex, str | None]:
    store = KeywordStore(folder)
    try:
        return store.load()
    finally:
        store.close()


def same(one: KeywordIndex, other: KeywordIndex) -> bool:
    words = ["heat", "pump", "solar", "größe", "東京", "#a/b", "many"]
    return (
        one.ids().tolist() == other.ids().tolist()
        and one.avgdl == other.avgdl
        and one.frequencies(words) == other.frequencies(words)
        and all(dict(one.search({word: 1.0}, 9)) == dict(other.search({word: 1.0}, 9)) for word in words)
    )


@pytest.mark.parametrize("snapshot_after", [-1, 0, 1, 2], ids=["log only", "early", "late", "snapshot only"])
def test_what_was_written_is_read_again(tmp_path: Path, snapshot_after: int) -> None:
    index = write(tmp_path, BATCHES, snapshot_after)
    found, problem = read(tmp_path)
    assert problem is None
    assert same(found, index)


def test_a_folder_without_files_gives_an_empty_index(tmp_path: Path) -> None:
    index, problem = read(tmp_path / "new" / "folder")
    assert problem is None
    assert index.ids().tolist() == []


def test_work_goes_on_behind_what_was_read(tmp_path: Path) -> None:
    write(tmp_path, BATCHES[:1])
    index = write(tmp_path, BATCHES[1:])
    assert same(read(tmp_path)[0], index)
    assert index.ids().tolist() == [1, 3, 4, 5]


def test_the_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    write(tmp_path, BATCHES)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["bm25.log", "bm25.snap"]
    if os.name != "nt":
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_log_cut_at_any_byte_gives_whole_batches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "bm25.log"
    states: dict[int, KeywordIndex] = {}
    for count in range(len(BATCHES) + 1):
        folder = tmp_path / str(count)
        states[count] = write(folder, BATCHES[:count])
    ends = [(tmp_path / str(count) / "bm25.log").stat().st_size for count in range(len(BATCHES) + 1)]
    write(tmp_path, BATCHES)
    whole = log.read_bytes()
    for size in range(ends[0], len(whole) + 1):
        log.write_bytes(whole[:size])
        caplog.clear()
        index, problem = read(tmp_path)
        complete = max(count for count, end in enumerate(ends) if end <= size)
        assert same(index, states[complete])
        assert (problem is None) == (size in ends)
        assert len(caplog.records) == (size not in ends)
        assert log.stat().st_size == ends[complete]


@pytest.mark.parametrize("at", [0, 12, -1], ids=["length", "payload", "last byte"])
def test_a_damaged_record_ends_the_log(tmp_path: Path, at: int) -> None:
    write(tmp_path, BATCHES[:1])
    log = tmp_path / "bm25.log"
    start = log.stat().st_size
    expected = read(tmp_path)[0]
    write(tmp_path, BATCHES[1:2])
    damaged = bytearray(log.read_bytes())
    damaged[start + at if at >= 0 else at] ^= 0xFF
    log.write_bytes(damaged)
    index, problem = read(tmp_path)
    assert same(index, expected)
    assert problem is not None and "log" in problem
    assert read(tmp_path)[1] is None


@pytest.mark.parametrize("at", [0, 9, 30, 200, -30, -1])
def test_a_damaged_snapshot_is_set_aside(tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, BATCHES, snapshot_after=1)
    snapshot = tmp_path / "bm25.snap"
    damaged = bytearray(snapshot.read_bytes())
    damaged[at] ^= 0xFF
    snapshot.write_bytes(damaged)
    index, problem = read(tmp_path)
    assert index.ids().tolist() == []
    assert problem == "The keyword index is damaged; it is set aside and built anew."
    assert [record.message for record in caplog.records] == [problem]
    assert (tmp_path / "bm25.snap.damaged-1").read_bytes() == damaged
    assert read(tmp_path)[1] is None


@pytest.mark.parametrize("size", [0, 5, 11, 13, 100])
def test_a_short_snapshot_is_damaged(tmp_path: Path, size: int) -> None:
    write(tmp_path, BATCHES, snapshot_after=1)
    snapshot = tmp_path / "bm25.snap"
    snapshot.write_bytes(snapshot.read_bytes()[:size])
    index, problem = read(tmp_path)
    assert problem is not None
    assert index.ids().tolist() == []


def test_a_log_of_an_older_snapshot_is_dropped(tmp_path: Path) -> None:
    write(tmp_path, BATCHES[:2])
    old_log = (tmp_path / "bm25.log").read_bytes()
    index = write(tmp_path, BATCHES[2:], snapshot_after=0)
    (tmp_path / "bm25.log").write_bytes(old_log)  # as if the end had come between snapshot and new log
    found, problem = read(tmp_path)
    assert problem is None
    assert same(found, index)


def test_a_missing_log_loses_its_records_alone(tmp_path: Path) -> None:
    write(tmp_path, BATCHES, snapshot_after=0)
    (tmp_path / "bm25.log").unlink()
    index, problem = read(tmp_path)
    assert problem is None
    assert index.ids().tolist() == [1, 2, 3]


def test_an_unfinished_snapshot_is_not_looked_at(tmp_path: Path) -> None:
    index = write(tmp_path, BATCHES)
    (tmp_path / "bm25.snap.new").write_bytes(b"half")
    assert same(read(tmp_path)[0], index)


def test_an_index_of_another_tokenizer_is_built_anew(tmp_path: Path) -> None:
    write(tmp_path, BATCHES, snapshot_after=2)
    store = KeywordStore(tmp_path, tokens="a newer one")
    index, problem = store.load()
    store.close()
    assert index.ids().tolist() == []
    assert problem == "The keyword index was made by another version or for another manifest; it is built anew."
    assert not (tmp_path / "bm25.snap.damaged-1").exists()


def test_a_snapshot_is_due_when_the_log_is_long(tmp_path: Path) -> None:
    store = KeywordStore(tmp_path)
    index, _ = store.load()
    assert not store.due
    batch = [(n, {f"word{n}x{m}": 1 for m in range(1000)}) for n in range(1000)]
    while not store.due:
        record(store, [], batch)
    store.snapshot(index)
    assert not store.due
    store.close()


def test_a_batch_that_could_not_be_written_leaves_the_others_readable(tmp_path: Path) -> None:
    index = write(tmp_path, BATCHES[:1])
    store = KeywordStore(tmp_path)
    store.load()
    size = (tmp_path / "bm25.log").stat().st_size
    with files_at_most(size + 20), pytest.raises(OSError):
        record(store, *BATCHES[1])
    assert (tmp_path / "bm25.log").stat().st_size == size
    record(store, *BATCHES[2])
    store.close()
    index.replace(*BATCHES[2])
    found, problem = read(tmp_path)
    assert problem is None
    assert same(found, index)


def test_a_snapshot_that_could_not_be_written_leaves_the_old_files(tmp_path: Path) -> None:
    index = write(tmp_path, BATCHES)
    store = KeywordStore(tmp_path)
    found, _ = store.load()
    with files_at_most(100), pytest.raises(OSError):
        store.snapshot(found)
    record(store, *BATCHES[0])
    store.close()
    index.replace(*BATCHES[0])
    assert same(read(tmp_path)[0], index)


def test_a_snapshot_without_a_log_behind_it_is_due_again(tmp_path: Path) -> None:
    write(tmp_path, BATCHES)
    store = KeywordStore(tmp_path)
    index, _ = store.load()
    (tmp_path / "bm25.log").unlink()
    (tmp_path / "bm25.log").mkdir()  # as a disk that is full by then: the log can't be made
    with pytest.raises(OSError):
        store.snapshot(index)
    index.replace(*BATCHES[0])
    record(store, *BATCHES[0])
    assert store.due
    (tmp_path / "bm25.log").rmdir()
    store.snapshot(index)
    assert not store.due
    store.close()
    found, problem = read(tmp_path)
    assert problem is None
    assert same(found, index)


def test_nothing_is_appended_before_the_files_are_open(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="load"):
        KeywordStore(tmp_path).append([], [], counted([]))


COUNTS = st.dictionaries(st.text(alphabet="abñ中#/", min_size=1, max_size=3), st.integers(1, 70_000), max_size=4)
STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 20), max_size=3),
        st.lists(st.tuples(st.integers(0, 20), COUNTS), max_size=4),
        st.booleans(),
    ),
    max_size=8,
)


@given(steps=STEPS)
@settings(max_examples=60)
def test_any_history_is_read_as_it_was(
    steps: list[tuple[list[int], list[tuple[int, dict[str, int]]], bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = KeywordStore(folder)
    index, _ = store.load()
    words: set[str] = set()
    for remove, add, snapshot in steps:
        index.replace(remove, add)
        record(store, remove, add)
        words.update(word for _, counts in add for word in counts)
        if snapshot:
            store.snapshot(index)
    store.close()
    found, problem = read(folder)
    assert problem is None
    assert found.ids().tolist() == index.ids().tolist()
    assert found.avgdl == index.avgdl
    for word in words:
        assert dict(found.search({word: 1.0}, 30)) == pytest.approx(dict(index.search({word: 1.0}, 30)))
