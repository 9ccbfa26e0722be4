"""The vector worker: a process of its own that has the embedder and the vector stores, and nothing else.

A damaged store can end its process, a store may be open in one process only,
and cutting texts into tokens keeps other threads from running; so none of it
happens in the daemon. One process serves every collection, because the
embedder is what takes its memory. The worker never sees the files or a
manifest. It reads messages from its standard input, answers on its standard
output, and ends with the daemon, because then its input ends.

Lines of work run beside each other, so that a query waits for no save and a
save for no backfill, whosever they are. Only changes of stores take turns.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast, get_args

import numpy as np

from sidecar.errors import SidecarError
from sidecar.index import process, wire
from sidecar.index.embed.base import EmbedderAway
from sidecar.index.lines import LineOfWork, Steps
from sidecar.index.native_memory import give_back
from sidecar.index.stores import Refused, Stores
from sidecar.index.wire import Array, Float16, Float32, Message

if TYPE_CHECKING:
    from sidecar.index.embed.base import Embedder

logger = logging.getLogger("sidecar.index.worker")  # its name when it is run as a program is __main__

_TEXTS: Final = 32  # embedded between two signs, 0.8 s; at the end of each, lanes of the embedder wait for the last
_LEAVING_S: Final = 2.0  # how long the last pieces of jobs may take at the end
_SWITCH_INTERVAL_S: Final = 0.001


class Worker:
    """Reads messages until they end; see `wire.LINES` for the operations."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._embedder: Embedder | None = None
        self._stores = Stores(self.send)
        self._sound = True
        self._lines = {
            line: LineOfWork(line, self._stores.in_hand, self._answer, lambda line=line: self.send({"sign": line}))
            for line in get_args(wire.Line)
        }
        stores = self._stores
        self._operations: dict[str, Callable[[Message], Steps]] = {
            "load": self._load,
            "open": lambda message: stores.open(message, self._model.id),
            "close": stores.shut,
            "sample": stores.sample,
            "probe": stores.probe,
            "query": self._query,
            "query_vector": self._query_vector,
            "embed_query": self._embed_query,
            "embed": self._embed,
            "upsert": stores.upsert,
            "delete": stores.delete,
            "ids": stores.ids,
            "drop": stores.drop,
            "renew": stores.renew,
        }

    def run(self) -> None:
        """Work until the stream of messages ends. Blocks."""
        while (message := wire.read(self._requests)) is not None:
            operation, number = str(message.head["op"]), int(message.head["id"])
            store = int(message.head["store"]) if operation in wire.STORE_OPERATIONS else None
            line = wire.line_of(operation, urgent=bool(message.head.get("urgent")))
            self._lines[line].put(number, store, self._operations[operation](message))

    def send(self, head: dict[str, Any], arrays: Sequence[Array] = ()) -> None:
        """A message to the daemon, from any thread; nothing happens when it is gone."""
        frame = wire.encode(head, arrays)
        with self._sending, suppress(OSError, ValueError):
            self._answers.write(frame)
            self._answers.flush()

    def close(self) -> None:
        """Close the stores in order, if that is still possible within some seconds."""
        give_up = time.monotonic() + _LEAVING_S
        ended = [line.stop(max(0.0, give_up - time.monotonic())) for line in self._lines.values()]
        self._stores.close(sound=all(ended) and self._sound)

    def _answer(self, number: int, store: int | None, result: Message | BaseException) -> None:
        if isinstance(result, Message):
            self.send({"id": number, **result.head}, result.arrays)
            return
        goes_on = isinstance(result, Refused) and result.goes_on
        self._sound = self._sound and isinstance(result, Refused) and result.kind != "failed"
        if isinstance(result, Refused):
            kind, reason = result.kind, str(result)
        elif isinstance(result, EmbedderAway):
            kind, reason = "away", str(result)
        else:
            logger.debug("an operation failed", exc_info=result)
            kind, reason = self._stores.why_failed(store, result)
        self.send({"id": number, "refused": kind, "reason": reason, "goes_on": goes_on})

    def _load(self, message: Message) -> Steps:
        """Load the embedder: `factory`, a module and a function, is called with `name`, `models`, a reporter and
        `options`."""
        yield from ()
        if message.head.get("take_turns"):
            self._stores.take_turns()
        module, _, function = str(message.head["factory"]).partition(":")
        try:
            make: Callable[[str, Path, Callable[[str], None], wire.EmbedderOptions], Embedder] = getattr(
                importlib.import_module(module), function
            )
            self._embedder = make(
                message.head["name"],
                Path(message.head["models"]),
                lambda text: self.send({"report": text}),
                wire.EmbedderOptions(**cast("dict[str, Any]", message.head.get("options") or {})),
            )
        except SidecarError as missing:
            raise Refused("off", str(missing)) from missing
        give_back()
        return Message({"embedder": self._embedder.id, "dim": self._embedder.dim})

    def _query(self, message: Message) -> Steps:
        yield from ()
        return self._stores.nearest(message, self._model.query(str(message.head["text"])))

    def _query_vector(self, message: Message) -> Steps:
        yield from ()
        return self._stores.nearest(message, message.arrays[0].astype(np.float32))

    def _embed_query(self, message: Message) -> Steps:
        yield from ()
        return Message({}, (self._model.query(str(message.head["text"])).astype(np.float32),))

    def _embed(self, message: Message) -> Steps:
        texts: list[str] = message.head["texts"]
        found: Float16 = np.empty((len(texts), self._model.dim), np.float16)
        # texts of about one length together: whoever embeds several at once is then done with all of them at once
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        for part in _parts(len(texts), _TEXTS):
            places = order[part]
            found[places] = self._passages([texts[place] for place in places], bool(message.head.get("urgent")))
            yield
        return Message({}, (found,))

    def _passages(self, texts: list[str], urgent: bool) -> Float32:
        try:
            found = self._model.passages(texts, urgent=urgent)
        except EmbedderAway:
            raise
        except Exception:
            logger.warning("the embedder failed on some text; each is tried alone")
            logger.debug("the embedder failed", exc_info=True)
            found = np.stack([self._passage(text) for text in texts])
        found[~np.isfinite(found).all(axis=1)] = 0.0
        return found

    def _passage(self, text: str) -> Float32:
        """float32[dim]; zeros for a text that the embedder can't take while it can take others."""
        try:
            return self._model.passages([text])[0]
        except EmbedderAway:
            raise
        except Exception:
            self._model.passages(["text"])
            return np.zeros(self._model.dim, np.float32)

    @property
    def _model(self) -> Embedder:
        assert self._embedder is not None
        return self._embedder


def _parts(size: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, size, most)]


class _ToDaemon(logging.Handler):
    """Our own log lines go to the daemon's log."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(logging.INFO)
        self._worker = worker

    def emit(self, record: logging.LogRecord) -> None:
        self._worker.send({"log": record.levelno, "name": record.name, "text": record.getMessage()})


def _leave(*_: object) -> None:
    raise SystemExit


def main() -> None:
    """Run the worker on this process's standard streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the daemon's business
    signal.signal(signal.SIGTERM, _leave)  # a service that is stopped may signal all its processes
    os.umask(0o077)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)  # a query beside a busy thread waits that long for its turns
    worker = Worker(*process.pipes())
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("sidecar").setLevel(logging.DEBUG)
    logging.getLogger("sidecar").addHandler(_ToDaemon(worker))
    try:
        with suppress(SystemExit, wire.Garbled):
            worker.run()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        worker.close()
    finally:
        # not by the usual way: threads of native code may be in the middle of something, and none of it is needed
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
