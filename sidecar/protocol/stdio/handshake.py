"""What `initialize` settled, for clients of the revisions that begin with it.

Over HTTP a revision is repeated in a header, and on a path with sessions so is
the session. A session ends with its daemon; the client, which knows nothing of
it, shakes hands with the next one by its old `initialize`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from sidecar.protocol.stdio import messages
from sidecar.protocol.stdio.call import Call
from sidecar.protocol.stdio.link import Found, Lent
from sidecar.protocol.stdio.post import Broken, Post

_INITIALIZED = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


class Handshake:
    """One client's, for all threads that have a request of it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._revision: str | None = None
        self._hello = b""
        self._program: str | None = None  # what the client calls itself
        self._session: str | None = None
        self._opened_at: Found | None = None  # who knows of it

    @property
    def done(self) -> bool:
        """The client has shaken hands."""
        return self._revision is not None

    def headers(self, call: Call, lent: Lent, common: Mapping[str, str]) -> dict[str, str]:
        """What a request needs beside the `common` headers; opens a session anew where it has ended. Blocks.

        Raises:
            Broken: the daemon went away meanwhile. The request itself has not been sent.
        """
        if self._revision is None or call.method == "initialize":
            return {}
        headers = {"MCP-Protocol-Version": self._revision}
        if self._program is not None:
            headers["User-Agent"] = self._program
        if lent.found is None:
            return headers
        with self._turn:
            if self._opened_at is not lent.found:
                self._session, self._opened_at = self._reopened(lent, common, self._revision), lent.found
            return headers if self._session is None else headers | {"Mcp-Session-Id": self._session}

    def session_ended(self) -> None:
        """The daemon no longer knows the session; the next request opens another."""
        self._opened_at = None

    def answered(self, call: Call, answer: bytes, lent: Lent, common: Mapping[str, str], session: str | None) -> bytes:
        """Take note of the answer to `initialize`. Returns the answer for the client. Blocks.

        Raises:
            Broken: the daemon went away before the session was open.
        """
        reply = messages.load(answer) or {}
        revision = messages.member(reply, "result", "protocolVersion")
        if not isinstance(revision, str):
            return answer
        if session is not None:
            self._confirm(lent, common, revision, session)
        with self._turn:
            self._hello, self._revision, self._program = call.line, revision, _program_of(call)
            self._session, self._opened_at = session, lent.found
        tools = messages.member(reply, "result", "capabilities", "tools")
        if not isinstance(tools, dict):
            return answer
        tools["listChanged"] = True
        return messages.dump(reply)

    def _reopened(self, lent: Lent, common: Mapping[str, str], revision: str) -> str | None:
        post = Post(lent.connection)
        list(post.replies(self._path, common, self._hello))
        if post.finished() is None:
            raise Broken
        if post.session is not None:
            self._confirm(lent, common, revision, post.session)
        return post.session

    def _confirm(self, lent: Lent, common: Mapping[str, str], revision: str, session: str) -> None:
        """The message by which the client says that it has the answer; sent here, so that no request comes before."""
        post = Post(lent.connection)
        headers = {**common, "MCP-Protocol-Version": revision, "Mcp-Session-Id": session}
        list(post.replies(self._path, headers, _INITIALIZED))
        if post.finished() is None:
            raise Broken


def _program_of(hello: Call) -> str | None:
    """The client's name as it may stand in a header; later requests of these revisions don't repeat it."""
    name = messages.member(hello.message.params, "clientInfo", "name")
    fits = isinstance(name, str) and name.isascii() and name.isprintable() and name.strip() == name and len(name) <= 80
    return name if fits and name else None
