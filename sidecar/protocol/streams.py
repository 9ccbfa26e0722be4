"""Event streams: responses that stay open, are kept alive by comments, and end with the token that opened them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from sidecar.protocol import replies

_HEADERS: Mapping[str, str] = {"Content-Type": replies.EVENTS, "X-Accel-Buffering": "no"}


class EventStream:
    """One open stream."""

    def __init__(self, request: web.BaseRequest, valid: Callable[[], bool], headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(headers={**_HEADERS, **headers})
        self._request = request
        self.valid = valid
        """Asked when a token has changed: may whoever opened this stream still come in?"""

    async def send(self, message: dict[str, Any]) -> None:
        """Send one event. Waits while the client reads slowly; one that reads nothing is dropped by the web room.

        Raises:
            ConnectionError: the client has gone.
        """
        await self.response.write(replies.to_event(message))

    async def keep_alive(self, after_s: float) -> None:
        """Send a comment every `after_s` seconds until cancelled."""
        while True:
            await asyncio.sleep(after_s)
            try:
                await self.response.write(b": ping\n\n")
            except ConnectionError:
                return

    def abort(self) -> None:
        """End it at once, unsent events and all; the loss of the connection cancels the task that serves it."""
        if self._request.transport is not None:
            self._request.transport.abort()


class Streams:
    """The open streams of one path."""

    def __init__(self, ping_after_s: float) -> None:
        """A comment goes out every `ping_after_s`, lest a client's read timeout, often a minute, end a stream."""
        self._ping_after_s = ping_after_s
        self._open: set[EventStream] = set()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    @asynccontextmanager
    async def open(
        self, request: web.BaseRequest, valid: Callable[[], bool], headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[EventStream]:
        """Answer `request` with a stream. When the block ends without an error the stream is ended in good order."""
        stream = EventStream(request, valid, headers or {})
        # Known before its first byte goes out: a token that changes meanwhile ends this stream as well.
        self._open.add(stream)
        try:
            await stream.response.prepare(request)
            pings = asyncio.create_task(stream.keep_alive(self._ping_after_s))
            try:
                yield stream
            finally:
                pings.cancel()
                await asyncio.wait((pings,))
            await stream.response.write_eof()
        finally:
            self._open.discard(stream)

    def abort_revoked(self) -> None:
        """Abort the streams of tokens that are no longer valid."""
        for stream in list(self._open):
            if not stream.valid():
                stream.abort()
