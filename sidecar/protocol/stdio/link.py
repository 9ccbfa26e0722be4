"""The way to the vault's daemon: finds it, starts one where none runs, and notices when it has gone.

One thread does all of that. As long as a daemon is there it holds a request
open, by which the daemon knows that it is needed, and hears on it what has
changed. When it ends, another one is looked for, but started only once
somebody asks for one: so 'vault-sidecar stop' stops it, and a newcomer that
takes its place is not met by a rival.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sidecar.bridge import client
from sidecar.bridge.client import BROKEN, NotRunning
from sidecar.bridge.endpoint import Endpoint
from sidecar.errors import AlreadyServed, SidecarError, Unreachable

logger = logging.getLogger(__name__)

RELAY_PATH = "/admin/relay"

PATIENCE_S = 25.0  # a daemon is up within seconds; clients wait 30 s for the answer to their first request
_LOOK_EVERY_S = 0.05
_LOOK_FIRST_S = 1.0  # for the daemon of somebody else who was quicker
_IDLE_LOOK_S = 0.25  # while nobody asks
_IDLE_LOOK_LATER_S = 2.0  # after the first seconds
_SOON_S = 15.0
_NOT_AGAIN_S = 2.0  # a start that failed is not tried again at once
_KEPT_CONNECTIONS = 8
_KEPT_S = 30.0  # the daemon closes an idle connection after 75 s


class Away(Unreachable):
    """No daemon can be had; the message says why."""


class Starting(Protocol):
    """A daemon that is being started in the background."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        ...

    def last_words(self) -> str:
        """What it said before it ended."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    """A daemon that has proved itself and is held on to."""

    endpoint: Endpoint
    key: bytes
    max_body_bytes: int


@dataclass(frozen=True, slots=True)
class Lent:
    """A connection over which the key may be sent, to be given back."""

    connection: http.client.HTTPConnection
    found: Found | None
    """The daemon at its other end; None: what stands in for it, which asks for no key."""

    @property
    def authorization(self) -> dict[str, str]:
        """The header that lets a request in."""
        return client.bearer(self.found.key) if self.found is not None else {}


class Link:
    """For the life of a relay; its thread ends with the process. Methods may be called from any thread."""

    def __init__(
        self,
        state_dir: Path,
        start: Callable[[], Starting],
        *,
        on_found: Callable[[], None],
        on_tools_changed: Callable[[], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`start` starts a daemon in the background, or raises SidecarError. The callbacks run in the link's thread."""
        self._state_dir = state_dir
        self._start = start
        self._on_found = on_found
        self._on_tools_changed = on_tools_changed
        self._patience_s = patience_s
        self._turn = threading.Condition()
        self._found: Found | None = None
        self._wanted = True  # whoever starts a relay is about to ask
        self._failed: Away | None = None
        self._failed_at = 0.0
        self._kept: list[tuple[float, Lent]] = []
        self._child: Starting | None = None
        self._stream: _Stream | None = None
        self._closed = False

    def open(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._keep, name="link", daemon=True).start()

    def close(self) -> None:
        """Let go of the daemon, and of whoever waits for one."""
        with self._turn:
            self._closed = True
            if self._stream is not None:
                self._stream.cut()
            self._turn.notify_all()
        self.forget_kept()

    def forget_kept(self) -> None:
        """One connection broke, and others may be about to. The daemon has to prove on a new one that it is there."""
        with self._turn:
            kept, self._kept = self._kept, []
        for _, lent in kept:
            lent.connection.close()

    @property
    def found(self) -> Found | None:
        """The daemon that is there now."""
        return self._found

    def lend(self, *, start: bool = True) -> Lent:
        """A connection to the daemon. Where none runs, one is started, or else waited for, however long. Blocks.

        Raises:
            Away: there is none, and none can be started.
        """
        give_up = time.monotonic() + self._patience_s if start else math.inf
        while True:
            found = self._wanted_daemon() if start else self._coming_daemon()
            kept = self._take_kept(found)
            if kept is not None:
                return kept
            try:
                connection = client.connect(found.endpoint, found.key)
            except Unreachable as gone:  # it is just leaving
                if time.monotonic() > give_up:
                    raise Away(f"The daemon takes no connection: {gone}.") from gone
                time.sleep(_LOOK_EVERY_S)
                continue
            if connection.sock is not None:
                connection.sock.settimeout(None)  # a call may take as long as it takes; its client can call it off
                return Lent(connection, found)

    def give_back(self, lent: Lent) -> None:
        """Keep a connection whose last answer was read to its end."""
        with self._turn:
            is_good = lent.found is not None and lent.found is self._found and not self._closed
            if is_good and len(self._kept) < _KEPT_CONNECTIONS:
                self._kept.append((time.monotonic(), lent))
                return
        lent.connection.close()

    def _wanted_daemon(self) -> Found:
        with self._turn:
            if self._failed is not None and time.monotonic() - self._failed_at > _NOT_AGAIN_S:
                self._failed = None
            while self._found is None:
                if self._failed is not None:
                    raise Away(str(self._failed))
                if self._closed:
                    raise Away("The client has gone.")
                self._wanted = True
                self._turn.notify_all()
                self._turn.wait()
            return self._found

    def _coming_daemon(self) -> Found:
        with self._turn:
            while self._found is None:
                if self._closed:
                    raise Away("The client has gone.")
                self._turn.wait()
            return self._found

    def _take_kept(self, found: Found) -> Lent | None:
        """A connection that is still good. One that has something to read has been closed."""
        while True:
            with self._turn:
                if not self._kept:
                    return None
                since, lent = self._kept.pop()
            sock = lent.connection.sock
            is_fresh = lent.found is found and time.monotonic() - since < _KEPT_S
            if is_fresh and sock is not None and not select.select([sock], [], [], 0)[0]:
                return lent
            lent.connection.close()

    # the thread

    def _keep(self) -> None:
        alone_since = time.monotonic()
        while not self._closed:
            try:
                stream = self._bring_up() if self._is_wanted(alone_since) else self._look()
                if stream is not None:
                    self._hold(stream)
                    alone_since = time.monotonic()
            except SidecarError as failed:
                if not self._closed:
                    self._fail(str(failed))
            except Exception:
                logger.exception("looking for the daemon failed")
                self._fail("a mistake in vault-sidecar; its log on stderr holds the details")

    def _is_wanted(self, alone_since: float) -> bool:
        """Whether somebody asks for a daemon; waits a moment for that."""
        pause = _IDLE_LOOK_S if time.monotonic() - alone_since < _SOON_S else _IDLE_LOOK_LATER_S
        with self._turn:
            if not self._wanted and not self._closed:
                self._turn.wait(pause)
            return self._wanted

    def _look(self) -> _Stream | None:
        if self._child is not None:
            self._child.poll()  # else it stays in the table of processes after its end
        try:
            return _Stream(self._state_dir)
        except SidecarError:
            return None

    def _bring_up(self) -> _Stream:
        """Find a daemon or start one.

        Raises:
            SidecarError: why there is none.
        """
        give_up = time.monotonic() + self._patience_s
        reason = f"it has not answered within {self._patience_s:g} seconds"
        child: Starting | None = None
        look_first_until = 0.0
        while True:
            stream = self._look()
            if stream is not None:
                return stream
            now = time.monotonic()
            if now > give_up:
                raise Unreachable(reason)
            code = child.poll() if child is not None else None
            if child is None and now >= look_first_until:
                child = self._child = self._start()
            elif child is not None and code is not None:
                if code not in (0, AlreadyServed.exit_code):
                    raise Unreachable(child.last_words())
                if code:  # somebody else's daemon is starting, or leaving
                    reason, look_first_until = child.last_words(), now + _LOOK_FIRST_S
                child = None  # else it was stopped, or handed over
            with self._turn:
                if self._closed:
                    raise Away("the client has gone")
                self._turn.wait(_LOOK_EVERY_S)

    def _hold(self, stream: _Stream) -> None:
        """Until the daemon ends."""
        with self._turn:
            self._stream, self._found, self._wanted, self._failed = stream, stream.found, False, None
            self._turn.notify_all()
            if self._closed:
                stream.cut()
        try:
            self._on_found()
            for line in stream.lines():
                if line.get("changed") == "tools":
                    self._on_tools_changed()
        finally:
            with self._turn:
                self._stream = self._found = None
            stream.close()
            logger.info("the daemon (pid %d) has gone", stream.found.endpoint.pid)

    def _fail(self, reason: str) -> None:
        logger.warning("no daemon can be started: %s", reason)
        with self._turn:
            self._failed, self._failed_at = Away(f"No daemon can be started: {reason.rstrip('.')}."), time.monotonic()
            self._wanted = False
            self._turn.notify_all()


class _Stream:
    """The request that is held open."""

    def __init__(self, state_dir: Path) -> None:
        """Blocks.

        Raises:
            SidecarError: no daemon, or not ours.
        """
        published, key = client.recorded(state_dir)
        self._connection = client.connect(published, key)
        try:
            self._connection.request("GET", RELAY_PATH, headers=client.bearer(key))
            self._response = self._connection.getresponse()
            facts = json.loads(self._response.readline())
            self.found = Found(published, key, int(facts["max_body_bytes"]))
            if self._connection.sock is not None:
                self._connection.sock.settimeout(None)
        except (*BROKEN, KeyError, TypeError) as error:
            self._connection.close()
            raise NotRunning("the daemon ended as it was found") from error

    def lines(self) -> Iterator[dict[str, Any]]:
        """What the daemon says, until it ends. Blocks."""
        try:
            while line := self._response.readline():
                yield json.loads(line)
        except BROKEN:
            return

    def cut(self) -> None:
        """Make a waiting `lines` return."""
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go."""
        self._response.close()
        self._connection.close()
