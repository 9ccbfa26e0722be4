"""The vector worker: a process of its own that has the embedder and the vector store, and nothing else.

A damaged store can end its process, a store may be open in one process only,
and cutting texts into tokens keeps other threads from running; so none of it
happens in the daemon. The worker never sees the vault or the manifest. It
reads messages from its standard input, answers on its standard output, and
ends with the daemon, because then its input ends.

Lines of work run beside each other, so that a query waits for no save and a
save for no backfill. Only changes of the store take turns.
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
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, cast, get_args

import numpy as np

from sidecar.errors import SidecarError
from sidecar.index import wire
from sidecar.index.embed.base import EmbedderAway
from sidecar.index.lines import LineOfWork, Steps
from sidecar.index.native_memory import give_back
from sidecar.index.store_folder import StoreFailed, StoreFolder, Taken, name_for
from sidecar.index.wire import Array, Float16, Float32, Message

if TYPE_CHECKING:
    from sidecar.index.embed.base import Embedder
    from sidecar.index.store import Store

logger = logging.getLogger("sidecar.index.worker")  # its name when it is run as a program is __main__

# What is done of a long job between two signs. Queries and saves wait for at most one of the pieces that change the
# store, because Chroma keeps the interpreter meanwhile.
_TEXTS: Final = 32  # 0.8 s; at the end of each, lanes of the embedder wait for the last text
_UPSERTS: Final = 64  # 25 ms, of which 10 are the same for one as for many
_DELETES: Final = 128
_PROBES: Final = 10

_SERVER_AGAIN_S: Final = 5.0  # how often a Chroma server that does not answer is tried
_LOOK_S: Final = 0.25
_LEAVING_S: Final = 2.0  # how long the last pieces of jobs may take at the end
_SWITCH_INTERVAL_S: Final = 0.001


class Refused(Exception):
    """The answer is a refusal. What its kinds mean is in `child.Failure`."""

    def __init__(self, kind: Literal["off", "away", "damaged", "failed"], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Worker:
    """Reads messages until they end; see `wire.LINES` for the operations."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._embedder: Embedder | None = None
        self._store: Store | None = None
        self._folder: StoreFolder | None = None
        self._server: wire.Server | None = None
        self._collection = ""
        self._sound = True
        self._lines = {
            line: LineOfWork(line, self._answer, lambda line=line: self.send({"sign": line}))
            for line in get_args(wire.Line)
        }
        self._changing = threading.Lock()

    def run(self) -> None:
        """Work until the stream of messages ends. Blocks."""
        while (message := wire.read(self._requests)) is not None:
            operation = str(message.head["op"])
            steps: Steps = getattr(self, f"_{operation}")(message)
            line = wire.line_of(operation, urgent=bool(message.head.get("urgent")))
            self._lines[line].put(int(message.head["id"]), steps)

    def send(self, head: dict[str, Any], arrays: Sequence[Array] = ()) -> None:
        """A message to the daemon, from any thread; nothing happens when it is gone."""
        frame = wire.encode(head, arrays)
        with self._sending, suppress(OSError, ValueError):
            self._answers.write(frame)
            self._answers.flush()

    def close(self) -> None:
        """Close the store in order, if that is still possible within some seconds."""
        give_up = time.monotonic() + _LEAVING_S
        ended = [line.stop(max(0.0, give_up - time.monotonic())) for line in self._lines.values()]
        if self._store and all(ended) and self._sound:
            self._store.close()
            if self._folder:
                self._folder.mark_clean()
        if self._folder:
            self._folder.release()

    def _answer(self, number: int, result: Message | BaseException) -> None:
        if isinstance(result, Message):
            self.send({"id": number, **result.head}, result.arrays)
            return
        self._sound = self._sound and isinstance(result, Refused) and result.kind != "failed"
        if isinstance(result, Refused):
            kind, reason = result.kind, str(result)
        elif isinstance(result, EmbedderAway):
            kind, reason = "away", str(result)
        elif self._server and isinstance(result, StoreFailed):
            kind, reason = "away", f"can't use the Chroma server ({result})"
        else:
            # the words of a library may hold paths of this computer; the file of this process's stderr may, too
            logger.debug("an operation failed", exc_info=result)
            kind, reason = "failed", f"had an error ({type(result.__cause__ or result).__name__})"
            if self._folder and self._folder.disk_is_full:
                kind, reason = "away", "found the disk full"
        self.send({"id": number, "refused": kind, "reason": reason})

    # opening

    def _load(self, message: Message) -> Steps:
        """Load the embedder: `factory`, a module and a function, is called with `name`, `models`, a reporter and
        `options`."""
        yield from ()
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

    def _open(self, message: Message) -> Steps:
        """Open the store of the loaded embedder, in a folder of `root` or as `collection` on `server`."""
        name = name_for(self._model.id)
        if message.head["server"]:
            self._server = wire.Server(**message.head["server"])
            self._collection = str(message.head["collection"])
            return (yield from self._open_server(f"{self._collection}-{name}", message.head["set_aside"]))
        # imported here, since it takes a second in which the embedder's reports should come through
        from sidecar.index.store import Store

        folder = StoreFolder(Path(message.head["root"]), self._model.id)
        aside = str(message.head["set_aside"] or "") or None
        try:
            folder.hold()
            aside = aside or folder.strangeness()
            if aside:
                folder.set_aside()
            clean = folder.begin()
        except Taken as taken:
            raise Refused("away", "found its store open in another process") from taken
        except OSError as failed:
            raise Refused("away", f"can't use the state folder ({failed.strerror})") from failed
        self._folder = folder
        try:
            self._store = Store(folder.path, name)
            count = self._store.count()
        except StoreFailed as failed:
            if folder.disk_is_full:
                raise Refused("away", "found the disk full") from failed
            logger.debug("the store can't be opened", exc_info=failed)
            raise Refused("damaged", f"can't be opened ({failed})") from failed
        if not count and folder.has_segments:
            raise Refused("damaged", "has lost its rows")
        return Message({"count": count, "clean": clean, "set_aside": aside, "missed": folder.missed and not aside})

    def _open_server(self, name: str, aside: str | None) -> Steps:
        """Wait for the server here: starting again would mean loading the embedder again each time."""
        from sidecar.index.store import Store

        assert self._server is not None
        told = ""
        while True:
            try:
                self._store = Store(self._server, name, anew=aside is not None)
                count = self._store.count()
                return Message({"count": count, "clean": True, "set_aside": aside, "missed": False})
            except StoreFailed as failed:
                if str(failed) != told:
                    told = str(failed)
                    logger.debug("the server can't be used", exc_info=failed)
                    self.send({"report": f"The vector worker waits for the Chroma server ({failed})."})
            again = time.monotonic() + _SERVER_AGAIN_S
            while time.monotonic() < again:
                time.sleep(_LOOK_S)
                yield

    def _sample(self, message: Message) -> Steps:
        yield from ()
        return Message({}, (self._opened.sample(int(message.head["most"])),))

    def _probe(self, message: Message) -> Steps:
        """How many of these vectors find themselves."""
        ids, vectors = message.arrays
        hits = 0
        for part in _parts(ids.size, _PROBES):
            hits += self._opened.self_hits(ids[part].astype(np.int64), vectors[part])
            yield
        return Message({"hits": hits})

    # the line of queries

    def _query(self, message: Message) -> Steps:
        yield from ()
        return self._nearest(self._model.query(str(message.head["text"])), int(message.head["n"]))

    def _query_vector(self, message: Message) -> Steps:
        yield from ()
        return self._nearest(message.arrays[0].astype(np.float32), int(message.head["n"]))

    def _nearest(self, vector: Float32, n: int) -> Message:
        if not (np.isfinite(vector).all() and vector.any()):  # a text without anything an embedder reads
            return Message({}, (np.empty(0, np.int64), np.empty(0, np.float32)))
        return Message({}, self._opened.query(vector, n))

    def _embed_query(self, message: Message) -> Steps:
        yield from ()
        return Message({}, (self._model.query(str(message.head["text"])).astype(np.float32),))

    # the lines of work

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

    def _upsert(self, message: Message) -> Steps:
        ids, vectors = message.arrays
        for part in _parts(ids.size, _UPSERTS):
            with self._changing:
                self._opened.upsert(ids[part].astype(np.int64), vectors[part])
            yield
        return Message({"count": self._opened.count()})

    def _delete(self, message: Message) -> Steps:
        ids = message.arrays[0].astype(np.int64)
        for part in _parts(ids.size, _DELETES):
            with self._changing:
                self._opened.delete(ids[part])
            yield
        return Message({"count": self._opened.count()})

    def _ids(self, message: Message) -> Steps:
        yield from ()
        return Message({}, (self._opened.ids(int(message.head["offset"]), int(message.head["limit"])),))

    def _drop(self, message: Message) -> Steps:
        """Delete the store of another embedder."""
        yield from ()
        embedder_id = str(message.head["embedder"])
        if self._server:
            self._opened.drop(f"{self._collection}-{name_for(embedder_id)}")
            return Message({})
        folder = StoreFolder(Path(message.head["root"]), embedder_id)
        try:
            folder.hold()
            folder.drop()
        except Taken:
            logger.warning("the vector store of an embedder before is still open in another process; it is kept")
        except OSError as failed:
            logger.warning("the vector store of an embedder before can't be deleted (%s)", failed.strerror)
        finally:
            folder.release()
        return Message({})

    @property
    def _model(self) -> Embedder:
        assert self._embedder is not None
        return self._embedder

    @property
    def _opened(self) -> Store:
        assert self._store is not None
        return self._store


def _parts(size: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, size, most)]


class _ToDaemon(logging.Handler):
    """Our own log lines go to the daemon's log."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(logging.INFO)
        self._worker = worker

    def emit(self, record: logging.LogRecord) -> None:
        self._worker.send({"log": record.levelno, "name": record.name, "text": record.getMessage()})


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two ends of the daemon's pipes, moved away from where a library might read or print."""
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, 1):
            msvcrt.setmode(descriptor, os.O_BINARY)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _leave(*_: object) -> None:
    raise SystemExit


def main() -> None:
    """Run the worker on this process's standard streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the daemon's business
    signal.signal(signal.SIGTERM, _leave)  # a service that is stopped may signal all its processes
    os.umask(0o077)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)  # a query beside a busy thread waits that long for its turns
    worker = Worker(*_pipes())
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
