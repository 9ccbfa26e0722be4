"""The listener's side of a TCP connection: deadlines, the number of connections, unreadable requests.

aiohttp waits an hour for the first request, for ever for a client that stops
reading, and answers what it can't parse with a quotation of it. Here:

* a connection that has not brought a valid token within `first_s` is closed;
* one whose client leaves sent bytes unread for `unread_s` is dropped;
* over `most` connections, the oldest that is idle makes room, those without a
  valid token first; when all are busy the newcomer is closed;
* what is no HTTP gets one fixed answer and the connection ends.

Between requests aiohttp's own keep-alive limit holds.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from sidecar.web import answers

logger = logging.getLogger(__name__)

ORIGIN = web.RequestKey("origin", str)
"""The allowed web origin a request came from."""

_COMMON: Final = (b"POST ", b"GET ", b"DELETE ", b"OPTIONS ", b"HEAD ", b"PUT ", b"PATCH ", b"TRACE ", b"CONNECT ")
_REQUEST_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}(?= /[\x21-\x7e]{0,8000} HTTP/1\.[01]\r\n)")
_KEPT_ALIVE_S = 75.0  # the usual value of web servers; longer than the pauses of a client that works


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. The catalogue asks for 10, 30 and 60 at most; these leave room for a busy machine."""

    first_s: float = 8.0
    body_s: float = 20.0
    unread_s: float = 30.0
    linger_s: float = 2.0
    """A refused client may go on sending for so long, so that it gets to read the answer."""


class Request(web.BaseRequest):
    """A request whose every answer, streams and parser errors included, carries the fixed headers."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.update(answers.SECURITY_HEADERS)
        origin = self.get(ORIGIN)
        if origin is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id, WWW-Authenticate"
            response.headers["Vary"] = "Origin"


Handler = Callable[[Any], Awaitable[web.StreamResponse]]
"""Called with a `Request`; aiohttp's type for it names the base class."""


class Door(web.Server):
    """Accepts connections and bounds their number."""

    def __init__(self, handler: Handler, *, deadlines: Deadlines, most: int) -> None:
        self._options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": _KEPT_ALIVE_S,
            "lingering_time": deadlines.linger_s,
        }
        super().__init__(handler, request_factory=_request, handler_cancellation=True)
        self._deadlines = deadlines
        self._most = most
        self._open: dict[Connection, None] = {}  # in the order of their coming
        self._ending = False

    def __call__(self) -> web.RequestHandler:
        return Connection(self, self._deadlines, **self._options)

    @property
    def count(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def welcome(self, newcomer: Connection) -> bool:
        """Count a new connection in, if need be in the place of an idle one."""
        if self._ending:
            return False
        if len(self._open) >= self._most:
            idle = [one for one in self._open if one.idle]
            strangers = (one for one in idle if not one.known)
            leaver = next(strangers, idle[0] if idle else None)
            if leaver is None:
                return False
            leaver.drop()
            self._open.pop(leaver, None)
        self._open[newcomer] = None
        return True

    def pre_shutdown(self) -> None:
        """Close what is idle. Who was accepted in the same moment is turned away when its turn comes."""
        self._ending = True
        super().pre_shutdown()

    async def shutdown(self, timeout: float | None = None) -> None:
        """End every connection: answers may finish within `timeout`, then they are cancelled, then cut off.

        The framework's own leaves open what a client does not read, and does not wait for what it cancelled.
        """
        handlers = [task for one in self._open if (task := one.handler) is not None]
        await super().shutdown(timeout)
        for connection in list(self._open):
            connection.drop()
        if handlers:
            await asyncio.wait(handlers, timeout=timeout)
        await asyncio.sleep(0)  # the loop tells of lost connections in its next round

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self._open.pop(connection, None)


class Connection(web.RequestHandler):
    """One client's connection."""

    def __init__(self, door: Door, deadlines: Deadlines, **options: Any) -> None:
        self._door = door
        self._deadlines = deadlines
        self._link: asyncio.Transport | None = None
        self._first: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.busy = False
        """A request is being answered."""
        self.known = False
        """A valid token came over this connection."""
        super().__init__(door, loop=asyncio.get_running_loop(), **options)

    @property
    def idle(self) -> bool:
        """Nothing is being answered, and every answer has been sent."""
        return not self.busy and self._unread is None

    @property
    def handler(self) -> asyncio.Task[None] | None:
        """The task that answers requests here."""
        return self._task_handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._link = transport
        if not _is_loopback(transport) or not self._door.welcome(self):
            self.drop()
            return
        # Writing counts as paused while any byte is unsent, so that one timer sees every client that stops reading.
        transport.set_write_buffer_limits(high=0)
        self._first = asyncio.get_running_loop().call_later(self._deadlines.first_s, self._no_token_yet)

    def connection_lost(self, exc: BaseException | None) -> None:
        for timer in (self._first, self._unread):
            if timer is not None:
                timer.cancel()
        self._door.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # The parser knows a fixed list of methods and calls others malformed. They are not: they have to pass the
        # guards and meet 405 like any method that no route answers, so one of those goes in their place.
        if not self.busy and not data.startswith(_COMMON):
            data = _REQUEST_LINE.sub(b"PURGE", data, count=1) if _REQUEST_LINE.match(data) else data
        super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = asyncio.get_running_loop().call_later(self._deadlines.unread_s, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def drop(self) -> None:
        """Close at once, unsent bytes and all."""
        self.force_close()
        if self._link is not None:
            self._link.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to bytes that are no request. Neither it nor the log quotes them."""
        logger.debug("unreadable request: %s", type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("part of an answer is sent already")
        response = answers.refuse(answers.BAD_REQUEST if status < 500 else answers.FAILED)
        response.force_close()
        return response

    def _no_token_yet(self) -> None:
        self._first = None
        if self.known:
            return
        if self.busy:
            self._first = asyncio.get_running_loop().call_later(self._deadlines.first_s, self._no_token_yet)
            return
        self.drop()


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> Request:
    return Request(message, payload, protocol, writer, task, asyncio.get_running_loop())


def _is_loopback(transport: asyncio.Transport) -> bool:
    peer = transport.get_extra_info("peername")
    return bool(peer) and ipaddress.ip_address(peer[0]).is_loopback
