"""One `subscriptions/listen` of a client, over the ends of daemons."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.protocol.stdio import messages
from sidecar.protocol.stdio.call import Call


class Subscription:
    """What the client was told of it so far."""

    def __init__(self, call: Call, send: Callable[[Call, bytes], None], finish: Callable[[Call, bytes], None]) -> None:
        """`send` gets what comes of it, `finish` that it was refused."""
        self._call = call
        self._send = send
        self._finish = finish
        self.is_acknowledged = False
        self.is_refused = False

    def take(self, status: int, reply: bytes) -> bool:
        """Pass on what a daemon says of it. False: this daemon says no more.

        A second acknowledgement comes from a second daemon. The client has had
        one; instead it is told to look at the tools again, because it has heard
        of no change in between.
        """
        event = messages.load(reply) or {}
        if event.get("method") == messages.ACKNOWLEDGED:
            if not self.is_acknowledged:
                self._send(self._call, reply)
            elif messages.member(event, "params", "notifications", "toolsListChanged"):
                self._send(self._call, messages.tools_changed(self._call.id))
            self.is_acknowledged = True
        elif "method" in event:
            self._send(self._call, reply)
        elif status != 200 or "error" in event:
            self._finish(self._call, messages.as_answer(self._call, status, reply))
            self.is_refused = True
        else:  # the daemon ends; to the client it does not
            return False
        return not self.is_refused
