"""A worn store is copied to a fresh one, which then takes its place.

Chroma's graph keeps the places of what is deleted. With 5,000 vectors of 384
numbers, of which 9,600 had been replaced one after the other, a query took
4.4 ms instead of 1.7, storing a vector 1.6 ms instead of 0.7, and the files
27 MB instead of 10; the graph is in memory as well.

The copy is made from the store, a little at a time, while that goes on
answering. Imported in the worker process only; everything blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from sidecar.index.store_folder import StoreFailed, StoreFolder
from sidecar.index.wire import Array, Int64

if TYPE_CHECKING:
    from sidecar.index.store import Store

logger = logging.getLogger(__name__)

LEAST_REMOVED: Final = 2_000
"""Before that, a store is not worn, however small it is."""

_PAGE: Final = 5_000
_VECTORS: Final = 64
_MOST_ROUNDS: Final = 10


class Renewal:
    """How worn a store is, and its copy once it is worn. Tell it of each change; nothing may change meanwhile.

    What goes wrong with a copy ends the copy and nothing else.
    """

    def __init__(
        self, store: Store, folder: StoreFolder | None = None, made: Callable[[Path], Store] | None = None
    ) -> None:
        """`made` opens an empty store in a folder. A store without a folder is never worn: a server sees to its own."""
        self._store = store
        self._folder = folder
        self._made = made
        self._copy: _Copy | None = None

    @property
    def is_begun(self) -> bool:
        """There is more to copy."""
        return self._copy is not None and not self._copy.is_whole

    @property
    def is_whole(self) -> bool:
        """The copy holds what the store holds, and takes its place once both are closed."""
        return self._copy is not None and self._copy.is_whole

    def upserted(self, ids: Int64, vectors: Array) -> None:
        """After that of the store."""
        with self._or_without():
            if self._copy:
                self._copy.upsert(ids, vectors)

    def deleted(self, ids: Int64) -> None:
        """After that of the store."""
        if self._folder:
            self._folder.has_removed(ids.size)
        with self._or_without():
            if self._copy:
                self._copy.delete(ids)

    def go_on(self) -> bool:
        """Copy a little, 30 ms, if the store is worn; whether something was done."""
        with self._or_without():
            if self._copy is None and self._is_worn():
                assert self._folder and self._made
                self._copy = _Copy(self._store, self._made(self._folder.begin_copy()))
            if self.is_begun:
                assert self._copy
                self._copy.go_on()
                return True
        return False

    def _is_worn(self) -> bool:
        """As many ids were removed as are left: half of the graph is of no use."""
        folder = self._folder
        return (
            folder is not None
            and folder.removed >= max(LEAST_REMOVED, self._store.count())
            and folder.has_room_for_copy
        )

    def close(self) -> None:
        """After an orderly end of the store. A copy that is not whole is deleted when the store is opened next."""
        with suppress(StoreFailed, OSError):
            if self._copy and self._folder:
                self._copy.close()
                if self._copy.is_whole:
                    self._folder.end_copy()

    @contextmanager
    def _or_without(self) -> Generator[None]:
        try:
            yield
        except (StoreFailed, OSError) as failed:
            reason = failed.strerror if isinstance(failed, OSError) else failed
            logger.warning("a worn vector store can't be written anew (%s); it is used as it is", reason)
            copy, self._copy = self._copy, None
            if self._folder:
                self._folder.removed = 0  # it is tried again once more is removed
            with suppress(StoreFailed):
                if copy:
                    copy.close()


class _Copy:
    """A copy in the making.

    Raises (from every method):
        StoreFailed: Chroma refused, or the two don't become equal.
    """

    def __init__(self, source: Store, target: Store) -> None:
        """`target` is empty."""
        self._source = source
        self._target = target
        self._there: set[int] = set()
        # a collection that is first asked something once it is filled takes in everything again, 5 ms a vector
        target.count()
        self._steps = self._copied()
        self.is_whole = False
        """It holds what the store holds."""

    def go_on(self) -> None:
        """Copy a little more; some 30 ms."""
        if next(self._steps, self) is self:
            self.is_whole = True

    def upsert(self, ids: Int64, vectors: Array) -> None:
        """As in the store."""
        self._target.upsert(ids, vectors)
        self._there.update(ids.tolist())

    def delete(self, ids: Int64) -> None:
        """As in the store."""
        self._target.delete(ids)
        self._there.difference_update(ids.tolist())

    def close(self) -> None:
        """Let go of the copy's files."""
        self._target.close()

    def _copied(self) -> Generator[None]:
        # what is changed between two pages of ids can hide some of them: then they are missing, and come next
        for _ in range(_MOST_ROUNDS):
            missing = yield from self._missing()
            for at in range(0, missing.size, _VECTORS):
                ids, vectors = self._source.vectors(missing[at : at + _VECTORS])
                new = np.array([chunk_id not in self._there for chunk_id in ids.tolist()], np.bool_)
                if new.any():
                    self.upsert(ids[new], vectors[new])
                yield
            if self._source.count() == self._target.count():
                return
        raise StoreFailed("does not become equal to its copy")

    def _missing(self) -> Generator[None, None, Int64]:
        pages: list[Int64] = []
        while not pages or pages[-1].size == _PAGE:
            pages.append(self._source.ids(len(pages) * _PAGE, _PAGE))
            yield
        return np.array([each for each in np.concatenate(pages).tolist() if each not in self._there], np.int64)
