"""One conversation with the plugin: `hello`, `start`, the methods of a running daemon, the end.

The daemon lives as long as the pipe: when the plugin closes its end, or dies,
everything stops, in whatever phase it is. `hello` is answered before anything
heavy is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sidecar import __version__
from sidecar.bridge.pipe import Pipe
from sidecar.editor import diagnostics, messages
from sidecar.editor.messages import BadMessage, Request
from sidecar.editor.problems import Problem, Refusal, of_error, problem, unavailable
from sidecar.errors import AlreadyServed, BadArguments, BadPath, SidecarError

if TYPE_CHECKING:  # they bring pydantic
    from sidecar.arguments import Shape
    from sidecar.editor.shapes import SettingsGiven

logger = logging.getLogger(__name__)

PROTOCOL = 1

_MOST_REQUESTS = 64
"""Under way at once. What a person does in a window is a few."""

Facts = Mapping[str, Any]
Tell = Callable[[str, Facts], None]
"""Sends an event: its name and its params. On the loop."""

OF_A_RUNNING_DAEMON: frozenset[str] = frozenset(
    {
        *("token/get", "token/rotate", "settings/set", "connect/list", "connect/get", "index/rebuild"),
        *("agents/list", "agents/setRemote", "agents/run", "runs/list", "runs/cancel", "provider/setKey"),
        *("proposals/list", "proposals/show", "proposals/apply", "proposals/reject"),
    }
)
"""Methods that mean nothing before the start."""


@dataclass(frozen=True, slots=True)
class Method:
    """What a running daemon does for the plugin."""

    params: type[Shape]
    run: Callable[[Any], Awaitable[Facts]]
    """Called with checked params."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A running daemon, as far as the plugin has to do with it."""

    status: Callable[[], Awaitable[Facts]]
    methods: Mapping[str, Method]
    started: Facts
    """The result of `start`."""
    stopped: asyncio.Event
    """Set when the daemon should end, by whomever."""
    is_taken_over: Callable[[], bool]
    """Whether another window asked for that."""


class OpenDesk(Protocol):
    """Takes the vault and serves it while the block lasts."""

    def __call__(self, vault: str, given: SettingsGiven, tell: Tell) -> AbstractAsyncContextManager[Desk]:
        """Events are told from the moment the block is entered on."""
        ...


class Session:
    """Use it once, by `run`."""

    def __init__(
        self,
        pipe: Pipe,
        open_desk: OpenDesk,
        *,
        features: tuple[str, ...],
        log_tail: Callable[[int], list[str]],
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called, in any thread and perhaps twice, when the end begins: it sees to it that it comes."""
        self._pipe = pipe
        self._open_desk = open_desk
        self._features = features
        self._log_tail = log_tail
        self._on_end = on_end
        self._vault: str | None = None
        self._serving: asyncio.Task[None] | None = None
        self._desk: Desk | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Until the plugin wants the end, or something else brings it; the exit code."""
        loop = asyncio.get_running_loop()

        def line(content: bytes | None) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._take, content)

        def end() -> None:
            self._on_end()  # first: the loop may be held up
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._over.set)

        self._pipe.read(line, end)
        await self._over.wait()
        self._on_end()
        if self._serving is not None:
            if self._desk is not None:
                self._desk.stopped.set()
            else:
                self._serving.cancel()
            await asyncio.wait((self._serving,))
        await self._end_requests()
        return self._code

    def stop(self) -> None:
        """End as if a command had asked for it."""
        if self._desk is not None:
            self._desk.stopped.set()
        else:
            self._tell_end(_stopped())
            self._over.set()

    def tell(self, name: str, params: Facts) -> None:
        """Send an event. Of several states that wait for a reader the last one is sent."""
        line = messages.event(name, params)
        self._pipe.send(line, slot=name if name == "state" else None, needed=name != "log")

    @property
    def _is_ending(self) -> bool:
        return self._over.is_set() or (self._desk is not None and self._desk.stopped.is_set())

    # messages

    def _take(self, line: bytes | None) -> None:
        try:
            request = messages.read(line)
        except BadMessage as bad:
            self._pipe.send(messages.failure(bad.id, bad))
            return
        if request is None or self._is_ending:
            return
        if len(self._requests) >= _MOST_REQUESTS:
            refusal = Refusal(problem("busy", "too many requests are under way", "Try again later."))
            self._pipe.send(messages.failure(request.id, refusal))
            return
        task = asyncio.create_task(self._answer(request))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _answer(self, request: Request) -> None:
        try:
            result = await self._done(request)
        except Exception as error:
            self._pipe.send(messages.failure(request.id, _refusal(error, request.method)))
            return
        if result is not None:
            self._pipe.send(messages.success(request.id, result))
        if request.method == "shutdown":
            self._over.set()

    async def _done(self, request: Request) -> Facts | None:
        """The result; None: it comes later."""
        match request.method:
            case "hello":
                return self._hello(request.params)
            case "start":
                self._start(request)
                return None
            case "status":
                _check("Nothing", request)
                return await self._status()
            case "log/tail":
                return {"lines": self._log_tail(_check("LogTail", request).lines)}
            case "diagnostics":
                _check("Nothing", request)
                return {"text": diagnostics.text(await self._status(), self._log_tail(diagnostics.LINES))}
            case "shutdown":
                return {}
            case name if name not in OF_A_RUNNING_DAEMON:
                raise Refusal(problem("unknown-method", "there is no such method"), -32601)
            case name if self._desk is None:
                raise Refusal(problem("not-started", f"'{name}' needs a running daemon; 'start' comes first"))
            case name:
                method = self._desk.methods.get(name)
                if method is None:
                    raise unavailable(name)
                return await method.run(_checked(method.params, request))

    def _hello(self, params: Facts) -> Facts:
        protocol, vault, plugin = (params.get(name) for name in ("protocol", "vault", "plugin"))
        if type(protocol) is int and protocol != PROTOCOL:
            reason = f"the sidecar speaks protocol {PROTOCOL}, this plugin {protocol}"
            older = "plugin" if protocol < PROTOCOL else "sidecar"
            raise Refusal(problem("protocol", reason, f"Update the {older}."))
        is_complete = isinstance(plugin, str) and isinstance(vault, str) and vault and type(protocol) is int
        if not is_complete or len(params) > 3:
            raise BadArguments("hello takes the protocol, the plugin's version and the path of the vault")
        if self._serving is not None:
            raise Refusal(problem("protocol", "'hello' comes before 'start'"))
        self._vault = str(vault)
        return {
            "protocol": PROTOCOL,
            "version": __version__,
            "pid": os.getpid(),
            "features": list(self._features),
        }

    async def _status(self) -> Facts:
        if self._desk is not None:
            return await self._desk.status()
        from sidecar.editor.state import starting

        nothing = dict.fromkeys(("settings", "embedder", "vectors"))
        facts = {"version": __version__, "pid": os.getpid(), "vault": self._vault or "", "generation": 0}
        return {**starting(), **nothing, **facts, "skipped": [], "skippedInAll": 0, "seen": []}

    # the daemon

    def _start(self, request: Request) -> None:
        if self._vault is None:
            raise Refusal(problem("protocol", "'hello' comes before 'start'"))
        if self._serving is not None:
            raise Refusal(problem("conflict", "it was started already"))
        given = _check("Start", request).settings
        self._serving = asyncio.create_task(self._serve(request, self._vault, given), name="serving")

    async def _serve(self, request: Request, vault: str, given: SettingsGiven) -> None:
        """Own the daemon from its start to its end, whoever wants it."""
        try:
            async with self._open_desk(vault, given, self.tell) as desk:
                self._desk = desk
                self._pipe.send(messages.success(request.id, desk.started))
                await desk.stopped.wait()
                if not self._over.is_set():
                    self._tell_end(_taken_over() if desk.is_taken_over() else _stopped())
                await self._end_requests()
        except Exception as error:
            self._code = error.exit_code if isinstance(error, AlreadyServed) else 1
            refusal = _refusal(error, request.method)
            if self._desk is None:
                self._pipe.send(messages.failure(request.id, refusal))
            else:
                self._tell_end(refusal.problem)
        finally:
            self._over.set()

    def _tell_end(self, why: Problem) -> None:
        self.tell("ending", {"problem": why})

    async def _end_requests(self) -> None:
        """Call off what is under way: what it works with is about to close."""
        requests = [task for task in self._requests if task is not asyncio.current_task()]
        for task in requests:
            task.cancel()
        if requests:
            await asyncio.wait(requests)


def _check(shape: str, request: Request) -> Any:
    """The params of a request as the shape of that name; the shapes take long to load, and `hello` needs none."""
    from sidecar.editor import shapes

    return _checked(getattr(shapes, shape), request)


def _checked(shape: type[Shape], request: Request) -> Any:
    from sidecar import arguments

    return arguments.check(shape, request.params, owner=request.method)


def _refusal(error: Exception, method: str) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, SidecarError):
        logger.error("the method %s failed", method, exc_info=error)
    return Refusal(of_error(error), -32602 if isinstance(error, (BadArguments, BadPath)) else -32000)


def _taken_over() -> Problem:
    return problem(
        "taken-over", "another window has taken this vault over", "Turn the server on again to take it back."
    )


def _stopped() -> Problem:
    return problem("stopped", "the sidecar was stopped by a command or by the system", "Turn the server on again.")
