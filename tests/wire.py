"""HTTP by hand: requests as bytes over a plain socket, for what a well-behaved client can't send."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Reply:
    """One response. `headers` are (lower-case name, value) in order."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header that comes at most once."""
        values = [value for found, value in self.headers if found == name.lower()]
        assert len(values) <= 1, values
        return values[0] if values else None

    def json(self) -> Any:
        return json.loads(self.body)


CLOSED = Reply(0, [], b"")
"""The connection ended without a byte of a response."""


class Wire:
    """A connection that sends bytes as they are and reads responses one by one."""

    def __init__(self, port: int, *, timeout_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._rest = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send; a peer that has closed already is no error, its answer may still be there."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def reply(self, *, bodiless: bool = False) -> Reply:
        """The next response, or `CLOSED`. `bodiless` for the answer to HEAD."""
        found = self.head()
        status, headers, fields = found.status, found.headers, dict(found.headers)
        if bodiless or status in (0, 100, 204):
            return found
        if fields.get("transfer-encoding") == "chunked":
            body = self._chunks()
        else:
            body = self._exactly(int(fields.get("content-length", "0")))
        return Reply(status, headers, body)

    def head(self) -> Reply:
        """Status and headers of the next response, its body still to be read; or `CLOSED`."""
        head = self._until(b"\r\n\r\n")
        if head is None:
            return CLOSED
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        return Reply(int(first.split(" ")[1]), headers, b"")

    def chunk(self) -> bytes | None:
        """The next chunk of a chunked body; empty at its end, None where the connection ends before."""
        line = self._until(b"\r\n")
        if line is None:
            return None
        data = self._exactly(int(line, 16))
        self._exactly(2)
        return data

    def at_end(self) -> bool:
        """Whether the server closes; waits for it."""
        try:
            return not self._rest and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self) -> bool:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._rest += data
        return bool(data)

    def _until(self, mark: bytes) -> bytes | None:
        while mark not in self._rest:
            if not self._more():
                return None
        found, self._rest = self._rest.split(mark, 1)
        return found

    def _exactly(self, length: int) -> bytes:
        while len(self._rest) < length and self._more():
            pass
        found, self._rest = self._rest[:length], self._rest[length:]
        return found

    def _chunks(self) -> bytes:
        body = b""
        while data := self.chunk():
            body += data
        return body


def raw(port: int, data: bytes, *, timeout_s: float = PATIENCE_S) -> Reply:
    """Send bytes over a connection of their own; the first response."""
    with Wire(port, timeout_s=timeout_s) as wire:
        wire.send(data)
        return wire.reply()


def request(
    method: str,
    target: str,
    headers: Mapping[str, str] | list[tuple[str, str]],
    body: bytes = b"",
    *,
    version: str = "HTTP/1.1",
) -> bytes:
    """A request as bytes; a Content-Length is added where there is a body. Header values are sent in Latin-1."""
    lines = [f"{method} {target} {version}"]
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    lines += [f"{name}: {value}" for name, value in pairs]
    names = {name.lower() for name, _ in pairs}
    if body and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def call(method: str, params: Mapping[str, Any] | None = None, *, message_id: Any = 1) -> bytes:
    """A JSON-RPC request."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": message_id, "method": method}
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode()


def tool(name: str, **arguments: Any) -> bytes:
    """A tools/call request."""
    return call("tools/call", {"name": name, "arguments": arguments})


INITIALIZE = call(
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wire", "version": "0"}},
)


def mcp_headers(port: int, token: str) -> dict[str, str]:
    """What an MCP client sends with a POST."""
    return {
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }


def post(port: int, token: str, body: bytes, path: str = "/mcp", **more: str) -> Reply:
    """One MCP POST. `more` adds or replaces headers; underscores in their names stand for hyphens."""
    headers = mcp_headers(port, token) | {name.replace("_", "-"): value for name, value in more.items()}
    return raw(port, request("POST", path, headers, body))
