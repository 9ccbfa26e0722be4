"""One request and its reply: the SDK kernel's channel back to the client while a handler runs.

An answer is plain JSON. It becomes an event stream when the handler sends a
notification first, or when the client takes nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from aiohttp import web
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext

from sidecar.protocol import replies
from sidecar.protocol.envelope import Id, Message
from sidecar.protocol.questions import Questions
from sidecar.protocol.server import Requester
from sidecar.protocol.streams import EventStream

OpenStream = Callable[[], Awaitable[EventStream]]


class Exchange:
    """A `DispatchContext` of the SDK for one POST.

    `takes` are the kinds of answer the client takes: JSON, event streams.
    `valid` tells whether the requester's token is still good. Without a session
    there are no `questions`.
    """

    def __init__(
        self,
        message: Message,
        requester: Requester,
        valid: Callable[[], bool],
        takes: tuple[bool, bool],
        open_stream: OpenStream,
        questions: Questions | None = None,
    ) -> None:
        assert message.id is not None
        self.request_id: Id = message.id
        self.can_send_request = questions is not None and takes[1]
        self.transport = TransportContext(kind="streamable-http", can_send_request=self.can_send_request)
        self.message_metadata = ServerMessageMetadata(request_context=requester)
        self.cancel_requested = anyio.Event()
        self.scope = anyio.CancelScope()
        """The handler runs in it."""
        self._progress_token = progress_token_from_params(message.params)
        self._valid = valid
        self._takes_json, self._takes_stream = takes
        self._questions = questions
        self._open_stream = open_stream
        self._stream: EventStream | None = None
        self._opening = asyncio.Lock()
        self._over = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client on this reply. Refused where its answer had nowhere to land, and as `notify` drops."""
        if self._questions is None or not self._takes_stream or not self._valid():
            raise NoBackChannelError(method)
        return await self._questions.ask(await self._opened(), method, params, within_s=(opts or {}).get("timeout"))

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification on this reply.

        Dropped where the client takes JSON only, after the reply, and when the
        token was replaced: what begins then is no stream of the old token.
        """
        if self._takes_stream and not self._over and self._valid():
            # To a client that has gone nothing is sent; the loss of its connection is about to cancel the handler.
            with contextlib.suppress(ConnectionError):
                stream = await self._opened()
                await stream.send(replies.notification_of(method, dict(params or {})))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress, if the request asked for it."""
        if self._progress_token is not None:
            facts = {"progressToken": self._progress_token, "progress": progress, "total": total, "message": message}
            await self.notify("notifications/progress", {k: v for k, v in facts.items() if v is not None})

    async def _opened(self) -> EventStream:
        """The reply as an event stream, which it becomes now if it is none yet."""
        # A handler may report from several tasks; and one that is cancelled must not leave half of a stream's head.
        with anyio.CancelScope(shield=True):
            async with self._opening:
                if self._stream is None:
                    self._stream = await self._open_stream()
        assert self._stream is not None
        return self._stream

    async def finish(self, reply: dict[str, Any], status: int) -> web.StreamResponse:
        """Send the reply. As an event, its status is 200."""
        self._over = True
        if self._stream is None and self._takes_json:
            return replies.to_json(reply, status)
        stream = await self._opened()
        await stream.send(reply)
        return stream.response

    def cancel(self) -> None:
        """Stop the handler; the reply then says that the request was cancelled."""
        self.cancel_requested.set()
        self.scope.cancel()
