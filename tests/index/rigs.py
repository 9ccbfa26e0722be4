"""A vector index with a real worker and a real store, as the indexer would use it: it knows the vectors it stored."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from sidecar.index.child import Child
from sidecar.index.patience import Patience
from sidecar.index.store_folder import name_for
from sidecar.index.vector_worker import VectorWorker
from sidecar.index.vectors import Vectors
from sidecar.index.wire import Array, Float16, Int64
from tests.index import embedders
from tests.index.embedders import DIM, FACTORY

PATIENCE_S = 30.0
PATIENT = Patience(answer_s=PATIENCE_S, close_s=PATIENCE_S)
"""As long for what a busy machine may hold up."""
STORE = 1
NAME = name_for(f"hash@1/{DIM}")


def text(chunk_id: int) -> str:
    """The text of a chunk, unlike all others."""
    return f"word{chunk_id} topic{chunk_id % 7}"


def texts_and_vectors(ids: range) -> Float16:
    return np.stack([embedders.vector(text(chunk_id)) for chunk_id in ids]).astype(np.float16)


def plenty(first: int) -> tuple[Int64, Float16]:
    """Chunks and vectors that take longer to store than a busy machine holds anything up; the vector of the first chunk
    is that of its text."""
    ids = np.arange(first, first + 40_000)
    vectors = np.random.default_rng(first).normal(size=(ids.size, DIM)).astype(np.float16)
    vectors[0] = embedders.vector(text(first))
    return ids, vectors


class Rig:
    """The owner of a vector index: caches what it stored, counts the starts."""

    def __init__(
        self,
        state: Path,
        embedder: str = "hash",
        patience: Patience | None = None,
        factory: str = FACTORY,
        worker: VectorWorker | None = None,
    ) -> None:
        self.state = state
        self.root = state / "chroma"
        self.folder = self.root / NAME
        self.models = state / "models"
        self.models.mkdir(parents=True, exist_ok=True)
        self.cached: dict[int, Float16] = {}
        self.asked: list[int] = []
        self.starts = 0
        self._started = asyncio.Event()
        self.worker = worker or VectorWorker(
            self.root, embedder, self.models, environment=os.environ, factory=factory, patience=patience or PATIENT
        )
        self.vectors = Vectors(self.worker, self.root, known_vectors=self._known, on_ready=self._on_ready)

    def _on_ready(self) -> None:
        self.starts += 1
        self._started.set()

    async def _known(self, embedder_id: str, ids: Int64) -> tuple[Int64, Array]:
        self.asked.append(ids.size)
        known = [chunk_id for chunk_id in ids.tolist() if chunk_id in self.cached]
        vectors = np.array([self.cached[chunk_id] for chunk_id in known], np.float16).reshape(len(known), DIM)
        return np.array(known, np.int64), vectors

    async def started(self, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.starts < times:
                await self._started.wait()
                self._started.clear()

    def remember(self, ids: range) -> None:
        self.cached.update(zip(ids, texts_and_vectors(ids), strict=True))

    async def fill(self, ids: range) -> None:
        """Store chunks the way the indexer does: from the cache, only those that are missing."""
        self.remember(ids)
        stored = await self.vectors.ids()
        missing = np.setdiff1d(np.array(ids, np.int64), stored)
        await self.vectors.upsert(missing, np.array([self.cached[chunk_id] for chunk_id in missing.tolist()]))

    async def finds_itself(self, *chunk_ids: int) -> None:
        for chunk_id in chunk_ids:
            ids, cosines = await self.vectors.query(text(chunk_id), 3)
            assert ids[0] == chunk_id
            assert cosines[0] > 0.99

    @property
    def aside(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if ".damaged-" in path.name)


@asynccontextmanager
async def rigged(
    state: Path, embedder: str = "hash", patience: Patience | None = None, factory: str = FACTORY
) -> AsyncGenerator[Rig]:
    rig = Rig(state, embedder, patience, factory)
    async with rig.worker, rig.vectors:
        yield rig


@asynccontextmanager
async def beside(first: Rig, state: Path) -> AsyncGenerator[Rig]:
    """Another collection in the worker of `first`."""
    state.mkdir(exist_ok=True)
    rig = Rig(state, worker=first.worker)
    async with rig.vectors:
        yield rig


def copied(seed: Path, state: Path, damage: Callable[[Path], None] | None = None) -> Path:
    """A copy of a filled state folder, its store damaged."""
    shutil.copytree(seed, state)
    if damage:
        damage(state / "chroma" / NAME)
    return state


@asynccontextmanager
async def child(state: Path, embedder: str = "hash") -> AsyncGenerator[tuple[Child, list[str]]]:
    """A worker with its embedder loaded, and what it reported."""
    (state / "models").mkdir(exist_ok=True)
    reports: list[str] = []
    running = await Child.start(
        state / "chroma", os.environ, silent_s=PATIENCE_S, slow_s=PATIENCE_S, on_report=reports.append
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            await running.call("load", factory=FACTORY, name=embedder, models=str(state / "models"))
        yield running, reports
    finally:
        await running.close(5.0)


async def open_store(running: Child, state: Path, store: int = STORE) -> None:
    await running.call("open", store=store, root=str(state / "chroma"), set_aside=None, server=None, collection="")


def damages() -> dict[str, Callable[[Path], None]]:
    """Ways in which the folder of a store goes bad."""

    def segment(folder: Path) -> Path:
        return next(path for path in folder.iterdir() if path.is_dir())

    def scramble(path: Path, start: int = 0, end: int | None = None) -> None:
        data = bytearray(path.read_bytes())
        data[start:end] = bytes(255 - byte for byte in data[start:end])
        path.write_bytes(data)

    def truncate(path: Path, share: float) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    def emptied(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()

    def a_file(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.write_text("no folder")

    def foreign(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "thesis.txt").write_text("not ours")

    return {
        "database scrambled": lambda folder: scramble(folder / "chroma.sqlite3", 0, 64),
        "database empty": lambda folder: truncate(folder / "chroma.sqlite3", 0),
        "graph scrambled": lambda folder: scramble(segment(folder) / "data_level0.bin"),
        "graph truncated": lambda folder: truncate(segment(folder) / "data_level0.bin", 0.5),
        "graph gone": lambda folder: shutil.rmtree(segment(folder)),
        "emptied": emptied,
        "vanished": shutil.rmtree,
        "foreign": foreign,
        "a file in its place": a_file,
    }
