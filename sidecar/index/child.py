"""One run of the vector worker, seen from the daemon: start it, ask it, notice that it ended or hangs, end it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sidecar.index import wire
from sidecar.index.process import environment_of_child, how_it_ended
from sidecar.index.wire import Array, Line, Message

logger = logging.getLogger(__name__)

_LOG_NAME: Final = "worker.log"
_LOG_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker ended, as the end of a sentence that begins with "the vector worker".

    off      it can't work until somebody does something, such as getting a model
    away     something outside is in the way; later it may work
    damaged  the store can't be used
    failed   it ended, hung or had an error
    closed   it was asked to end
    """

    kind: Literal["off", "away", "damaged", "failed", "closed"]
    reason: str
    stores: frozenset[int] = frozenset()
    """Numbers of the stores it was doing something with, which may be why."""


class Ended(Exception):
    """A call came to nothing because the process ended."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Declined(Ended):
    """A store can't be opened now, for a reason outside of it; the process goes on."""


@dataclass(slots=True)
class _Call:
    operation: str
    line: Line
    store: int | None
    began: float
    answer: asyncio.Future[Message]


class Child:
    """A started process. What goes wrong with a call ends it, because what it would do next is not known; only a store
    that can't be opened for a reason outside of it is declined."""

    def __init__(self, process: Process, silent_s: float, slow_s: float, on_report: Callable[[str], None]) -> None:
        self._silent_s = silent_s
        self._slow_s = slow_s
        self._process = process
        self._on_report = on_report
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, _Call] = {}
        self._last_sign: dict[str, float] = {}
        self._last_number = 0
        self._at: int | None = None
        """The store it has in hand, if it says so."""
        self._failure: Failure | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._answered = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="vector worker")

    @classmethod
    async def start(
        cls,
        folder: Path,
        environment: Mapping[str, str],
        *,
        silent_s: float,
        slow_s: float,
        on_report: Callable[[str], None],
    ) -> Child:
        """Start the process; it does nothing before it is asked. What its libraries print goes to a file in `folder`.

        A line of it that has work and says nothing for `silent_s`, or for `slow_s` at one of `wire.SLOW_OPERATIONS`,
        means that it hangs; then it is killed.

        Raises:
            OSError: the folder or the process can't be made.
        """
        log = await asyncio.to_thread(_open_log, folder)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-X", "faulthandler", "-m", "sidecar.index.worker",
                stdin=PIPE, stdout=PIPE, stderr=log,
                cwd=folder,  # libraries look for settings in the present folder; this one is ours
                env={
                    **environment_of_child(environment),
                    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime looks up its maker's host as soon as it is imported
                },
                start_new_session=True,  # so that Ctrl-C in a terminal does not reach it, not even while it starts
            )  # fmt: skip
        finally:
            os.close(log)
        return cls(process, silent_s, slow_s, on_report)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def failure(self) -> Failure | None:
        """Why it ended or is being ended; None while it works."""
        return self._failure

    def waiting(self, line: Line) -> int:
        """Calls of a line without an answer yet."""
        return sum(call.line == line for call in self._calls.values())

    def is_late(self, line: Line, patience_s: float) -> bool:
        """Whether a call of this line has waited for longer than that."""
        now = self._loop.time()
        return any(call.line == line and now - call.began > patience_s for call in self._calls.values())

    def begin(
        self, operation: str, arrays: Sequence[Array] = (), *, head: Mapping[str, Any] | None = None
    ) -> asyncio.Future[Message]:
        """Send a call. When the process ends before it answers, the future raises `Ended`."""
        given = head or {}
        line = wire.line_of(operation, urgent=bool(given.get("urgent")))
        store = int(given["store"]) if operation in wire.STORE_OPERATIONS else None
        call = _Call(operation, line, store, self._loop.time(), self._loop.create_future())
        if self._failure:
            call.answer.set_exception(Ended(self._failure))
            return call.answer
        self._last_number += 1
        self._calls[self._last_number] = call
        assert self._process.stdin is not None
        # not awaited: the number of calls is bounded, and a process that does not read must not hold up the caller
        self._process.stdin.write(wire.encode({**given, "id": self._last_number, "op": operation}, arrays))
        self._look_out()
        return call.answer

    async def call(self, operation: str, arrays: Sequence[Array] = (), **head: Any) -> Message:
        """Send a call and wait for its answer.

        Raises:
            Ended: the process ended, or refused and was ended.
            Declined: a store was not opened.
        """
        return await self.begin(operation, arrays, head=head)

    async def close_store(self, number: int) -> None:
        """Have a store closed once nothing is asked of it any more.

        Raises:
            Ended: the process ended meanwhile.
        """
        while any(call.store == number for call in self._calls.values()):
            self._answered.clear()
            await self._answered.wait()
        await self.call("close", store=number)

    async def ended(self) -> Failure:
        """Wait for its end; why it ended."""
        await asyncio.shield(self._reading)
        assert self._failure is not None
        return self._failure

    def end(self, failure: Failure) -> None:
        """Kill it. The first reason counts."""
        self._failure = self._failure or failure
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self, within_s: float) -> None:
        """Let it finish the piece it is at and close its store; kill it when that takes too long."""
        self._failure = self._failure or Failure("closed", "was ended")
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(within_s):
                await asyncio.shield(self._reading)
        except TimeoutError:
            logger.warning("the vector worker did not end in time and was killed")
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._reading

    async def _read(self) -> None:
        """Take in answers until there are no more; then everybody who waits is told."""
        assert self._process.stdout is not None
        stream = self._process.stdout
        try:
            while True:
                head, arrays = wire.sizes(await stream.readexactly(wire.PREFIX_BYTES))
                data = await stream.readexactly(head + arrays)
                self._take(wire.decode(data[:head], data[head:]))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except (wire.Garbled, KeyError, TypeError, ValueError) as garbled:
            self.end(Failure("failed", f"sent what is no answer ({type(garbled).__name__})"))
        finally:
            code = await self._process.wait()
            self._failure = self._failure or Failure("failed", how_it_ended(code), self._stores_in_hand)
            if self._watch:
                self._watch.cancel()
            calls, self._calls = self._calls, {}
            self._answered.set()
            for call in calls.values():
                if not call.answer.done():
                    call.answer.set_exception(Ended(self._failure))
                    call.answer.exception()  # it may be that nobody waits any more

    def _take(self, message: Message) -> None:
        head = message.head
        if "id" in head:
            call = self._calls.pop(int(head["id"]))
            self._answered.set()
            self._last_sign[call.line] = self._loop.time()
            if "refused" in head:
                at = frozenset[int]() if call.store is None else frozenset((call.store,))
                failure = Failure(head["refused"], str(head["reason"]), at)
                if head.get("goes_on"):
                    if not call.answer.done():
                        call.answer.set_exception(Declined(failure))
                    return
                self._calls[int(head["id"])] = call
                self.end(failure)
            elif not call.answer.done():
                call.answer.set_result(message)
        elif "at" in head:
            self._at = head["at"]
        elif "sign" in head:
            self._last_sign[str(head["sign"])] = self._loop.time()
        elif "report" in head:
            self._last_sign["work"] = self._loop.time()
            self._on_report(str(head["report"]))
        elif "log" in head:
            logging.getLogger(str(head["name"])).log(int(head["log"]), "%s", head["text"])

    @property
    def _stores_in_hand(self) -> frozenset[int]:
        """Those of the first call of each line: the others have not begun. Where the process says it, the one."""
        if self._at is not None:
            return frozenset((self._at,))
        return frozenset(call.store for call in self._first_of_each_line() if call.store is not None)

    def _look_out(self) -> None:
        """See to it that silence is noticed: kill what hangs, look again when it could be so far."""
        due = [self._due(call) for call in self._first_of_each_line()]
        if not due:
            return
        now = self._loop.time()
        when, silent_s = min(due)
        if when <= now:
            self.end(Failure("failed", f"did not answer for {silent_s:g} s", self._stores_in_hand))
        elif self._watch is None or not now < self._watch.when() <= when:
            if self._watch:
                self._watch.cancel()
            self._watch = self._loop.call_at(when, self._look_out)

    def _due(self, call: _Call) -> tuple[float, float]:
        """When its line has been silent for too long, and how long that is."""
        silent_s = self._slow_s if call.operation in wire.SLOW_OPERATIONS else self._silent_s
        return max(call.began, self._last_sign.get(call.line, 0.0)) + silent_s, silent_s

    def _first_of_each_line(self) -> list[_Call]:
        """What the process is at; it does the calls of a line in their order."""
        firsts: dict[Line, _Call] = {}
        for call in self._calls.values():
            firsts.setdefault(call.line, call)
        return list(firsts.values())


def _open_log(folder: Path) -> int:
    """The folder, if need be, and in it the file that the worker's libraries print to. A descriptor."""
    folder.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(folder / _LOG_NAME, flags, 0o600)
    if os.fstat(descriptor).st_size > _LOG_BYTES:
        os.ftruncate(descriptor, 0)
    return descriptor
