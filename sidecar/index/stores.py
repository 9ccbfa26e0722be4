"""The vector stores that the worker process has open, one for each collection. Imported in that process only.

Each has a folder of its own, and so a client of its own: what damages one
leaves the others alone, and ten of them take no more memory than ten
collections in one folder would (measured with 40,000 vectors: 179 and 181 MB).
Everything blocks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from sidecar.index import wire
from sidecar.index.lines import Steps
from sidecar.index.newest import Newest
from sidecar.index.renewal import Renewal
from sidecar.index.store_folder import StoreFailed, StoreFolder, Taken, name_for
from sidecar.index.wire import Float32, Message

if TYPE_CHECKING:
    from sidecar.index.store import Store

logger = logging.getLogger(__name__)

# What is done of a long job between two signs. Queries and saves wait for at most one of the pieces that change a
# store, because Chroma keeps the interpreter meanwhile.
_UPSERTS: Final = 64  # 25 ms, of which 10 are the same for one as for many
_DELETES: Final = 128
_PROBES: Final = 10
_COPYINGS: Final = 20  # answered within a second, so that nothing else of the line waits long

_SERVER_AGAIN_S: Final = 5.0  # how often a Chroma server that does not answer is tried
_LOOK_S: Final = 0.25


class Refused(Exception):
    """The answer is a refusal. What its kinds mean is in `child.Failure`."""

    def __init__(
        self, kind: Literal["off", "away", "damaged", "failed"], reason: str, *, goes_on: bool = False
    ) -> None:
        """`goes_on`: nothing was begun, so that this process is as good as before."""
        super().__init__(reason)
        self.kind = kind
        self.goes_on = goes_on


@dataclass(slots=True)
class _Open:
    store: Store
    name: str
    """What the names of its collections begin with, on a server."""
    folder: StoreFolder | None
    server: wire.Server | None
    renewal: Renewal
    newest: Newest = field(default_factory=Newest.none)


class Stores:
    """The open stores by their numbers, and what can be asked of them."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._open: dict[int, _Open] = {}
        self._changing = threading.Lock()
        self._turn: threading.Lock | None = None

    def take_turns(self) -> None:
        """From now on, let one store be in hand at a time, and tell which.

        For after an end of the process that may be put down to several.
        """
        self._turn = threading.Lock()

    @contextmanager
    def in_hand(self, number: int | None) -> Generator[None]:
        """Around each piece of work with a store."""
        if self._turn is None or number is None:
            yield
            return
        with self._turn:
            self._send({"at": number})
            try:
                yield
            finally:
                self._send({"at": None})

    def close(self, *, sound: bool) -> None:
        """Let go of all. `sound`: nothing went wrong and nothing runs, so that they may be closed in order."""
        for number in list(self._open):
            self._let_go(number, sound=sound)

    def _let_go(self, number: int, *, sound: bool) -> None:
        opened = self._open.pop(number)
        try:
            if sound:
                opened.store.close()
                if opened.folder:
                    opened.folder.mark_clean()
                opened.renewal.close()
        finally:
            if opened.folder:
                opened.folder.release()

    def why_failed(self, number: int | None, failed: BaseException) -> tuple[str, str]:
        """Kind and reason of a failure with a store that is open, for `child.Failure`."""
        opened = self._open.get(number) if number is not None else None
        if opened and opened.server and isinstance(failed, StoreFailed):
            return "away", f"can't use the Chroma server ({failed})"
        if any(known.folder and known.folder.disk_is_full for known in self._open.values()):
            return "away", "found the disk full"
        # the words of a library may hold paths of this computer; the file of this process's stderr may, too
        return "failed", f"had an error ({type(failed.__cause__ or failed).__name__})"

    # opening

    def open(self, message: Message, embedder_id: str) -> Steps:
        """Open a store of the loaded embedder, in a folder of `root` or as `collection` on `server`."""
        head = message.head
        number, name, aside = int(head["store"]), name_for(embedder_id), str(head["set_aside"] or "") or None
        if head["server"]:
            return (
                yield from self._open_server(
                    number, wire.Server(**head["server"]), str(head["collection"]), name, aside
                )
            )
        # imported here, since it takes a second in which the embedder's reports should come through
        from sidecar.index.store import Store

        root = Path(head["root"])
        folder = StoreFolder(root, embedder_id)
        try:
            root.mkdir(mode=0o700, exist_ok=True)
            folder.hold()
            aside = aside or folder.strangeness()
            if aside:
                folder.set_aside()
            clean = folder.begin()
        except Taken as taken:
            raise Refused("away", "found its store open in another process", goes_on=True) from taken
        except OSError as failed:
            folder.release()
            raise Refused("away", f"can't use the state folder ({failed.strerror})", goes_on=True) from failed
        try:
            store = Store(folder.path, name)
            count = store.count()
        except StoreFailed as failed:
            if folder.disk_is_full:
                raise Refused("away", "found the disk full") from failed
            logger.debug("the store can't be opened", exc_info=failed)
            raise Refused("damaged", f"can't be opened ({failed})") from failed
        renewal = Renewal(store, folder, lambda path: Store(path, name))
        self._open[number] = _Open(store, name, folder, None, renewal)
        if not count and folder.has_segments:
            raise Refused("damaged", "has lost its rows")
        return Message({"count": count, "clean": clean, "set_aside": aside, "missed": folder.missed and not aside})

    def _open_server(self, number: int, server: wire.Server, collection: str, name: str, aside: str | None) -> Steps:
        """Wait for the server here: starting again would mean loading the embedder again each time."""
        from sidecar.index.store import Store

        told = ""
        while True:
            try:
                store = Store(server, f"{collection}-{name}", anew=aside is not None)
                count = store.count()
                self._open[number] = _Open(store, collection, None, server, Renewal(store))
                return Message({"count": count, "clean": True, "set_aside": aside, "missed": False})
            except StoreFailed as failed:
                if str(failed) != told:
                    told = str(failed)
                    logger.debug("the server can't be used", exc_info=failed)
                    self._send({"report": f"The vector worker waits for the Chroma server ({failed})."})
            again = time.monotonic() + _SERVER_AGAIN_S
            while time.monotonic() < again:
                time.sleep(_LOOK_S)
                yield

    def shut(self, message: Message) -> Steps:
        """Close a store in order; it may not be there. Other lines must have nothing to do with it any more."""
        yield from ()
        number = int(message.head["store"])
        if number in self._open:
            with self._changing:
                self._let_go(number, sound=True)
        return Message({})

    def sample(self, message: Message) -> Steps:
        """Some ids."""
        yield from ()
        return Message({}, (self._store(message).sample(int(message.head["most"])),))

    def probe(self, message: Message) -> Steps:
        """How many of these vectors find themselves."""
        ids, vectors = message.arrays
        hits = 0
        for part in _parts(ids.size, _PROBES):
            hits += self._store(message).self_hits(ids[part].astype(np.int64), vectors[part])
            yield
        return Message({"hits": hits})

    # work

    def nearest(self, message: Message, vector: Float32) -> Message:
        """The ids nearest to a vector[dim]."""
        if not (np.isfinite(vector).all() and vector.any()):  # a text without anything an embedder reads
            return Message({}, (np.empty(0, np.int64), np.empty(0, np.float32)))
        n = int(message.head["n"])
        opened = self._opened(message)
        newest = opened.newest  # before the store is asked, which may lose what is deleted meanwhile
        return Message({}, newest.among(vector, opened.store.query(vector, n), n))

    def upsert(self, message: Message) -> Steps:
        """Put ids and their vectors."""
        ids, vectors = message.arrays[0].astype(np.int64), message.arrays[1]
        opened = self._opened(message)
        for part in _parts(ids.size, _UPSERTS):
            with self._changing:
                opened.store.upsert(ids[part], vectors[part])
                opened.renewal.upserted(ids[part], vectors[part])
                newest = opened.newest
                is_save = bool(message.head.get("urgent"))
                opened.newest = newest.with_saved(ids[part], vectors[part]) if is_save else newest.without(ids[part])
            yield
        return Message({"count": opened.store.count()})

    def delete(self, message: Message) -> Steps:
        """Remove ids."""
        ids = message.arrays[0].astype(np.int64)
        opened = self._opened(message)
        for part in _parts(ids.size, _DELETES):
            with self._changing:
                opened.store.delete(ids[part])
                opened.renewal.deleted(ids[part])
                opened.newest = opened.newest.without(ids[part])
            yield
        return Message({"count": opened.store.count()})

    def ids(self, message: Message) -> Steps:
        """A page of the ids."""
        yield from ()
        return Message({}, (self._store(message).ids(int(message.head["offset"]), int(message.head["limit"])),))

    def renew(self, message: Message) -> Steps:
        """Copy some of a worn store to a fresh one, which takes its place when it is closed and opened again.

        The answer: there is `more` to copy, or the copy is `whole`, or neither, because the store is not worn.
        """
        renewal = self._opened(message).renewal
        for _ in range(_COPYINGS):
            with self._changing:
                if not renewal.go_on():
                    break
            yield
        return Message({"more": renewal.is_begun, "whole": renewal.is_whole})

    def drop(self, message: Message) -> Steps:
        """Delete the store of another embedder, beside an open one."""
        yield from ()
        beside = self._open[int(message.head["store"])]
        embedder_id = str(message.head["embedder"])
        if beside.server:
            beside.store.drop(f"{beside.name}-{name_for(embedder_id)}")
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

    def _opened(self, message: Message) -> _Open:
        return self._open[int(message.head["store"])]

    def _store(self, message: Message) -> Store:
        return self._opened(message).store


def _parts(size: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, size, most)]
