"""Requests to a client while its call runs: asked on the call's own stream, answered by a POST to the same session.

Revisions up to 2025-11-25 have them (sampling, elicitation, roots). Later ones
ask by a result instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, REQUEST_TIMEOUT

from sidecar.protocol.envelope import Id, Message
from sidecar.protocol.streams import EventStream

PATIENCE_S = 600.0
"""Unless the asker says otherwise: a person may have to read and decide."""


class Questions:
    """Those of one session that wait for an answer. A call that ends takes its own along."""

    def __init__(self) -> None:
        self._waiting: dict[Id, asyncio.Future[Message]] = {}
        self._numbers = itertools.count(1)

    async def ask(
        self, stream: EventStream, method: str, params: Mapping[str, Any] | None, *, within_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request on `stream`; the client's result.

        Raises:
            MCPError: the client answered with an error, with nonsense or not in time.
        """
        question: dict[str, Any] = {"jsonrpc": "2.0", "id": f"question-{next(self._numbers)}", "method": method}
        if params is not None:
            question["params"] = dict(params)
        answered = asyncio.get_running_loop().create_future()
        self._waiting[question["id"]] = answered
        try:
            # A client that has gone is waited for all the same: the loss of its connection is about to cancel the call.
            with contextlib.suppress(ConnectionError):
                await stream.send(question)
            async with asyncio.timeout(within_s or PATIENCE_S):
                return _result(await answered)
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"The client did not answer {method} in time.") from None
        finally:
            del self._waiting[question["id"]]

    def answer(self, response: Message) -> None:
        """Hand a response to whoever waits for it. Dropped if nobody does."""
        assert response.id is not None
        waiting = self._waiting.get(response.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)


def _result(response: Message) -> dict[str, Any]:
    given = response.reply or {}
    if isinstance(result := given.get("result"), dict):
        return cast("dict[str, Any]", result)
    match given.get("error"):
        case {"code": int(code), "message": str(text)}:
            raise MCPError(code, text)
        case _:
            raise MCPError(INVALID_REQUEST, "The client's response has neither a result nor an error.")
