"""When a vector store is written anew: in a quiet time, once it is worn (`renewal`)."""

from __future__ import annotations

import asyncio
import logging

from sidecar.index.child import Child, Failure

logger = logging.getLogger(__name__)


class Upkeep:
    """Tell it of each use of the store; `over` is waited for while it is open."""

    def __init__(self, calm_s: float) -> None:
        """`calm_s`: so long nobody must have used the store."""
        self._calm_s = calm_s
        self._used_at = 0.0

    def used(self) -> None:
        """Somebody asks or changes something."""
        self._used_at = asyncio.get_running_loop().time()

    async def over(self, child: Child, store: int) -> Failure | None:
        """Wait until the process ends; why. None: the store was written anew, and is to be closed and opened."""
        ended = asyncio.create_task(child.ended())
        renewed = asyncio.create_task(self._renewed(child, store))
        try:
            await asyncio.wait((ended, renewed), return_when=asyncio.FIRST_COMPLETED)
            if child.failure is None and not ended.done():
                renewed.result()
                return None
            return await ended
        finally:
            ended.cancel()
            renewed.cancel()
            await asyncio.gather(ended, renewed, return_exceptions=True)

    async def _renewed(self, child: Child, store: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(self._calm_s - (loop.time() - self._used_at), 0.0) or self._calm_s)
            if loop.time() - self._used_at < self._calm_s:
                continue
            began = loop.time()
            while True:
                answer = await child.call("renew", store=store)
                if answer.head["whole"]:
                    logger.info("a worn vector store was written anew in %.1f s", loop.time() - began)
                    return
                if not answer.head["more"]:
                    break
