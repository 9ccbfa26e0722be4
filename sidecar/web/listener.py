"""Binds the loopback port and serves an app on it."""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import sys
from types import TracebackType

from sidecar.errors import PortTaken
from sidecar.web.app import App
from sidecar.web.connections import Door

HOST = "127.0.0.1"  # the address, not the name `localhost`, which may open a second socket on ::1

_LOWEST_RANDOM, _HIGHEST_PORT = 10_000, 65_535
_TRIES = 10
_BACKLOG = 512
_MOST_CONNECTIONS = 512
_STOP_S = 0.25  # a call in flight may take so long to finish, and twice more to end when it is cancelled


def bind(port: int) -> socket.socket:
    """A socket that listens on loopback; 0 stands for a random free port from 10000 up.

    The guards have to know the port before the first request, so binding and
    serving are two steps. Clients that connect in between wait.

    Raises:
        PortTaken: the port is in use, or no free one was found in a few tries.
    """
    if port:
        return _listening(port)
    for _ in range(_TRIES):
        try:
            return _listening(_LOWEST_RANDOM + secrets.randbelow(_HIGHEST_PORT - _LOWEST_RANDOM + 1))
        except PortTaken:
            continue
    raise PortTaken("no free port was found on 127.0.0.1")


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # There, SO_REUSEADDR would let another program take the port over.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            # Lets a restart pass the last run's closed connections; two listeners it does not allow.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as refused:
        sock.close()
        if refused.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortTaken(
                f"port {port} on 127.0.0.1 is in use by another program or reserved; "
                "stop that program, or set another [http] port"
            ) from refused
        raise
    return sock


class Listener:
    """Serves an app on a bound socket while its context is open; the socket is closed at the end."""

    def __init__(self, app: App, sock: socket.socket, *, most_connections: int | None = None) -> None:
        self._app = app
        self._sock = sock
        self._most = most_connections if most_connections is not None else _affordable_connections()
        self._door: Door | None = None
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._door.count if self._door is not None else 0

    async def __aenter__(self) -> Listener:
        self._door = Door(self._app.handle, deadlines=self._app.limits.deadlines, most=self._most)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._door, sock=self._sock, backlog=_BACKLOG)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No new connection, streams end, calls get a moment to finish; takes a second at most."""
        assert self._server is not None and self._door is not None
        self._server.close()
        self._door.pre_shutdown()
        self._app.close()
        await self._door.shutdown(_STOP_S)


def _affordable_connections() -> int:
    """Half of the open files this process may have, at most 512: the index needs the others."""
    if sys.platform == "win32":
        return _MOST_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft // 2)
