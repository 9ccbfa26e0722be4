"""The vector index as the daemon sees it: a worker process that is started, asked, watched and started again.

The daemon itself imports neither the vector database nor the embedder. When
the worker can't answer, that is said at once, so that keywords answer alone;
it comes back by itself. A store that does not find its own vectors any more,
or that ends its process, is set aside, and its owner fills the new one from
the vectors it has cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, cast

import numpy as np

from sidecar.errors import VectorsAway
from sidecar.index.child import Child, Ended, Failure
from sidecar.index.wire import Array, EmbedderOptions, Float16, Float32, Int64, Message, Server

logger = logging.getLogger(__name__)

State = Literal["off", "starting", "ready", "away"]

KnownVectors = Callable[[str, Int64], Awaitable[tuple[Int64, Array]]]
"""(embedder id, chunk ids) to those of the chunks whose vector is cached, and the vectors[n, dim]."""

FACTORY: Final = "sidecar.index.embed.choose:choose"
"""Module and function that the worker gets its embedder from."""

_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 30.0
_HEALTHY_S: Final = 60.0
"""A worker that was ready for so long ended for a reason of its own, not for that of the one before."""

_SLOW: Final = "The vector index is slow to answer."
_MOST_QUERIES: Final = 64
_MOST_ENDS: Final = 2
"""Ends of the process with the store in hand, one soon after the other, that are put down to the store."""

_SELF_SHARE: Final = 0.9  # of known vectors that must find themselves; the graph misses a few of a hundred
_SAMPLE_CLEAN: Final = 20
_SAMPLE_UNCLEAN: Final = 200
_TELLING: Final = 10  # ids of a sample; when fewer are all unknown, that may be by chance
_PAGE: Final = 5_000


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds."""

    answer_s: float = 2.0
    """By whoever asks a query. Longer means that vectors are away, not yet that the process hangs: the database was
    seen to stall for seconds."""
    silent_s: float = 30.0
    """Without a sign of a process that has work; then it is killed. Long work gives signs."""
    start_s: float = 120.0
    """The same while it starts: loading from a slow disk, catching up with a long log."""
    close_s: float = 3.0


class Vectors:
    """Vectors of one corpus by one embedder. Use it with `async with`; entering does not wait for the worker.

    Every call raises VectorsAway at once while the worker is not ready, and
    when it ends meanwhile. What the store then holds of a change is not known:
    compare the ids when `on_ready` is called again.
    """

    def __init__(
        self,
        root: Path,
        embedder: str,
        models_dir: Path,
        *,
        known_vectors: KnownVectors,
        on_ready: Callable[[], None],
        environment: Mapping[str, str],
        options: EmbedderOptions | None = None,
        expected_id: str | None = None,
        server: Server | None = None,
        collection: str = "vault",
        factory: str = FACTORY,
        patience: Patience | None = None,
        held: bool = False,
    ) -> None:
        """Nothing is started or opened yet.

        Args:
            root: folder for the stores, one below it for each embedder; its parent exists.
            embedder: name that the factory knows.
            models_dir: where the embedders' files are.
            known_vectors: asked after each start for the vectors of a few ids that the store holds.
            on_ready: called after each successful start, on the loop. It must only wake somebody.
            environment: the environment of this process; what is needed of it is passed on, secrets are not.
            options: for embedders that must be told more than their name.
            expected_id: the one embedder id that is wanted; with another one it is off.
            held: start the worker only when `release` is called.
            server: keep the vectors there instead, in collections whose names begin with `collection`.
        """
        self._root = root
        self._embedder = embedder
        self._models_dir = models_dir
        self._known_vectors = known_vectors
        self._on_ready = on_ready
        self._environment = environment
        self._options = options or EmbedderOptions()
        self._expected_id = expected_id
        self._server = server
        self._collection = collection
        self._factory = factory
        self._patience = patience or Patience()
        self._child: Child | None = None
        """Set while it is ready."""
        self._state: State = "off"
        self._reason = "The vector index is not started."
        self._set_aside: str | None = None
        self._ends_in_store = 0
        self._again = asyncio.Event()
        self._released = asyncio.Event()
        if not held:
            self._released.set()
        self._running: asyncio.Task[None] | None = None
        self.embedder_id: str | None = None
        """Id of the embedder as of the last start, such as `e5@1571fc982750.1/384`."""
        self.dim = 0
        self.count = 0
        """Ids in the store as of the last change."""

    # what it is doing

    @property
    def state(self) -> State:
        """`off`: it stays so until something is done about it. `away`: it comes back by itself."""
        return "away" if self._trouble else self._state

    @property
    def reason(self) -> str | None:
        """Why it is not ready: a sentence for people. None when it is."""
        return self._trouble or self._reason or None

    @property
    def pid(self) -> int | None:
        """Of the worker, while it is ready."""
        return self._child.pid if self._child else None

    @property
    def _trouble(self) -> str | None:
        """What keeps a worker that was ready from answering now."""
        if self._child and self._child.failure:
            return _sentence(self._child.failure)
        if self._child and self._child.is_late("query", self._patience.answer_s):
            return _SLOW
        return None

    # queries

    async def query(self, text: str, n: int) -> tuple[Int64, Float32]:
        """The `n` chunks nearest to a text: ids int64[m] and cosines float32[m], best first. Ids may be outdated."""
        ids, cosines = (await self._ask("query", text=text, n=n)).arrays
        return cast(Int64, ids), cast(Float32, cosines)

    async def query_vector(self, vector: Array, n: int) -> tuple[Int64, Float32]:
        """The `n` chunks nearest to a vector[dim], as `query`."""
        self._ready()
        ids, cosines = (await self._ask("query_vector", (self._fitting(vector, ()),), n=n)).arrays
        return cast(Int64, ids), cast(Float32, cosines)

    async def embed_query(self, text: str) -> Float32:
        """float32[dim] of a text to search for, for a comparison outside of the store."""
        return cast(Float32, (await self._ask("embed_query", text=text)).arrays[0])

    async def _ask(self, operation: str, arrays: Sequence[Array] = (), **head: Any) -> Message:
        """A call of the line of queries."""
        child = self._ready()
        # a query that is late already is enough to find out when answers come again
        if self._trouble or child.waiting("query") >= _MOST_QUERIES:
            raise VectorsAway(self._trouble or _SLOW)
        try:
            async with asyncio.timeout(self._patience.answer_s):
                return await child.begin(operation, arrays, head=head)
        except TimeoutError:
            raise VectorsAway(_SLOW) from None
        except Ended as ended:
            raise VectorsAway(_sentence(ended.failure)) from ended

    # work

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Float16:
        """float16[len(texts), dim], each of length 1.

        A row of zeros is the vector of a text without meaning, or of one that
        the embedder can't take. It may be stored; it is near to nothing.
        Urgent texts go ahead of those that are being embedded already.
        """
        if not texts:
            return np.empty((0, self.dim), np.float16)
        message = await self._do("embed", texts=list(texts), urgent=urgent)
        return cast(Float16, message.arrays[0])

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
        """A call of the line of work, however long it takes as long as it gets on."""
        try:
            return await self._ready().call(operation, arrays, **head)
        except Ended as ended:
            raise VectorsAway(_sentence(ended.failure)) from ended

    def _ready(self) -> Child:
        if self._child is None:
            raise VectorsAway(self._reason)
        return self._child

    def _fitting(self, vectors: Array, shape: tuple[int, ...]) -> Array:
        """The vectors. A mistake of the caller must not look like one of the store, so it raises ValueError."""
        if vectors.shape != (*shape, self.dim) or not np.isfinite(vectors).all():
            raise ValueError(f"vectors of shape {vectors.shape} are not finite ones of shape {(*shape, self.dim)}")
        return vectors

    # life

    def release(self) -> None:
        """Start the worker, which was held."""
        self._released.set()

    def retry(self) -> None:
        """Start the worker now if it is off or waits for its next start: the reason may be gone."""
        self._again.set()

    def start_over(self, reason: str) -> None:
        """Set the store aside and begin an empty one, because what it holds does not belong to the corpus.

        `reason` is the end of a sentence that begins with "the vector store".
        `on_ready` is called when the new one is there.
        """
        self._set_aside = reason
        if self._child:
            self._child.end(Failure("damaged", reason))
        self.retry()

    async def __aenter__(self) -> Self:
        self._tell("starting", "The vector index is starting.")
        self._running = asyncio.create_task(self._run(), name="vectors")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait((self._running,))
        self._tell("off", "The vector index was ended.")

    async def _run(self) -> None:
        delay_s = _FIRST_DELAY_S
        was_damaged = False
        told = ""
        await self._released.wait()
        while True:
            self._again.clear()
            self._tell("starting", "The vector index is starting.")
            try:
                failure, healthy_s = await self._live()
            except Exception:  # last line of defence: without this task nothing starts the worker again
                logger.exception("the vector worker can't be looked after")
                failure, healthy_s = Failure("failed", "could not be looked after"), 0.0
            if healthy_s >= _HEALTHY_S:
                delay_s = _FIRST_DELAY_S
                self._ends_in_store = 0
            if healthy_s:
                told = ""
            self._suspect(failure)
            if failure.kind == "off":
                self._tell("off", failure.reason)
                level = logging.WARNING if self._expected_id is None else logging.INFO
                logger.log(level, "there is no vector index: %s", failure.reason)
                await self._again.wait()
                continue
            self._tell("away", _sentence(failure))
            was_damaged, again = failure.kind == "damaged", was_damaged
            if was_damaged and not again:
                continue  # nothing to wait for, and the line about what is done then tells the reason
            if not was_damaged:
                level = logging.DEBUG if failure.kind == "away" and failure.reason == told else logging.WARNING
                logger.log(level, "the vector worker %s; it is started again in %.1f s", failure.reason, delay_s)
                told = failure.reason
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._again.wait()
            delay_s = min(delay_s * 2, _LONGEST_DELAY_S)

    def _suspect(self, failure: Failure) -> None:
        """Decide whether the store is to be set aside at the next start."""
        if failure.kind == "damaged":
            self._set_aside = self._set_aside or failure.reason
        elif failure.kind == "failed" and failure.store_in_hand and not self._server:
            self._ends_in_store += 1
            if self._ends_in_store >= _MOST_ENDS:
                self._set_aside = self._set_aside or f"was open when the vector worker ended {_MOST_ENDS} times"

    async def _live(self) -> tuple[Failure, float]:
        """One worker from start to end: why it ended, and for how many seconds it was ready."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            child = await Child.start(
                self._root, self._environment, silent_s=self._patience.start_s, on_report=self._report
            )
        except OSError as failed:
            return Failure("away", f"can't be started ({failed.strerror})"), 0.0
        try:
            await self._open(child)
            if self._set_aside:  # wished for while it was opening
                _give_up(child, self._set_aside)
            child.expect_signs(self._patience.silent_s)
            self._child, ready = child, loop.time()
            self._tell("ready", "")
            logger.info(
                "the vector index is ready after %.1f s: %s, %d vectors", ready - began, self.embedder_id, self.count
            )
            self._on_ready()
            failure = await child.ended()
            self._tell("away", _sentence(failure))
            return failure, loop.time() - ready
        except Ended as ended:
            return ended.failure, 0.0
        finally:
            self._child = None
            if self._state == "ready":
                self._tell("away", "The vector index is ending.")
            await child.close(self._patience.close_s)

    async def _open(self, child: Child) -> None:
        loaded = await child.call(
            "load",
            factory=self._factory,
            name=self._embedder,
            models=str(self._models_dir),
            options=asdict(self._options),
        )
        embedder_id, dim = str(loaded.head["embedder"]), int(loaded.head["dim"])
        if self._expected_id not in (None, embedder_id):
            other = Failure("off", f"The embedder {self._expected_id} is not here any more.")
            child.end(other)
            raise Ended(other)
        opened = await child.call(
            "open",
            root=str(self._root),
            set_aside=self._set_aside,
            server=asdict(self._server) if self._server else None,
            collection=self._collection,
        )
        self.embedder_id, self.dim, self.count = embedder_id, dim, int(opened.head["count"])
        if opened.head["set_aside"]:
            self._set_aside, self._ends_in_store = None, 0
            logger.warning("the vector store %s; it was set aside, and an empty one begun", opened.head["set_aside"])
        elif opened.head["missed"]:
            logger.warning("the vector store was gone; an empty one was begun")
        if self.count:
            await self._probe(child, embedder_id, _SAMPLE_CLEAN if opened.head["clean"] else _SAMPLE_UNCLEAN)

    async def _probe(self, child: Child, embedder_id: str, most: int) -> None:
        """Let known vectors find themselves.

        Raises:
            Ended: they don't, and the process was ended.
        """
        sampled = cast(Int64, (await child.call("sample", most=most)).arrays[0])
        ids, vectors = await self._known_vectors(embedder_id, sampled)
        if not ids.size:
            if sampled.size >= _TELLING:
                _give_up(child, "holds nothing that belongs to this index")
            return
        telling = self._fitting(vectors, ids.shape).any(axis=1)
        ids, vectors = ids[telling], vectors[telling]
        if not ids.size:
            return
        hits = int((await child.call("probe", (ids, vectors))).head["hits"])
        if hits < _SELF_SHARE * ids.size:
            _give_up(child, f"found {hits} of {ids.size} known vectors")

    def _report(self, text: str) -> None:
        self._tell("starting", text)
        logger.info("%s", text)

    def _tell(self, state: State, reason: str) -> None:
        self._state, self._reason = state, reason


def _give_up(child: Child, reason: str) -> None:
    failure = Failure("damaged", reason)
    child.end(failure)
    raise Ended(failure)


def _sentence(failure: Failure) -> str:
    if failure.kind == "damaged":
        return f"The vector store {failure.reason}; it is made again."
    return f"The vector worker {failure.reason}; it is started again."
