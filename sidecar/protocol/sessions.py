"""Sessions: what ties a client's requests together on a path whose surface wants that.

A session belongs to the caller who opened it, and it dies with the token that
did. It keeps the negotiated revision, the calls in flight, and the client's
standing stream; of what a client says about itself it keeps nothing, so ten
thousand sessions stay small.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from sidecar.bridge.token import Caller
from sidecar.protocol.envelope import Id
from sidecar.protocol.exchange import Exchange
from sidecar.protocol.questions import Questions

MOST_SESSIONS = 10_000
IDLE_S = 30 * 60.0
MOST_STREAMS = 64
MOST_PENDING = 64
"""Messages that wait on a stream; a client that reads nothing for so many is cut off, and lists again."""

Outbox = MemoryObjectReceiveStream[dict[str, Any]]


class Session:
    """One client's."""

    def __init__(self, caller: Caller, valid: Callable[[], bool]) -> None:
        self.id = secrets.token_hex(16)
        self.caller = caller
        self.valid = valid
        """Asked at every use: is the token that opened this session still good?"""
        self.revision: str | None = None
        """What was negotiated; None until the handshake has succeeded."""
        self.calls: set[Exchange] = set()
        """In flight."""
        self.questions = Questions()
        self.uses = 0
        """Requests and streams that are being served now."""
        self.idle_since_s = 0.0
        self._outbox: MemoryObjectSendStream[dict[str, Any]] | None = None

    @property
    def has_stream(self) -> bool:
        """Whether the client listens."""
        return self._outbox is not None

    def post(self, message: dict[str, Any]) -> None:
        """Send on the standing stream. Dropped if there is none; a stream whose client lags behind is ended."""
        if self._outbox is None:
            return
        try:
            self._outbox.send_nowait(message)
        except anyio.WouldBlock:
            self.end_stream()

    @contextmanager
    def stream(self) -> Generator[Outbox]:
        """What is posted during the block, in order; it ends with `end_stream`."""
        send, receive = anyio.create_memory_object_stream[dict[str, Any]](MOST_PENDING)
        self._outbox = send
        try:
            with send, receive:
                yield receive
        finally:
            if self._outbox is send:
                self._outbox = None

    def end_stream(self) -> None:
        """Let the standing stream end once what waits on it is sent."""
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None

    @contextmanager
    def calling(self, call: Exchange) -> Generator[None]:
        """`call` is in flight during the block."""
        self.calls.add(call)
        try:
            yield
        finally:
            self.calls.discard(call)

    def cancel(self, request_id: Id | None) -> None:
        """Stop the call of that id, if it is in flight."""
        for call in list(self.calls):
            # `7` and `"7"` are different ids, and so are `1` and `True`, which `Id` leaves out
            if call.request_id == request_id:
                call.cancel()


class Sessions:
    """The sessions of one path, bounded in number and in idle time."""

    def __init__(
        self, *, most: int = MOST_SESSIONS, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._idle_s = idle_s
        self._clock = clock
        self._all: dict[str, Session] = {}
        self._idle: dict[Session, None] = {}  # in the order in which they became idle
        self._streams = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._all.values()))

    def open(self, caller: Caller, valid: Callable[[], bool]) -> Session | None:
        """A new session; None when there are too many."""
        self._expire()
        if len(self._all) >= self._most:
            return None
        session = Session(caller, valid)
        self._all[session.id] = session
        return session

    def find(self, session_id: str, caller: Caller) -> Session | None:
        """The session of that id, if it is this caller's."""
        self._expire()
        session = self._all.get(session_id)
        if session is None or session.caller != caller or not session.valid():
            return None
        return session

    @contextmanager
    def use(self, session: Session) -> Generator[None]:
        """A session in use does not expire."""
        self._idle.pop(session, None)
        session.uses += 1
        try:
            yield
        finally:
            session.uses -= 1
            if not session.uses and session.id in self._all:
                session.idle_since_s = self._clock()
                self._idle[session] = None

    @contextmanager
    def stream(self, session: Session) -> Generator[Outbox | None]:
        """The session's standing stream during the block; None when too many clients have one."""
        if self._streams >= MOST_STREAMS:
            yield None
            return
        self._streams += 1
        try:
            with session.stream() as outbox:
                yield outbox
        finally:
            self._streams -= 1

    def end(self, session: Session) -> None:
        """End a session: its calls are cancelled, its stream is ended."""
        self._forget(session)
        for call in list(session.calls):
            call.cancel()
        session.end_stream()

    def forget_revoked(self) -> None:
        """Drop the sessions of tokens that are no longer valid. Their calls that have begun are finished."""
        for session in self:
            if not session.valid():
                self._forget(session)

    def end_streams(self) -> None:
        """Let every standing stream end."""
        for session in self:
            session.end_stream()

    def _expire(self) -> None:
        since_s = self._clock() - self._idle_s
        while self._idle and (oldest := next(iter(self._idle))).idle_since_s <= since_s:
            self._forget(oldest)

    def _forget(self, session: Session) -> None:
        self._all.pop(session.id, None)
        self._idle.pop(session, None)
