"""The vector worker as the daemon sees it: one process with one embedder, started, asked, watched and started again.

It serves every collection of vectors (`vectors.Vectors`): each is opened in it
when it has started, and again after each start. The daemon itself imports
neither the vector database nor the embedder. When the process can't answer,
that is said at once, so that keywords answer alone; it comes back by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal, Self, cast

import numpy as np

from sidecar.errors import VectorsAway
from sidecar.index.careful import Careful
from sidecar.index.child import Child, Ended, Failure
from sidecar.index.patience import HEALTHY_S, Delay, Patience
from sidecar.index.wire import Array, EmbedderOptions, Float16, Float32, Message

logger = logging.getLogger(__name__)

State = Literal["off", "starting", "ready", "away"]

FACTORY: Final = "sidecar.index.embed.choose:choose"
"""Module and function that the worker gets its embedder from."""

SEVERAL: Final = 2
"""Stores in hand when the process ended from which on they take turns, so that its next end tells whose fault it is."""

_SLOW: Final = "The vector index is slow to answer."
_MOST_QUERIES: Final = 64


class VectorWorker:
    """Use it with `async with`; entering does not wait for the process, which starts when it is first `release`d.

    Every call raises VectorsAway at once while the worker is not ready, and
    when it ends meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        embedder: str,
        models_dir: Path,
        *,
        environment: Mapping[str, str],
        options: EmbedderOptions | None = None,
        expected_id: str | None = None,
        factory: str = FACTORY,
        patience: Patience | None = None,
    ) -> None:
        """Nothing is started yet.

        Args:
            folder: where the process is at home and what its libraries print is kept; its parent exists.
            embedder: name that the factory knows.
            models_dir: where the embedders' files are.
            environment: the environment of this process; what is needed of it is passed on, secrets are not.
            options: for embedders that must be told more than their name.
            expected_id: the one embedder id that is wanted; with another one it is off.
        """
        self._folder = folder
        self._embedder = embedder
        self._models_dir = models_dir
        self._environment = environment
        self._options = options or EmbedderOptions()
        self._expected_id = expected_id
        self._factory = factory
        self.patience = patience or Patience()
        self._child: Child | None = None
        """Set while its embedder is loaded."""
        self._up = asyncio.Event()
        self._state: State = "off"
        self._reason = "The vector index is not started."
        self._take_turns = False
        self._last_store = 0
        self._delay = Delay()
        self._released = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.careful = Careful()
        """Embeds texts that may end the process, for every collection."""
        self.opening = ""
        """What the process says of a store that it is opening."""
        self.embedder_id: str | None = None
        """Id of the embedder as of the last start, such as `e5@1571fc982750.1/384`."""
        self.dim = 0

    # what it is doing

    @property
    def state(self) -> State:
        """`off`: it stays so until something is done about it. `away`: it comes back by itself."""
        return "away" if self.trouble else self._state

    @property
    def reason(self) -> str | None:
        """Why it is not ready: a sentence for people. None when it is."""
        return self.trouble or self._reason or None

    @property
    def pid(self) -> int | None:
        """Of the process, while it is ready."""
        return self._child.pid if self._child else None

    @property
    def trouble(self) -> str | None:
        """What keeps a worker that was ready from answering now."""
        if self._child and self._child.failure:
            return sentence(self._child.failure)
        if self._child and self._child.is_late("query", self.patience.answer_s):
            return _SLOW
        return None

    # the embedder

    async def embed(self, texts: Sequence[str], *, urgent: bool = False, child: Child | None = None) -> Float16:
        """float16[len(texts), dim], each of length 1.

        A row of zeros is the vector of a text without meaning, or of one that
        the embedder can't take. It may be stored; it is near to nothing.
        Urgent texts go ahead of those that are being embedded already. Texts
        nobody knows may end the process: `careful` finds out which one does.
        `child`: only by this process.
        """
        if not texts:
            return np.empty((0, self.dim), np.float16)
        message = await self.work(child or self._loaded(), "embed", texts=list(texts), urgent=urgent)
        return cast(Float16, message.arrays[0])

    async def embed_query(self, text: str) -> Float32:
        """float32[dim] of a text to search for."""
        return cast(Float32, (await self.ask(self._loaded(), "embed_query", text=text)).arrays[0])

    # for the collections

    def new_store(self) -> int:
        """A number for a store, unlike all others."""
        self._last_store += 1
        return self._last_store

    async def loaded(self) -> Child:
        """The process once its embedder is loaded."""
        while self._child is None or self._child.failure:
            self._up.clear()
            await self._up.wait()
        return self._child

    async def ask(self, child: Child, operation: str, arrays: Sequence[Array] = (), **head: Any) -> Message:
        """A call of the line of queries, which nobody waits long for."""
        # a query that is late already is enough to find out when answers come again
        if self.trouble or child.waiting("query") >= _MOST_QUERIES:
            raise VectorsAway(self.trouble or _SLOW)
        try:
            async with asyncio.timeout(self.patience.answer_s):
                return await child.begin(operation, arrays, head=head)
        except TimeoutError:
            raise VectorsAway(_SLOW) from None
        except Ended as ended:
            raise VectorsAway(sentence(ended.failure)) from ended

    async def work(self, child: Child, operation: str, arrays: Sequence[Array] = (), **head: Any) -> Message:
        """A call of another line, however long it takes as long as it gets on."""
        try:
            return await child.call(operation, arrays, **head)
        except Ended as ended:
            raise VectorsAway(sentence(ended.failure)) from ended

    def _loaded(self) -> Child:
        if self._child is None:
            raise VectorsAway(self._reason)
        return self._child

    # life

    def release(self) -> None:
        """Somebody needs it: start it."""
        self._released.set()

    def retry(self) -> None:
        """Start it now if it is off or waits for its next start: the reason may be gone."""
        self._delay.shorten()

    async def __aenter__(self) -> Self:
        self._tell("starting", "The vector index is starting.")
        self._running = asyncio.create_task(self._run(), name="vector worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait((self._running,))
        self._tell("off", "The vector index was ended.")

    async def _run(self) -> None:
        was_damaged = False
        told = ""
        await self._released.wait()
        while True:
            self._delay.begin()
            self._tell("starting", "The vector index is starting.")
            try:
                failure, healthy_s = await self._live()
            except Exception:  # last line of defence: without this task nothing starts the worker again
                logger.exception("the vector worker can't be looked after")
                failure, healthy_s = Failure("failed", "could not be looked after"), 0.0
            if healthy_s >= HEALTHY_S:
                self._delay.reset()
            if healthy_s:
                told = ""
            self._take_turns = failure.kind == "failed" and (self._take_turns or len(failure.stores) >= SEVERAL)
            if failure.kind == "off":
                self._tell("off", failure.reason)
                level = logging.WARNING if self._expected_id is None else logging.INFO
                logger.log(level, "there is no vector index: %s", failure.reason)
                await self._delay.cut_short()
                continue
            self._tell("away", sentence(failure))
            was_damaged, again = failure.kind == "damaged", was_damaged
            if was_damaged and not again:
                continue  # nothing to wait for, and the line about what is done then tells the reason
            if not was_damaged:
                level = logging.DEBUG if failure.kind == "away" and failure.reason == told else logging.WARNING
                logger.log(
                    level, "the vector worker %s; it is started again in %.1f s", failure.reason, self._delay.seconds
                )
                told = failure.reason
            await self._delay.over()

    async def _live(self) -> tuple[Failure, float]:
        """One process from start to end: why it ended, and for how many seconds it was ready."""
        loop = asyncio.get_running_loop()
        try:
            child = await Child.start(
                self._folder,
                self._environment,
                silent_s=self.patience.silent_s,
                slow_s=self.patience.start_s,
                on_report=self._report,
            )
        except OSError as failed:
            return Failure("away", f"can't be started ({failed.strerror})"), 0.0
        try:
            await self._load(child)
            self._child, ready, self.opening = child, loop.time(), ""
            self._tell("ready", "")
            self._up.set()
            failure = await child.ended()
            return failure, loop.time() - ready
        except Ended as ended:
            return ended.failure, 0.0
        finally:
            self._child = None
            if self._state == "ready":
                self._tell("away", "The vector index is ending.")
            await child.close(self.patience.close_s)

    async def _load(self, child: Child) -> None:
        loaded = await child.call(
            "load",
            factory=self._factory,
            name=self._embedder,
            models=str(self._models_dir),
            options=asdict(self._options),
            take_turns=self._take_turns,
        )
        embedder_id = str(loaded.head["embedder"])
        if self._expected_id not in (None, embedder_id):
            other = Failure("off", f"The embedder {self._expected_id} is not here any more.")
            child.end(other)
            raise Ended(other)
        self.embedder_id, self.dim = embedder_id, int(loaded.head["dim"])

    def _report(self, text: str) -> None:
        if self._state == "starting":
            self._reason = text
        else:
            self.opening = text
        logger.info("%s", text)

    def _tell(self, state: State, reason: str) -> None:
        self._state, self._reason = state, reason


def sentence(failure: Failure) -> str:
    """What happened to the process, and what happens next."""
    if failure.kind == "damaged":
        return f"The vector store {failure.reason}; it is made again."
    return f"The vector worker {failure.reason}; it is started again."
