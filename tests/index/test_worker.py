"""The worker process, asked directly: its two lines of work, what it lets out and in, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sidecar.index.child import Child, Ended
from sidecar.index.wire import Message
from tests.index.embedders import DIM, FACTORY, vector
from tests.index.rigs import NAME, PATIENCE_S, STORE, child, open_store
from tests.lab import wait_until

IDS = np.arange(1, 101, dtype=np.int64)


def texts(count: int, kind: str = "text") -> list[str]:
    return [f"{kind} {number:03}" for number in range(count)]


def embedded(message: Message) -> np.ndarray:
    return message.arrays[0].astype(np.float32)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def seen(state: Path, text: str) -> list[str]:
    """What the gated embedder has begun, once `text` is among it."""
    file = state / "models" / "seen"
    await asyncio.to_thread(wait_until, lambda: file.exists() and text in file.read_text().splitlines())
    return file.read_text().splitlines()


async def test_texts_come_back_as_vectors_in_their_order(tmp_path: Path) -> None:
    async with child(tmp_path) as (running, reports):
        wanted = ["long " * number for number in range(1, 40)]
        found = embedded(await running.call("embed", texts=wanted))
        np.testing.assert_allclose(found, [vector(text) for text in wanted], atol=1e-3)
        assert reports == ["loading hash"]


async def test_a_query_is_answered_while_a_text_is_being_embedded(tmp_path: Path) -> None:
    async with child(tmp_path, "gated") as (running, _):
        await open_store(running, tmp_path)
        await running.call("upsert", store=STORE, arrays=(IDS, np.stack([vector(str(number)) for number in IDS])))
        stuck = running.begin("embed", head={"texts": ["wait for it"]})
        await seen(tmp_path, "wait for it")
        ids, _ = (await running.call("query", store=STORE, text="7", n=1)).arrays
        assert ids.tolist() == [7]
        assert not stuck.done()
        (tmp_path / "models" / "go").touch()
        assert embedded(await stuck).shape == (1, DIM)


async def test_urgent_texts_wait_for_no_others(tmp_path: Path) -> None:
    async with child(tmp_path, "gated") as (running, _):
        first = running.begin("embed", head={"texts": texts(100, "wait")})
        await seen(tmp_path, "wait 000")
        second = running.begin("embed", head={"texts": texts(8, "patient")})
        save = await running.begin("embed", head={"texts": texts(3, "save"), "urgent": True})
        assert embedded(save).shape == (3, DIM)
        assert not (first.done() or second.done())
        (tmp_path / "models" / "go").touch()
        await asyncio.gather(first, second)
        order = await seen(tmp_path, "patient 007")
        assert order.index("wait 099") < order.index("patient 000")
        assert sorted(order) == sorted(texts(100, "wait") + texts(8, "patient") + texts(3, "save"))


@pytest.mark.parametrize("work", ["embed", "upsert", "delete"])
async def test_a_query_beside_long_work_waits_for_a_fraction_of_it(tmp_path: Path, work: str) -> None:
    async with child(tmp_path, "busy") as (running, _):
        await open_store(running, tmp_path)
        vectors = np.random.default_rng(0).normal(size=(2_000, DIM)).astype(np.float32)
        await running.call("upsert", store=STORE, arrays=(IDS, np.stack([vector(str(number)) for number in IDS])))

        async def longest_wait(many: np.ndarray) -> float:
            """Of a query, as a share of the work."""
            if work == "delete":
                await running.call("upsert", store=STORE, arrays=(many, vectors))
            await running.call("query", store=STORE, text="7", n=10)
            began = time.perf_counter()
            if work == "embed":
                call = running.begin("embed", head={"texts": texts(64)})
            else:
                call = running.begin(work, (many, vectors) if work == "upsert" else (many,), head={"store": STORE})
            waits: list[float] = []
            while not call.done():
                asked = time.perf_counter()
                await running.call("query", store=STORE, text="7", n=10)
                waits.append(time.perf_counter() - asked)
            return max(waits) / (time.perf_counter() - began)

        # in pieces, the longest wait is a few of a hundred, or more when the machine holds up this process or the
        # other one for a moment; in one piece, one query would wait for nearly all of it each time
        first = itertools.count(1_000, 2_000)
        async with asyncio.timeout(2 * PATIENCE_S):
            while await longest_wait(np.arange(start := next(first), start + 2_000)) > 0.5:
                pass


async def test_a_text_that_the_embedder_cannot_take_gets_zeros_and_the_others_their_vectors(tmp_path: Path) -> None:
    async with child(tmp_path, "picky") as (running, _):
        wanted = ["one", "a poison", "two", "endless", "three", "poison"]
        found = embedded(await running.call("embed", texts=wanted))
        good = [0, 2, 4]
        np.testing.assert_allclose(found[good], [vector(wanted[place]) for place in good], atol=1e-3)
        assert not found[[1, 3, 5]].any()


async def test_an_embedder_that_fails_on_every_text_is_a_failure_and_no_zeros(tmp_path: Path) -> None:
    async with child(tmp_path, "picky") as (running, _):
        (tmp_path / "models" / "broken").touch()
        with pytest.raises(Ended) as ended:
            await running.call("embed", texts=["one"])
        assert ended.value.failure.kind == "failed"
        assert not ended.value.failure.stores
        assert await running.ended() == ended.value.failure


async def test_a_query_without_meaning_finds_nothing(tmp_path: Path) -> None:
    async with child(tmp_path) as (running, _):
        await open_store(running, tmp_path)
        await running.call("upsert", store=STORE, arrays=(IDS[:1], vector("1")[np.newaxis]))
        ids, cosines = (await running.call("query", store=STORE, text=" ", n=5)).arrays
        assert ids.size == cosines.size == 0


async def test_libraries_may_print_and_read_and_get_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setenv("VAULT_SIDECAR_TOKEN", "hush")
    async with child(tmp_path, "talking") as (running, _):
        assert embedded(await running.call("embed", texts=["one"])).shape == (1, DIM)
        environment = (tmp_path / "models" / "environment").read_text()
        assert "hush" not in environment
        assert "PYTHONPATH=" in environment
    assert "I am loading\nraw\n" in (tmp_path / "chroma" / "worker.log").read_text()


async def test_a_worker_whose_store_is_open_elsewhere_is_refused(tmp_path: Path) -> None:
    async with child(tmp_path) as (first, _), child(tmp_path) as (second, _):
        await open_store(first, tmp_path)
        with pytest.raises(Ended, match="open in another process") as ended:
            await open_store(second, tmp_path)
        assert ended.value.failure.kind == "away"
        await first.call("upsert", store=STORE, arrays=(IDS[:1], vector("1")[np.newaxis]))


async def test_an_interrupt_is_the_business_of_the_daemon(tmp_path: Path) -> None:
    async with child(tmp_path) as (running, _):
        os.kill(running.pid, signal.SIGINT)
        assert embedded(await running.call("embed", texts=["one"])).shape == (1, DIM)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
async def test_a_worker_that_is_told_to_end_closes_its_store(tmp_path: Path) -> None:
    async with child(tmp_path) as (running, _):
        await open_store(running, tmp_path)
        os.kill(running.pid, signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            failure = await running.ended()
        assert failure.reason == "ended by itself with code 0"
        assert (tmp_path / "chroma" / NAME / "clean").exists()


_PARENT = f"""
import asyncio, os, sys
from pathlib import Path
from sidecar.index.child import Child

async def main():
    folder = Path(sys.argv[1])
    child = await Child.start(folder / "chroma", os.environ, silent_s=30, slow_s=30, on_report=print)
    await child.call("load", factory={FACTORY!r}, name="gated", models=str(folder / "models"))
    await child.call("open", store=1, root=str(folder / "chroma"), set_aside=None, server=None, collection="")
    child.begin("embed", head={{"texts": ["wait"] if sys.argv[2] == "busy" else ["go"]}})
    print("pid", child.pid, flush=True)
    await child.ended()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["idle", "busy"])
def test_a_worker_ends_with_its_daemon(tmp_path: Path, how: str) -> None:
    (tmp_path / "models").mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, tmp_path, how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    with parent, parent.stdout as lines:
        pid = next(int(line.split()[1]) for line in lines if line.startswith("pid"))
        wait_until((tmp_path / "models" / "seen").exists)
        parent.kill()
    wait_until(lambda: not is_alive(pid))
    # what it was at was not waited for, if it did not end by itself
    assert (tmp_path / "chroma" / NAME / "clean").exists() == (how == "idle")


async def test_a_log_that_has_grown_long_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "chroma").mkdir()
    log = tmp_path / "chroma" / "worker.log"
    log.write_bytes(bytes(1 << 19))
    running = await Child.start(
        tmp_path / "chroma", os.environ, silent_s=PATIENCE_S, slow_s=PATIENCE_S, on_report=print
    )
    await running.close(5.0)
    assert log.stat().st_size < 1 << 10
