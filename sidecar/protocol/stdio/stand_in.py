"""Answers from the catalogue of tools while no daemon can be had: without an index, and without a port.

It is the daemon's own way of answering, at the other end of a pair of sockets
in this process, so that clients of all revisions get the same from both. It
answers what needs no vault; calls of tools are not brought to it.

Made when it is first needed, which takes a second: all else of the relay does
without the SDK.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from typing import TYPE_CHECKING

from sidecar.protocol.stdio.link import Lent

if TYPE_CHECKING:
    import asyncio

    from aiohttp import web

    from sidecar.protocol.http import McpPath

_PATIENCE_S = 10.0


class StandIn:
    """One MCP path, for as long as the process lives."""

    def __init__(self, build: Callable[[], McpPath]) -> None:
        """`build` is called once, when it is first needed."""
        self._build = build
        self._turn = threading.Lock()
        self._made: tuple[McpPath, web.Server, asyncio.AbstractEventLoop] | None = None

    def lend(self) -> Lent:
        """A connection to it. Blocks."""
        import asyncio

        with self._turn:
            _, server, loop = self._made = self._made or self._make()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        asyncio.run_coroutine_threadsafe(loop.connect_accepted_socket(server, theirs), loop).result(_PATIENCE_S)
        connection = HTTPConnection("127.0.0.1")
        connection.sock = ours
        connection.auto_open = 0
        return Lent(connection, None)

    def dismiss(self) -> None:
        """End the subscriptions that are with it: a daemon is there."""
        with self._turn:
            made = self._made
        if made is not None:
            mount, _, loop = made
            loop.call_soon_threadsafe(mount.close)

    def _make(self) -> tuple[McpPath, web.Server, asyncio.AbstractEventLoop]:
        import asyncio

        from aiohttp import web

        from sidecar.bridge.token import Caller

        mount = self._build()
        owner = Caller("local", "local", local=True)

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            return await mount.answer(request, await request.read(), owner, lambda: True)

        async def serve(made: threading.Event) -> None:
            nonlocal server
            server = web.Server(answer, access_log=None, handler_cancellation=True)
            made.set()
            await asyncio.Event().wait()

        server: web.Server | None = None
        loop, made = asyncio.new_event_loop(), threading.Event()
        threading.Thread(target=loop.run_until_complete, args=(serve(made),), name="stand-in", daemon=True).start()
        made.wait(_PATIENCE_S)
        assert server is not None
        return mount, server, loop
