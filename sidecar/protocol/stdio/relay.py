"""Reads what a client sends on stdio, and keeps track of what it waits for.

Each request is answered in a thread of its own, by `carrier`. What is no
message is answered here, what the daemon has no use for ends here, and a
cancelled request is called off.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from sidecar.bridge.pipe import Writer
from sidecar.errors import SidecarError
from sidecar.protocol import envelope, json_body
from sidecar.protocol.envelope import BadMessage, Id
from sidecar.protocol.json_body import BadJson
from sidecar.protocol.stdio import lines, messages
from sidecar.protocol.stdio.call import Call
from sidecar.protocol.stdio.carrier import Carrier, StandIn
from sidecar.protocol.stdio.handshake import Handshake
from sidecar.protocol.stdio.link import Link, Starting

logger = logging.getLogger(__name__)

MOST_BYTES = 16 << 20  # of a line, until a daemon has said how much it takes
MOST_CALLS = 128

_LAST_CALLS_S = 1.5  # stock clients end a server by force 2 s after they have closed its stdin


class Relay:
    """One client on stdio, and the daemon of one vault."""

    def __init__(
        self, state_dir: Path, path: str, *, start: Callable[[], Starting], stand_in: StandIn, output: int
    ) -> None:
        """`path` is the daemon's for the surface; `start` starts a daemon; `output` is a file descriptor."""
        self._out = Writer(output)
        self._stand_in = stand_in
        self._link = Link(state_dir, start, on_found=self._found, on_tools_changed=self._tools_changed)
        self._handshake = Handshake(path)
        self._carrier = Carrier(path, self._link, stand_in, self._handshake, self._pass, self._finish)
        self._turn = threading.Condition()
        self._calls: dict[Id, Call] = {}
        self._questions = 0

    def run(self, stream: BinaryIO) -> None:
        """Until the client closes the stream; what it has asked for by then gets a moment to be answered. Blocks."""
        self._link.open()
        for line in lines.read(stream, self._most_bytes):
            self._take(line)
        give_up = time.monotonic() + _LAST_CALLS_S
        with self._turn:
            while self._questions and time.monotonic() < give_up:
                self._turn.wait(give_up - time.monotonic())
            for call in self._calls.values():
                call.cancel()
        self._link.close()

    def _most_bytes(self) -> int:
        found = self._link.found
        return MOST_BYTES if found is None else found.max_body_bytes

    def _take(self, line: bytes | None) -> None:
        if line is None:
            text = f"A message is at most {self._most_bytes() >> 20} MiB long."
            return self._out.write(messages.error(None, messages.INVALID_REQUEST, text))
        try:
            message = envelope.read(json_body.parse(line))
        except BadJson as bad:
            return self._out.write(messages.error(None, messages.PARSE_ERROR, f"Parse error: {bad}"))
        except BadMessage as bad:
            return self._out.write(messages.error(bad.id, bad.code, str(bad)))
        if message.kind == "request":
            self._begin(Call(message, line, messages.modern_version(message)))
        elif message.method == messages.CANCELLED:
            self._cancel((message.params or {}).get("requestId"))
        # No other notification is of use to the daemon, and it asks nothing that a response could be to.

    def _begin(self, call: Call) -> None:
        refusal = None
        with self._turn:
            if call.id in self._calls:
                refusal = messages.error(call.id, messages.INVALID_REQUEST, "id: is that of a request still running.")
            elif len(self._calls) >= MOST_CALLS:
                refusal = messages.failure(call, f"{MOST_CALLS} requests are running; wait until one is answered.")
            else:
                self._calls[call.id] = call
                self._questions += call.method != messages.LISTEN
        if refusal is not None:
            return self._out.write(refusal)
        threading.Thread(target=self._answer, args=(call,), daemon=True).start()

    def _answer(self, call: Call) -> None:
        """One request, in a thread of its own."""
        try:
            self._carrier.answer(call)
        except SidecarError as refused:
            self._finish(call, messages.failure(call, str(refused)))
        except Exception:
            logger.exception("a request failed")
            self._finish(call, messages.failure(call, "The relay failed because of a mistake in vault-sidecar."))
        finally:
            with self._turn:
                self._forget(call)
                self._questions -= call.method != messages.LISTEN
                self._turn.notify_all()

    def _pass(self, call: Call, message: bytes) -> None:
        """Something about a request that is not its answer."""
        if not call.cancelled:
            self._out.write(message)

    def _finish(self, call: Call, answer: bytes) -> None:
        """The answer. The id is free first, since the client may use it again as soon as it reads this."""
        with self._turn:
            self._forget(call)
        self._pass(call, answer)

    def _forget(self, call: Call) -> None:
        if self._calls.get(call.id) is call:
            del self._calls[call.id]

    def _cancel(self, call_id: object) -> None:
        named = envelope.as_id(call_id)
        with self._turn:
            call = self._calls.get(named) if named is not None else None
            if call is not None:
                call.cancel()
                self._forget(call)

    # what the link's thread tells

    def _found(self) -> None:
        self._stand_in.dismiss()
        self._tools_changed()  # what the client knows of them may be from another daemon

    def _tools_changed(self) -> None:
        if self._handshake.done:  # clients of 2026-07-28 hear of it by their subscriptions alone
            self._out.write(messages.tools_changed())
