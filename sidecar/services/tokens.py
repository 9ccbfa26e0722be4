"""Who may come in, changed while the daemon runs.

One change at a time, and a second one that comes meanwhile is refused: of two
rotations at once one would hand out a token that is dead on arrival. A change
that has begun is finished whether or not anybody still waits for its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from sidecar.bridge import named_tokens
from sidecar.bridge.token import Keys
from sidecar.bridge.token_book import TokenBook
from sidecar.errors import Busy, NotFound
from sidecar.tasks import Lane

T = TypeVar("T")


class Tokens:
    """The book of tokens together with the keys that are valid now. Answers are facts that are JSON as they are."""

    def __init__(self, book: TokenBook, keys: Keys, lane: Lane, on_change: Callable[[], None]) -> None:
        """`on_change` is called on the loop after keys were replaced: it ends the streams of those that went."""
        self._book = book
        self._keys = keys
        self._lane = lane
        self._on_change = on_change
        self._under_way: asyncio.Task[Any] | None = None

    async def show(self) -> dict[str, Any]:
        """The main token, and the place that keeps it.

        Raises:
            NotFound, Unreadable: the place has lost it, or can't say.
        """
        token = await self._lane.run(self._book.main_token)
        if token is None:
            raise NotFound(
                f"the token is not in {self._book.place} any more; 'vault-sidecar token rotate' makes another"
            )
        return {"token": token, "kept_in": self._book.place}

    async def listed(self) -> dict[str, Any]:
        """The named tokens, oldest first, and the place of the main one."""
        return self._book.listed()

    async def rotate(self) -> dict[str, Any]:
        """Replace the main token and revoke the named ones.

        Raises:
            Busy, Overridden, Unreadable: the old ones are valid as before.
        """
        return await self._change(lambda: self._book.rotate(self._keys.replace))

    async def add(self, agent: str, org: str) -> dict[str, Any]:
        """Make a named token.

        Raises:
            BadArguments, Busy, Unreadable: as `TokenBook.add`.
        """
        return await self._change(lambda: self._named(self._book.add(agent, org)))

    async def remove(self, agent: str) -> dict[str, Any]:
        """Revoke a named token.

        Raises:
            Busy, NotFound, Unreadable: as `TokenBook.remove`.
        """
        return await self._change(lambda: self._named(self._book.remove(agent)))

    async def close(self) -> None:
        """Wait for a change that is under way."""
        if self._under_way is not None:
            await asyncio.wait((self._under_way,))

    def _named(self, facts: dict[str, Any]) -> dict[str, Any]:
        self._keys.name(named_tokens.callers(self._book.named))
        return facts

    async def _change(self, work: Callable[[], T]) -> T:
        if self._under_way is not None and not self._under_way.done():
            raise Busy("the tokens are being changed already; look at what came of it, then try again")

        async def change() -> T:
            result = await self._lane.run(work)
            self._on_change()
            return result

        self._under_way = task = asyncio.create_task(change())
        return await asyncio.shield(task)
