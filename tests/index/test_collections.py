"""Several collections in one worker process: kept apart, opened and closed at any time, each answering for itself."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from sidecar.errors import VectorsAway
from sidecar.index import vector_worker
from tests.index.rigs import NAME, PATIENCE_S, Rig, beside, copied, damages, plenty, rigged, text
from tests.lab import wait_until

FEW = range(1, 40)
OTHERS = range(101, 140)


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a small filled collection, closed in order."""
    state = tmp_path_factory.mktemp("seed") / "state"
    state.mkdir()

    async def fill() -> None:
        async with rigged(state) as rig:
            await rig.started()
            await rig.fill(range(1, 1_200))  # enough for the database to write a graph

    asyncio.run(fill())
    return state


async def test_collections_share_a_process_and_nothing_else(tmp_path: Path) -> None:
    async with rigged(tmp_path / "one") as one, beside(one, tmp_path / "two") as two:
        await asyncio.gather(one.started(), two.started())
        await one.fill(FEW)
        await two.fill(OTHERS)
        assert one.vectors.pid == two.vectors.pid is not None
        await one.finds_itself(1, 39)
        await two.finds_itself(101, 139)
        assert (one.vectors.count, two.vectors.count) == (len(FEW), len(OTHERS))
        await two.vectors.delete(np.array([101, 1]))
        assert (await one.vectors.ids()).tolist() == list(FEW)
        assert (await two.vectors.ids()).tolist() == list(OTHERS)[1:]


async def test_one_is_opened_and_closed_while_another_is_used(tmp_path: Path) -> None:
    async with rigged(tmp_path / "one") as one:
        await one.started()
        work = asyncio.create_task(one.fill(range(1, 2_000)))
        async with beside(one, tmp_path / "two") as two:
            await two.started()
            await two.fill(OTHERS)
            queries = asyncio.gather(*(two.vectors.query(text(101), 3) for _ in range(20)), return_exceptions=True)
            await asyncio.sleep(0)
        assert all(isinstance(answer, tuple) for answer in await queries)  # what was asked before is answered
        with pytest.raises(VectorsAway, match="ended"):
            await two.vectors.query(text(101), 3)
        assert (two.folder / "clean").exists()
        shutil.rmtree(two.root)
        async with beside(one, tmp_path / "two") as again:
            await again.started()
            assert again.vectors.count == 0
        await work
        await one.finds_itself(1, 1_999)
        assert one.starts == 1


async def test_a_worker_that_is_started_again_opens_all(tmp_path: Path) -> None:
    async with rigged(tmp_path / "one") as one, beside(one, tmp_path / "two") as two:
        await asyncio.gather(one.started(), two.started())
        await one.fill(FEW)
        await two.fill(OTHERS)
        assert one.vectors.pid
        os.kill(one.vectors.pid, signal.SIGKILL)
        await asyncio.gather(one.started(2), two.started(2))
        await one.finds_itself(*FEW)
        await two.finds_itself(*OTHERS)


@pytest.mark.parametrize("damage", ["database scrambled", "graph truncated", "foreign"])
async def test_a_damaged_store_is_set_aside_alone(seed: Path, tmp_path: Path, damage: str) -> None:
    broken = copied(seed, tmp_path / "broken", damages()[damage])
    async with rigged(tmp_path / "sound") as sound:
        await sound.started()
        await sound.fill(FEW)
        async with beside(sound, broken) as other:
            other.remember(range(1, 1_200))
            await other.started()
            await other.fill(FEW)
            await other.finds_itself(*FEW)
            await sound.started(sound.starts)
            async with asyncio.timeout(PATIENCE_S):
                while sound.vectors.state != "ready":
                    await asyncio.sleep(0.02)
            await sound.finds_itself(*FEW)
            assert (len(sound.aside), len(other.aside)) == (0, 1)


async def test_one_that_cannot_be_opened_holds_up_no_other_and_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with rigged(tmp_path / "one") as one:
        await one.started()
        pid = one.vectors.pid
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "chroma").write_text("in the way")
        async with beside(one, tmp_path / "two") as two:
            async with asyncio.timeout(PATIENCE_S):
                while two.vectors.state != "away":
                    await one.fill(FEW)
            assert (
                two.vectors.reason == "The vector worker can't use the state folder (File exists); it is tried again."
            )
            assert (one.vectors.state, one.vectors.pid) == ("ready", pid)
            (tmp_path / "two" / "chroma").unlink()
            two.vectors.retry()
            await two.started()
            assert two.vectors.pid == pid
            assert str(tmp_path) not in caplog.text


async def fatal_queries(guilty: Rig, neighbour: Rig, times: int) -> None:
    """Let queries of the one end the process while much is stored for the other."""
    for start in range(times):
        await guilty.started(start + 1)
        await neighbour.started(start + 1)
        ids, vectors = plenty(100_000 * (start + 1))
        work = asyncio.create_task(neighbour.vectors.upsert(ids, vectors))
        neighbour.cached.update(zip(ids.tolist(), vectors, strict=True))
        async with asyncio.timeout(PATIENCE_S):
            while (await neighbour.vectors.query(text(int(ids[0])), 1))[0].tolist() != [ids[0]]:
                pass  # until it is in the middle of it
        with pytest.raises(VectorsAway, match="SIGSEGV"):
            await guilty.vectors.query("a fatal query", 1)
        with pytest.raises(VectorsAway):
            await work
    await guilty.started(times + 1)
    await neighbour.started(times + 1)


async def test_ends_of_the_process_are_put_down_to_the_store_that_is_guilty(tmp_path: Path) -> None:
    async with rigged(tmp_path / "one", "fatal") as neighbour, beside(neighbour, tmp_path / "two") as guilty:
        await asyncio.gather(guilty.started(), neighbour.started())
        await guilty.fill(FEW)
        await neighbour.fill(FEW)
        await fatal_queries(guilty, neighbour, 3)  # after the first one it is not clear whose fault it was
        assert (len(guilty.aside), guilty.vectors.count) == (1, 0)
        assert neighbour.aside == []
        await neighbour.finds_itself(*FEW)


async def test_without_taking_turns_the_neighbour_would_not_be_told_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of the one above: nobody is found guilty, however often it happens."""
    monkeypatch.setattr(vector_worker, "SEVERAL", 1_000)
    async with rigged(tmp_path / "one", "fatal") as neighbour, beside(neighbour, tmp_path / "two") as guilty:
        await asyncio.gather(guilty.started(), neighbour.started())
        await guilty.fill(FEW)
        await neighbour.fill(FEW)
        await fatal_queries(guilty, neighbour, 3)
        assert guilty.aside == neighbour.aside == []


async def test_queries_of_one_go_ahead_of_the_backfill_of_another(tmp_path: Path) -> None:
    async with rigged(tmp_path / "one", "gated") as filling, beside(filling, tmp_path / "two") as asked:
        await asyncio.gather(filling.started(), asked.started())
        await asked.fill(FEW)
        stuck = asyncio.create_task(filling.vectors.embed(["wait for it"]))
        seen = filling.models / "seen"
        await asyncio.to_thread(wait_until, lambda: seen.exists() and "wait for it" in seen.read_text())
        await asked.finds_itself(1, 39)
        assert not stuck.done()
        (filling.models / "go").touch()
        await stuck


async def test_a_collection_that_is_held_starts_no_worker(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    held = type(rig.vectors)(rig.worker, rig.root, known_vectors=rig._known, on_ready=rig._on_ready, held=True)
    async with rig.worker, held:
        for _ in range(20):
            await asyncio.sleep(0)
        assert not (rig.root / "worker.log").exists()
        held.release()
        await rig.started()
        assert NAME in [path.name for path in rig.root.iterdir()]
