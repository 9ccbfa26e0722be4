"""One registered database from its opening to its end: opened again until it succeeds, closed when nobody uses it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final

from sidecar.errors import BadArguments, SidecarError, VaultAway
from sidecar.index.corpus import Corpus
from sidecar.services.database_registry import Entry
from sidecar.vault.paths import echo

logger = logging.getLogger(__name__)

Opening = Callable[[Entry], AbstractAsyncContextManager[Corpus]]
"""Opens the corpus of an entry. BadArguments and VaultAway are about its folder, all else is about its index."""

AGAIN_S: Final = 3.0
"""How often one that can't be opened is tried: its disk may come back."""

_OPENING: Final = "its index is being opened"
_NOT_SERVED: Final = "the surface databases is not enabled"
_NO_FOLDER: Final = "its folder can't be opened"
_NO_INDEX: Final = "its index can't be opened"


class Database:
    """Its one task opens it, and keeps it open until `close`."""

    def __init__(self, entry: Entry, opening: Opening | None) -> None:
        """Without `opening` it is registered and no more."""
        self.entry = entry
        self.why: str = _OPENING if opening else _NOT_SERVED
        """Why it is not loaded: the end of a sentence."""
        self._corpus: Corpus | None = None
        self._closed = False
        self._uses = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._running = asyncio.create_task(self._run(opening), name="database") if opening else None

    @property
    def corpus(self) -> Corpus | None:
        """What is searched; None while it is not loaded."""
        return self._corpus

    @contextmanager
    def used(self) -> Generator[Corpus]:
        """The corpus, which stays open during the block.

        Raises:
            BadArguments: it is not loaded.
        """
        if self._corpus is None:
            name = echo(self.entry.db)
            raise BadArguments(f"'{name}' is registered but not loaded yet: {self.why}. Try again soon.")
        self._uses += 1
        self._unused.clear()
        try:
            yield self._corpus
        finally:
            self._uses -= 1
            if not self._uses:
                self._unused.set()

    async def close(self) -> None:
        """Let searches that have begun end, then close it."""
        self._closed, self._corpus = True, None
        await self._unused.wait()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))

    async def _run(self, opening: Opening) -> None:
        told = ""
        while True:
            reason = ""
            try:
                async with opening(self.entry) as corpus:
                    if not self._closed:
                        self._corpus = corpus
                        logger.info("database '%s' is loaded", self.entry.db)
                    await asyncio.get_running_loop().create_future()  # until it is closed
            except (BadArguments, VaultAway) as refused:
                reason, self.why = str(refused), _NO_FOLDER
            except SidecarError as refused:
                reason, self.why = str(refused), _NO_INDEX
            except Exception as failed:
                reason, self.why = type(failed).__name__, _NO_INDEX
                if reason != told:
                    logger.exception("database '%s' can't be opened", self.entry.db)
            if reason != told:
                logger.warning("database '%s' is not loaded: %s", self.entry.db, reason)
                told = reason
            await asyncio.sleep(AGAIN_S)
