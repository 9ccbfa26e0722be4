"""Sessions and event streams by hand, over plain sockets."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import Any

from tests import wire
from tests.eras import ENVELOPE, MODERN
from tests.lab import Running, wait_until

PATH = "/mcp/stateful"
_MANY = 20


def hello(revision: str = "2025-11-25") -> bytes:
    """An initialize request."""
    about = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "wire", "version": "0"}}
    return wire.call("initialize", about)


def open_session(lab: Running, token: str | None = None, revision: str = "2025-11-25") -> str:
    """The id of a new session."""
    reply = wire.post(lab.port, token or lab.token, hello(revision), PATH)
    assert reply.status == 200, reply
    session = reply.header("Mcp-Session-Id")
    assert session
    return session


def post(lab: Running, session: str | None, body: bytes, token: str | None = None, **more: str) -> wire.Reply:
    """A POST on the path that requires sessions."""
    if session is not None:
        more["Mcp-Session-Id"] = session
    return wire.post(lab.port, token or lab.token, body, PATH, **more)


def notify(method: str, **params: Any) -> bytes:
    """A notification."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def cancel(request_id: Any) -> bytes:
    """The notification that a request is not wanted any more."""
    return notify("notifications/cancelled", requestId=request_id)


def request(lab: Running, method: str, session: str | None, token: str | None = None, **more: str) -> bytes:
    """A GET or DELETE on the path that requires sessions."""
    headers = wire.mcp_headers(lab.port, token or lab.token)
    del headers["Content-Type"]
    if session is not None:
        headers["Mcp-Session-Id"] = session
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return wire.request(method, PATH, headers)


def ask(lab: Running, method: str, session: str | None, token: str | None = None, **more: str) -> wire.Reply:
    """A GET or DELETE that is not answered with a stream."""
    return wire.raw(lab.port, request(lab, method, session, token, **more))


class Stream(wire.Wire):
    """A connection whose answer is an event stream."""

    def __init__(self, port: int, request: bytes) -> None:
        super().__init__(port)
        self.send(request)
        self.answer = self.head()
        self._text = ""

    def __enter__(self) -> Stream:
        return self

    def event(self) -> dict[str, Any] | None:
        """The next event; None when the stream has ended. Comments are passed over."""
        while True:
            block, mark, rest = self._text.partition("\n\n")
            if not mark:
                data = self.chunk()
                if not data:
                    self.ended_well = data == b""
                    return None
                self._text += data.decode()
                continue
            self._text = rest
            if block.startswith("event: message\ndata: "):
                return json.loads(block.removeprefix("event: message\ndata: "))


def standing(lab: Running, session: str, token: str | None = None) -> Stream:
    """The stream that belongs to a session."""
    stream = Stream(lab.port, request(lab, "GET", session, token))
    assert (stream.answer.status, stream.answer.header("Content-Type")) == (200, "text/event-stream")
    return stream


def listening(lab: Running, token: str | None = None, path: str = "/mcp") -> Stream:
    """A stream of 2026-07-28, acknowledged."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    headers = wire.mcp_headers(lab.port, token or lab.token)
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    stream = Stream(lab.port, wire.request("POST", path, headers, wire.call("subscriptions/listen", params)))
    acknowledged = stream.event()
    assert acknowledged is not None and acknowledged["method"] == "notifications/subscriptions/acknowledged"
    return stream


def calling(lab: Running, name: str, token: str | None = None, session: str | None = None, **arguments: Any) -> bytes:
    """A tools/call that asks for progress, as bytes to send: stateless, or within a session."""
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": 1}}
    headers = wire.mcp_headers(lab.port, token or lab.token)
    if session is not None:
        headers["Mcp-Session-Id"] = session
    return wire.request("POST", "/mcp" if session is None else PATH, headers, wire.call("tools/call", params))


def open_everything(lab: Running, stack: ExitStack, token: str) -> list[Stream]:
    """A stream of every kind, each opened with `token`: three that stand, two of calls that wait."""
    session = open_session(lab, token)
    streams = [
        stack.enter_context(standing(lab, session, token)),
        stack.enter_context(listening(lab, token)),
        stack.enter_context(listening(lab, token, PATH)),
        stack.enter_context(Stream(lab.port, calling(lab, "slow", token, reports=1))),
        stack.enter_context(Stream(lab.port, calling(lab, "slow", token, session, reports=1))),
    ]
    for stream in streams[-2:]:
        assert stream.event() is not None
    return streams


def unread(lab: Running, sent: bytes) -> wire.Wire:
    """A client that sends, and stops reading before the server stops writing."""
    client = wire.Wire(lab.port)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    client.send(sent)
    looks: list[int] = []

    def stuck() -> bool:  # each look is a turn of the loop, of which a report takes a few
        looks.append(lab.on_loop(lambda: lab.lab.flooded))
        return len(looks) >= _MANY and looks[-_MANY] == looks[-1] > 0

    wait_until(stuck)
    return client
