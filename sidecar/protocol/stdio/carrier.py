"""Carries one request to the daemon and its answer back, as they are.

A line of the client becomes a POST, a reply of the daemon a line, byte for
byte. What HTTP and stdio do differently is done here and in `handshake`:

* headers repeat what 2026-07-28 has in its envelope; revisions before it get
  theirs from the handshake, and the session where the daemon has them;
* a cancelled request is a closed connection;
* a subscription outlives the daemon: it is asked for again at the next one.

When the daemon goes away, a request that was not answered is sent once more,
unless it calls a tool that may have changed something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from sidecar.protocol.stdio import messages
from sidecar.protocol.stdio.call import Call
from sidecar.protocol.stdio.handshake import Handshake
from sidecar.protocol.stdio.link import Away, Lent, Link
from sidecar.protocol.stdio.post import Broken, Post
from sidecar.protocol.stdio.subscription import Subscription
from sidecar.vault.paths import echo

_MOST_TRIES = 4  # that end before the request is sent; a daemon that has just come may just go
_LISTEN_AGAIN_S = 0.25
_COMMON: Mapping[str, str] = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "User-Agent": "vault-sidecar-relay",
}

Write = Callable[[Call, bytes], None]


class StandIn(Protocol):
    """Answers while no daemon can be had."""

    def lend(self) -> Lent:
        """A connection to it. Blocks."""
        ...

    def dismiss(self) -> None:
        """End the subscriptions that are with it: a daemon is there."""
        ...


class Carrier:
    """For all requests of one client."""

    def __init__(
        self, path: str, link: Link, stand_in: StandIn, handshake: Handshake, send: Write, finish: Write
    ) -> None:
        """`send` gets what comes before an answer, `finish` the answer."""
        self._path = path
        self._link = link
        self._stand_in = stand_in
        self._handshake = handshake
        self._send = send
        self._finish = finish

    def answer(self, call: Call) -> None:
        """Have a request answered, or say why it can't be. Blocks.

        Raises:
            SidecarError: it is not answered; the message is for the client.
        """
        if call.method == messages.LISTEN:
            return self._listen(call)
        was_sent = False
        for _ in range(_MOST_TRIES):
            try:
                lent = self._link.lend()
            except Away as away:
                return self._answer_alone(call, str(away))
            try:
                headers = self._headers(call, lent)
            except Broken:
                self._link.forget_kept()
                continue  # the request itself was not sent yet
            try:
                if self._carry(call, lent, headers):
                    return
            except Broken:
                if call.cancelled:
                    return
                self._link.forget_kept()
                if was_sent or not self._may_repeat(call):
                    break
                was_sent = True
        self._finish(call, messages.failure(call, _unanswered(call)))

    def _carry(self, call: Call, lent: Lent, headers: Mapping[str, str]) -> bool:
        """Send a request and pass on what comes. False: its session has ended, and it was not carried out.

        Raises:
            Broken: no answer came.
        """
        post, is_answered = Post(lent.connection), False
        call.carry(post)
        try:
            for reply in post.replies(self._path, headers, call.line):
                if post.status == 404 and "Mcp-Session-Id" in headers:
                    self._handshake.session_ended()
                    lent.connection.close()
                    return False
                if post.is_stream and "method" in (messages.load(reply) or {}):
                    self._send(call, _as_line(reply))
                else:
                    self._deliver(call, lent, post, reply)
                    is_answered = True
        except Broken:
            if not is_answered:
                raise
        if not is_answered:
            raise Broken
        if post.finished() is not None:
            self._link.give_back(lent)
        return True

    def _headers(self, call: Call, lent: Lent) -> dict[str, str]:
        common = {**_COMMON, **lent.authorization}
        if call.version is not None:
            return common | messages.modern_headers(call.message, call.version)
        return common | self._handshake.headers(call, lent, common)

    def _deliver(self, call: Call, lent: Lent, post: Post, reply: bytes) -> None:
        answer = messages.as_answer(call, post.status, reply)
        if call.method == "initialize":
            common = {**_COMMON, **lent.authorization}
            answer = self._handshake.answered(call, answer, lent, common, post.session)
        self._finish(call, _as_line(answer))

    def _may_repeat(self, call: Call) -> bool:
        """May a request be sent twice? Of a tool the list of tools says so."""
        if call.method != "tools/call":
            return True
        body, headers = messages.tool_list_request()
        try:
            lent = self._link.lend()
            post = Post(lent.connection)
            (reply,) = post.replies(self._path, {**_COMMON, **lent.authorization, **headers}, body)
        except (Away, Broken, ValueError):
            return False
        if post.finished() is not None:
            self._link.give_back(lent)
        return messages.is_read_only(reply, call.tool)

    def _answer_alone(self, call: Call, reason: str) -> None:
        """Answer without a daemon: a tool call by why there is none, the rest from the catalogue."""
        if call.method == "tools/call":
            return self._finish(call, messages.tool_error(call, reason))
        lent = self._stand_in.lend()
        try:
            self._carry(call, lent, self._headers(call, lent))
        except Broken:
            self._finish(call, messages.failure(call, reason))

    def _listen(self, call: Call) -> None:
        """Keep a subscription over the ends of daemons, until the client ends it or it is refused."""
        subscription = Subscription(call, self._send, self._finish)
        while not call.cancelled and not subscription.is_refused:
            try:
                # a subscription alone is no reason to start a daemon
                lent = self._link.lend(start=not subscription.is_acknowledged)
            except Away:
                if call.cancelled:
                    return
                lent = self._stand_in.lend()
            post = Post(lent.connection)
            call.carry(post)
            try:
                for reply in post.replies(self._path, self._headers(call, lent), call.line):
                    if not subscription.take(post.status, reply) or self._is_superseded(lent):
                        break
            except Broken:
                pass
            finally:
                lent.connection.close()
            if not call.cancelled and not subscription.is_refused:
                time.sleep(_LISTEN_AGAIN_S)

    def _is_superseded(self, lent: Lent) -> bool:
        """There is a daemon by now, and this is not it."""
        return lent.found is None and self._link.found is not None


def _as_line(message: bytes) -> bytes:
    """Line feeds stand between the values of JSON only; in its texts they are escaped."""
    return message.replace(b"\n", b" ")


def _unanswered(call: Call) -> str:
    if call.tool is None:
        return "The daemon ended before it had answered."
    return (
        f"The daemon ended before it had answered. {echo(call.tool)} may have done its work, or part of it, or nothing;"
        " look before you call it again."
    )
