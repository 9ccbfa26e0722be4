"""A number that only grows, and those who wait for it."""

from __future__ import annotations

import asyncio


class Growing:
    """Used on the loop alone."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._grown = asyncio.Event()

    def reach(self, value: int) -> None:
        """It is this now, if that is more than it was; whoever waits for it goes on."""
        if value > self.value:
            self.value = value
            self._grown.set()
            self._grown = asyncio.Event()

    async def at_least(self, value: int) -> int:
        """The number, once it is not less than `value`."""
        while self.value < value:
            await self._grown.wait()
        return self.value
