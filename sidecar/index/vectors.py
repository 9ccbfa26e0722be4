"""One collection of vectors: those of one corpus by one embedder, in a store that the vector worker has open.

A store that does not find its own vectors any more, or that ends the worker,
is set aside, and its owner fills the new one from the vectors it has cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn, Self, cast

import numpy as np

from sidecar.errors import VectorsAway
from sidecar.index.child import Child, Declined, Ended, Failure
from sidecar.index.known import FOREIGN, sampled
from sidecar.index.patience import HEALTHY_S, Delay
from sidecar.index.upkeep import Upkeep
from sidecar.index.vector_worker import State, VectorWorker, sentence
from sidecar.index.wire import Array, Float16, Float32, Int64, Message, Server

logger = logging.getLogger(__name__)

KnownVectors = Callable[[str, Int64], Awaitable[tuple[Int64, Array]]]
"""(embedder id, chunk ids) to those of the chunks whose vector is cached, and the vectors[n, dim]."""

_MOST_ENDS: Final = 2
"""Ends of the process with the store in hand, one soon after the other, that are put down to the store."""

_SAMPLE_CLEAN: Final = 50  # if half of the graph is lost, one sample in 100,000 looks sound; of 20 ids, one in 20
_SAMPLE_UNCLEAN: Final = 200
_PAGE: Final = 5_000
_STARTING: Final = "The vector index is starting."


class Vectors:
    """Use it with `async with`, inside that of its worker; entering does not wait for the worker.

    Every call raises VectorsAway at once while the store is not open, and
    when the worker ends meanwhile. What the store then holds of a change is
    not known: compare the ids when `on_ready` is called again.
    """

    def __init__(
        self,
        worker: VectorWorker,
        root: Path,
        *,
        known_vectors: KnownVectors,
        on_ready: Callable[[], None],
        server: Server | None = None,
        collection: str = "vault",
        held: bool = False,
        whose: str = "",
    ) -> None:
        """Nothing is opened yet.

        Args:
            root: folder for the stores, one below it for each embedder; its parent exists.
            known_vectors: asked after each opening for the vectors of a few ids that the store holds.
            on_ready: called after each opening, on the loop. It must only wake somebody.
            server: keep the vectors there instead, in collections whose names begin with `collection`.
            held: open it, and start the worker for it, only when `release` is called.
            whose: owner of the store, for the log, such as " of database 'x'".
        """
        self._worker = worker
        self._root = root
        self._known_vectors = known_vectors
        self._on_ready = on_ready
        self._server = server
        self._collection = collection
        self._whose = whose
        self._store = worker.new_store()
        self._child: Child | None = None
        """The process that has the store open."""
        self._state: State = "off"
        self._reason = "The vector index is not started."
        self._set_aside: str | None = None
        self._ends_in_store = 0
        self._delay = Delay()
        self._upkeep = Upkeep(worker.patience.calm_s)
        self._released = asyncio.Event()
        if not held:
            self._released.set()
        self._running: asyncio.Task[None] | None = None
        self.count = 0
        """Ids in the store as of the last change."""

    # what it is doing

    @property
    def worker(self) -> VectorWorker:
        """The process behind it, and its embedder."""
        return self._worker

    @property
    def embedder_id(self) -> str | None:
        """Id of the embedder as of the worker's last start."""
        return self._worker.embedder_id

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self._worker.dim

    @property
    def pid(self) -> int | None:
        """Of the worker, while the store is open."""
        return self._child.pid if self._child else None

    @property
    def state(self) -> State:
        """`off`: it stays so until something is done about it. `away`: it comes back by itself."""
        return self._standing[0]

    @property
    def reason(self) -> str | None:
        """Why it is not ready: a sentence for people. None when it is."""
        return self._standing[1]

    @property
    def _standing(self) -> tuple[State, str | None]:
        if self._running is None or self._state in ("ready", "away"):
            if self._child and self._child.failure:
                return "away", sentence(self._child.failure)
            trouble = self._worker.trouble if self._child else None
            return ("away", trouble) if trouble else (self._state, self._reason or None)
        if self._worker.state in ("off", "away"):
            return self._worker.state, self._worker.reason
        return "starting", self._worker.opening or self._worker.reason or self._reason

    # queries

    async def query(self, text: str, n: int) -> tuple[Int64, Float32]:
        """The `n` chunks nearest to a text: ids int64[m] and cosines float32[m], best first. Ids may be outdated."""
        return await self._ask("query", text=text, n=n)

    async def query_vector(self, vector: Array, n: int) -> tuple[Int64, Float32]:
        """The `n` chunks nearest to a vector[dim], as `query`."""
        self._ready()
        return await self._ask("query_vector", (self._fitting(vector, ()),), n=n)

    async def _ask(self, operation: str, arrays: Sequence[Array] = (), **head: Any) -> tuple[Int64, Float32]:
        self._upkeep.used()
        message = await self._worker.ask(self._ready(), operation, arrays, store=self._store, **head)
        ids, cosines = message.arrays
        return cast(Int64, ids), cast(Float32, cosines)

    async def embed_query(self, text: str) -> Float32:
        """float32[dim] of a text to search for, for a comparison outside of the store."""
        return await self._worker.embed_query(text)

    # work

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Float16:
        """float16[len(texts), dim], as `VectorWorker.embed`."""
        return await self._worker.embed(texts, urgent=urgent, child=self._ready())

    async def upsert(self, ids: Int64, vectors: Array, *, urgent: bool = False) -> None:
        """Store vectors[n, dim] under chunk ids[n]. Ids that are stored already take many times as long as new ones."""
        if ids.size:
            self._ready()
            arrays = (ids, self._fitting(vectors, ids.shape))
            self.count = int((await self._do("upsert", arrays, urgent=urgent)).head["count"])

    async def delete(self, ids: Int64, *, urgent: bool = False) -> None:
        """Remove chunk ids; unknown ones are passed over."""
        if ids.size:
            self.count = int((await self._do("delete", (ids,), urgent=urgent)).head["count"])

    async def ids(self) -> Int64:
        """Every id in the store, ascending. Complete only if nothing is changed meanwhile."""
        pages: list[Int64] = [np.empty(0, np.int64)]
        offset = 0
        while True:
            page = cast(Int64, (await self._do("ids", offset=offset, limit=_PAGE)).arrays[0])
            pages.append(page)
            offset += _PAGE
            if page.size < _PAGE:
                return np.unique(np.concatenate(pages))

    async def drop(self, embedder_id: str) -> None:
        """Delete the store of another embedder, which must not be in use. What can't be deleted is left and logged."""
        await self._do("drop", embedder=embedder_id, root=str(self._root))

    async def _do(self, operation: str, arrays: Sequence[Array] = (), **head: Any) -> Message:
        self._upkeep.used()
        return await self._worker.work(self._ready(), operation, arrays, store=self._store, **head)

    def _ready(self) -> Child:
        if self._child is None:
            raise VectorsAway(self.reason or _STARTING)
        return self._child

    def _fitting(self, vectors: Array, shape: tuple[int, ...]) -> Array:
        """The vectors. A mistake of the caller must not look like one of the store, so it raises ValueError."""
        if vectors.shape != (*shape, self.dim) or not np.isfinite(vectors).all():
            raise ValueError(f"vectors of shape {vectors.shape} are not finite ones of shape {(*shape, self.dim)}")
        return vectors

    # life

    def release(self) -> None:
        """Open it, which was held."""
        self._released.set()

    def retry(self) -> None:
        """Try again now, if it waits for its next attempt or for the worker's: the reason may be gone."""
        self._delay.shorten()
        self._worker.retry()

    async def __aenter__(self) -> Self:
        self._tell("starting", _STARTING)
        self._running = asyncio.create_task(self._run(), name="vectors")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait((self._running,))
        self._running = None
        self._tell("off", "The vector index was ended.")

    async def _run(self) -> None:
        told = ""
        await self._released.wait()
        self._worker.release()
        while True:
            self._delay.begin()
            self._tell("starting", _STARTING)
            child = await self._worker.loaded()
            try:
                failure, healthy_s = await self._live(child)
            except Exception:  # last line of defence: without this task nothing opens the store again
                logger.exception("the vector store%s can't be looked after", self._whose)
                failure, healthy_s = Failure("away", "could not be looked after"), 0.0
            if healthy_s >= HEALTHY_S:
                self._delay.reset()
                self._ends_in_store = 0
            if healthy_s:
                told = ""
            if failure is None:
                continue
            self._suspect(failure)
            if child.failure is None:
                self._tell("away", f"The vector worker {failure.reason}; it is tried again.")
                level = logging.DEBUG if failure.reason == told else logging.WARNING
                logger.log(
                    level,
                    "the vector worker %s%s; it is tried again in %.1f s",
                    failure.reason,
                    self._whose,
                    self._delay.seconds,
                )
                told = failure.reason
                await self._delay.over()

    async def _live(self, child: Child) -> tuple[Failure | None, float]:
        """From its opening until it can't be used any more: why, and for how many seconds it was open.

        None: it was written anew, and what was written is to be opened.
        """
        loop = asyncio.get_running_loop()
        began, ready = loop.time(), 0.0
        close_s = self._worker.patience.close_s
        try:
            await self._open(child)
            self._child, ready = child, loop.time()
            self._tell("ready", "")
            logger.info(
                "the vector index%s is ready after %.1f s: %s, %d vectors",
                self._whose,
                ready - began,
                self.embedder_id,
                self.count,
            )
            self._on_ready()
            failure = await self._upkeep.over(child, self._store)
            if failure is None:
                close_s = self._worker.patience.start_s  # or all that was written is lost
                self._tell("starting", _STARTING)
            else:
                self._tell("away", sentence(failure))
            return failure, loop.time() - ready
        except Declined as declined:
            return declined.failure, 0.0
        except Ended as ended:
            return ended.failure, 0.0
        finally:
            self._child = None
            await self._close(child, close_s)

    async def _open(self, child: Child) -> None:
        opened = await child.call(
            "open",
            store=self._store,
            root=str(self._root),
            set_aside=self._set_aside,
            server=asdict(self._server) if self._server else None,
            collection=self._collection,
        )
        self.count = int(opened.head["count"])
        if opened.head["set_aside"]:
            self._set_aside, self._ends_in_store = None, 0
            logger.warning(
                "the vector store%s %s; it was set aside, and an empty one begun",
                self._whose,
                opened.head["set_aside"],
            )
        elif opened.head["missed"]:
            logger.warning("the vector store%s was gone; an empty one was begun", self._whose)
        if self.count:
            most = _SAMPLE_CLEAN if opened.head["clean"] else _SAMPLE_UNCLEAN
            sample = await sampled(child, self._store, most, self._known)
            if sample.is_foreign:
                self._give_up(child, FOREIGN)
            if not sample.finds_itself:
                self._give_up(child, sample.in_words)

    async def _known(self, ids: Int64) -> tuple[Int64, Array]:
        known, vectors = await self._known_vectors(self.embedder_id or "", ids)
        return known, self._fitting(vectors, known.shape) if known.size else vectors

    def _give_up(self, child: Child, reason: str) -> NoReturn:
        failure = Failure("damaged", reason, frozenset((self._store,)))
        child.end(failure)
        raise Ended(failure)

    def _suspect(self, failure: Failure) -> None:
        """Decide whether the store is to be set aside when it is opened next."""
        if failure.stores != frozenset((self._store,)):
            return  # another one's fault; or the worker finds out whose it is at the next time
        if failure.kind == "damaged":
            self._set_aside = self._set_aside or failure.reason
        elif failure.kind == "failed" and not self._server:
            self._ends_in_store += 1
            if self._ends_in_store >= _MOST_ENDS:
                self._set_aside = self._set_aside or f"was open when the vector worker ended {_MOST_ENDS} times"

    async def _close(self, child: Child, within_s: float) -> None:
        """Close the store in a process that goes on."""
        if child.failure:
            return
        with suppress(Ended):
            try:
                async with asyncio.timeout(within_s):
                    await child.close_store(self._store)
            except TimeoutError:
                child.end(Failure("failed", "did not close a store in time"))

    def _tell(self, state: State, reason: str) -> None:
        self._state, self._reason = state, reason
