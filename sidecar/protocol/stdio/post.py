"""One request to the daemon, until it is answered or called off."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse

from sidecar.bridge.client import BROKEN


class Broken(Exception):
    """The other end went away before it had answered. The request may have been carried out."""


class Post:
    """A POST over a connection of its own for its time."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._socket: socket.socket | None = connection.sock
        self._response: HTTPResponse | None = None
        self._turn = threading.Lock()

    @property
    def status(self) -> int:
        """Of the answer, once there is one."""
        return self._response.status if self._response is not None else 0

    @property
    def is_stream(self) -> bool:
        """The answer comes as an event stream."""
        response = self._response
        return response is not None and response.headers.get_content_type() == "text/event-stream"

    @property
    def session(self) -> str | None:
        """The session that the answer opened."""
        return self._response.getheader("Mcp-Session-Id") if self._response is not None else None

    def replies(self, path: str, headers: Mapping[str, str], body: bytes) -> Iterator[bytes]:
        """Send, and yield each message of the answer as it comes: one, or those of an event stream. Blocks.

        Raises:
            Broken: also after some were yielded.
        """
        try:
            self._connection.request("POST", path, body, dict(headers))
            response = self._response = self._connection.getresponse()
            if self.is_stream:
                yield from _events(response)
            else:
                yield response.read()
        except BROKEN as error:
            self._connection.close()
            raise Broken from error
        finally:
            with self._turn:
                self._socket = None

    def cancel(self) -> None:
        """Close the connection under a waiting `replies`, which ends the work for it at the other end."""
        with self._turn:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def finished(self) -> HTTPConnection | None:
        """The connection if another request may be sent over it; else it is closed."""
        response = self._response
        if self._connection.sock is not None and response is not None and response.isclosed():
            return self._connection
        self._connection.close()
        return None


def _events(response: HTTPResponse) -> Iterator[bytes]:
    """The data of each event of a stream; comments and other fields are passed over."""
    data: list[bytes] = []
    while line := response.readline():
        content = line.rstrip(b"\r\n")
        if not content and data:
            yield b"\n".join(data)
            data = []
        elif content.startswith(b"data:"):
            data.append(content[5:].removeprefix(b" "))
