"""Questions to what is indexed, in lanes of their own, on connections that belong to their threads."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from sidecar.errors import NotReady
from sidecar.index.manifest_reader import ManifestReader
from sidecar.tasks import Lane

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 2


class Asking:
    """Readers of one corpus's manifest, one for each thread."""

    def __init__(self, manifest_path: Path, is_distrusted: Callable[[Exception], bool]) -> None:
        """`is_distrusted` is called on the loop with what went wrong: whether it means that the manifest can't be used,
        which is then seen to."""
        self._path = manifest_path
        self._is_distrusted = is_distrusted
        self._lane = Lane("query", _THREADS)
        self._local = threading.local()
        self._readers: list[ManifestReader] = []

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Something else that blocks, and that an answer waits for."""
        return await self._lane.run(call, *args, **kwargs)

    async def answer(self, question: Callable[[ManifestReader], T]) -> T:
        """The answer to a question.

        Raises:
            NotReady: the manifest was found damaged; it is being made again.
        """
        try:
            return await self.ask(question)
        except sqlite3.Error as failed:
            if not self._is_distrusted(failed):
                raise
            raise NotReady("The index was damaged and is being made again. Try again soon.") from failed

    async def ask(self, question: Callable[[ManifestReader], T]) -> T:
        """The same for those who see to it themselves.

        Raises:
            sqlite3.Error: the manifest can't be read.
        """
        return await self._lane.run(self._asked, question)

    def _asked(self, question: Callable[[ManifestReader], T]) -> T:
        reader = self._reader()
        with reader.moment():
            return question(reader)

    def _reader(self) -> ManifestReader:
        """This thread's own connection."""
        reader: ManifestReader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = ManifestReader(self._path)
            self._readers.append(reader)
        return reader

    async def close(self) -> None:
        """Wait for what runs, then let go of the readers."""
        await self._lane.close()
        for reader in self._readers:
            reader.close()
