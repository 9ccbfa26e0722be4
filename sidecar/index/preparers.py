"""Processes that prepare notes while much is to be indexed, so that both cores work and queries stay quick.

They get bytes and give back records; they never open a file of the vault. A
pool that breaks is no loss: its notes are prepared here instead.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from sidecar.index.prepare import Lot
from sidecar.index.preparing import Read, begin, prepared, prepared_there
from sidecar.index.tokens import Tokenizer
from sidecar.tasks import Lane

logger = logging.getLogger(__name__)

_MOST_PROCESSES = 4  # one thread stores what they prepare, and keeps up with about so many
_WORTH_IT = 200  # notes; below that a process takes longer to start than it saves


class Preparers:
    """Prepares here in a lane, or in processes while `expect` says that much is coming."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lane = Lane("prepare")
        self._pool: ProcessPoolExecutor | None = None

    def expect(self, notes: int) -> None:
        """So many notes are waiting: start processes for many, end them when none is left."""
        if notes >= _WORTH_IT and self._pool is None:
            count = min(_MOST_PROCESSES, os.cpu_count() or 1)
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=begin)
        elif not notes:
            self._drop_pool()

    async def prepare(self, reads: Sequence[Read]) -> Lot:
        """Each note prepared, or left out if it could not be taken apart."""
        pool = self._pool
        if pool is not None and reads:
            try:
                return await asyncio.get_running_loop().run_in_executor(pool, prepared_there, reads)
            except BrokenProcessPool:
                logger.warning("a process that prepared notes has ended; going on without")
                if self._pool is pool:
                    self._drop_pool()
        return await self.prepare_here(reads)

    async def prepare_here(self, reads: Sequence[Read]) -> Lot:
        """The same without the processes, whose queue may be long."""
        return await self._lane.run(prepared, reads, self._tokenizer)

    def _drop_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def close(self) -> None:
        """End the processes and wait for the lane."""
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
            self._pool = None
        await self._lane.close()
