"""A small fixed surface, and a listener around it on a real socket: what web and protocol tests run against."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from mcp.server.lowlevel import Server
from pydantic import Field

from sidecar.arguments import Shape
from sidecar.bridge import identity
from sidecar.bridge.token import Caller, Keys
from sidecar.contract import Call, Route, Surface, Text, Tool, single
from sidecar.errors import NotFound
from sidecar.protocol.http import McpPath
from sidecar.protocol.server import build_server
from sidecar.protocol.sessions import Sessions
from sidecar.services.core import Core
from sidecar.web.admin import AdminActions, Mode
from sidecar.web.admin_access import AccessActions
from sidecar.web.admin_agents import AgentsActions
from sidecar.web.admin_databases import DatabaseActions
from sidecar.web.admin_knowledge import KnowledgeActions
from sidecar.web.admin_notes import NotesActions
from sidecar.web.admin_proposals import ProposalActions
from sidecar.web.answers import Facts
from sidecar.web.app import App, Limits, build_app
from sidecar.web.listener import Listener, bind
from sidecar.web.rest import handler

PATIENCE_S = 60.0
T = TypeVar("T")
SECRET_PATH = "/home/somebody/vault/Secret.md"
INSTANCE = "0123456789abcdef"


@dataclass
class Lab:
    """Stands where the services stand; the lab's tools work on it."""

    gate_open: bool = False
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0
    inside: int = 0
    """Calls of `slow` that wait."""
    flooded: int = 0
    """Reports that `flood` got rid of, each of 64 KiB."""

    @property
    def core(self) -> Core:
        return cast("Core", self)


def lab_of(core: Core) -> Lab:
    """The lab behind the facade."""
    return cast("Lab", core)


class EchoArgs(Shape):
    """echo"""

    text: str = Field(description="What to say.")


class AddArgs(Shape):
    """add"""

    a: int = Field(ge=0, le=100, description="A number.")
    b: int = Field(1, ge=0, le=100, description="Another.")


class Sum(Shape):
    """Result of add."""

    total: int
    remark: str | None


class WorkArgs(Shape):
    """work"""

    steps: int = Field(2, ge=0, le=1000, description="How many reports.")


class SlowArgs(Shape):
    """slow"""

    reports: int = Field(0, ge=0, le=10, description="How many reports before the wait.")
    after: int = Field(0, ge=0, le=10, description="How many reports after the wait.")


class NoArgs(Shape):
    """For tools without arguments."""


async def echo(core: Core, args: EchoArgs, call: Call) -> Text:
    lab_of(core).calls += 1
    return Text(args.text, {"lab/length": len(args.text)})


async def add(core: Core, args: AddArgs, call: Call) -> Sum:
    return Sum(total=args.a + args.b, remark=None)


async def refuse(core: Core, args: NoArgs, call: Call) -> Text:
    raise NotFound("There is no note 'Plan.md'.")


async def crash(core: Core, args: NoArgs, call: Call) -> Text:
    raise RuntimeError(f"cannot open {SECRET_PATH}")


async def slow(core: Core, args: SlowArgs, call: Call) -> Text:
    lab = lab_of(core)
    lab.inside += 1
    try:
        for step in range(args.reports):
            await call.report(step + 1, None, None)
        lab.entered.set()
        await lab.leave.wait()
        for step in range(args.after):
            await call.report(args.reports + step + 1, None, None)
    except asyncio.CancelledError:
        lab.cancelled.set()
        raise
    finally:
        lab.inside -= 1
    return Text("done")


async def who(core: Core, args: NoArgs, call: Call) -> Text:
    return Text(f"{call.caller.agent_id} of {call.caller.org}")


async def work(core: Core, args: WorkArgs, call: Call) -> Text:
    for step in range(1, args.steps + 1):
        await call.report(step, args.steps, "half way" if 2 * step == args.steps else None)
    return Text("done")


async def flood(core: Core, args: NoArgs, call: Call) -> Text:
    lab = lab_of(core)
    try:
        while True:
            await call.report(lab.flooded, None, "x" * (1 << 16))
            lab.flooded += 1
            await asyncio.sleep(0)
    finally:
        lab.cancelled.set()


async def large(core: Core, args: NoArgs, call: Call) -> Text:
    lab_of(core).calls += 1
    return Text("x" * (8 << 20))


def _gate(core: Core) -> bool:
    return lab_of(core).gate_open


SURFACE = Surface(
    name="lab",
    instructions="Tools for tests.",
    tools=(
        Tool("echo", "Say it back.", EchoArgs, None, echo),
        Tool("add", "Add two numbers.", AddArgs, Sum, add),
        Tool("refuse", "Always a tool error.", NoArgs, None, refuse),
        Tool("crash", "Always a mistake.", NoArgs, None, crash),
        Tool("slow", "Waits until it may go on.", SlowArgs, None, slow, read_only=False),
        Tool("who", "Who is calling.", NoArgs, None, who),
        Tool("work", "Reports progress.", WorkArgs, None, work),
        Tool("flood", "Reports without end.", NoArgs, None, flood),
        Tool("large", "Eight megabytes.", NoArgs, None, large),
        Tool("gated", "There while the gate is open.", EchoArgs, None, echo, offered=_gate),
    ),
)

CLAMPING = Surface(
    name="clamping",
    instructions="Tools that clamp.",
    tools=(Tool("add", "Add two numbers.", AddArgs, Sum, add),),
    numbers="clamp",
)


async def well(core: Core, args: NoArgs, call: Call) -> Text:
    return Text("OK")


ROUTES = (
    Route("/lab/api/well", NoArgs, None, well),
    Route("/lab/api/echo", EchoArgs, None, echo),
    Route("/lab/api/add", AddArgs, Sum, add),
    Route("/lab/api/work", WorkArgs, None, work),
    Route("/lab/api/who", NoArgs, None, who),
    Route("/lab/api/refuse", NoArgs, None, refuse),
    Route("/lab/api/crash", NoArgs, None, crash),
)

STATEFUL = replace(SURFACE, name="stateful", sessions="required")


@dataclass
class Running:
    """The listener and everything a test turns on it."""

    lab: Lab
    app: App
    port: int
    token: str
    local_key: bytes
    keys: Keys
    mounts: dict[str, McpPath]
    server: Server[Any]
    stateful: Server[Any]
    sessions: Sessions
    refused: list[tuple[str, int, str]]
    served: list[tuple[Caller, str]]
    asked: list[tuple[Any, ...]]
    loop: asyncio.AbstractEventLoop
    listener: Listener
    left: tuple[int, int] = (-1, -1)
    """Connections and tasks that were left when the listener had ended."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def stateful_url(self) -> str:
        """Of the path that requires sessions."""
        return f"{self.url}/stateful"

    def rotate(self) -> str:
        """Replace the token as the daemon does; the new one. To be called on the loop."""
        new = secrets.token_urlsafe(40)
        self.keys.replace(new)
        self.app.token_changed()
        return new

    def tools_changed(self) -> None:
        """Tell the clients, as the daemon does when a tool comes or goes."""
        asyncio.run_coroutine_threadsafe(self.app.tools_changed(), self.loop).result(PATIENCE_S)

    def on_loop(self, call: Callable[[], T]) -> T:
        """Run `call` in the listener's thread and wait for it."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as failed:
                done.set_exception(failed)

        self.loop.call_soon_threadsafe(run)
        return done.result(PATIENCE_S)

    def pass_time(self, seconds: float) -> None:
        """Have the listener's clock go forward by so much at once."""
        clock = self.loop.time
        self.on_loop(lambda: setattr(self.loop, "time", lambda: clock() + seconds))


@asynccontextmanager
async def running(
    *,
    limits: Limits | None = None,
    allowed_origins: tuple[str, ...] = ("app://obsidian.md",),
    most_connections: int | None = None,
    ping_after_s: float = 15.0,
    sessions: Sessions | None = None,
    more: Mapping[str, McpPath] | None = None,
) -> AsyncGenerator[Running]:
    """The lab surface, served, and `more` paths beside it. Leave the block in the task that entered it."""
    lab = Lab()
    token, local_key = secrets.token_urlsafe(40), secrets.token_urlsafe(40).encode()
    keys = Keys(token, local_key)
    sock = bind(0)
    port: int = sock.getsockname()[1]
    server = build_server(single(SURFACE), lab.core)
    mounts = {"/mcp": McpPath(server, ping_after_s=ping_after_s)}
    stateful = build_server(single(STATEFUL), lab.core)
    sessions = Sessions() if sessions is None else sessions  # an empty one is false
    mounts["/mcp/stateful"] = McpPath(stateful, sessions, ping_after_s=ping_after_s)
    mounts["/mcp/clamping"] = McpPath(build_server(single(CLAMPING), lab.core))
    mounts |= more or {}
    refused: list[tuple[str, int, str]] = []
    served: list[tuple[Caller, str]] = []
    asked: list[tuple[Any, ...]] = []
    app = build_app(
        port=port,
        keys=keys,
        mounts=mounts,
        prove=lambda nonce, port: identity.prove(local_key, nonce, port, INSTANCE),
        instance=INSTANCE,
        admin=_actions(asked),
        allowed_origins=allowed_origins,
        limits=limits or Limits(),
        on_refused=lambda *facts: refused.append(facts),
        on_served=lambda *facts: served.append(facts),
        rest={route.path: handler(route, lab.core) for route in ROUTES},
    )
    before = len(asyncio.all_tasks())
    async with Listener(app, sock, most_connections=most_connections) as listener:
        lab_running = Running(
            lab=lab,
            app=app,
            port=port,
            token=token,
            local_key=local_key,
            keys=keys,
            mounts=mounts,
            server=server,
            stateful=stateful,
            sessions=sessions,
            refused=refused,
            served=served,
            asked=asked,
            loop=asyncio.get_running_loop(),
            listener=listener,
        )
        yield lab_running
    lab_running.left = listener.connections, len(asyncio.all_tasks()) - before


def wait_until(condition: Callable[[], bool], *, within_s: float = PATIENCE_S) -> None:
    """Look again and again, for things that announce themselves to nobody."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@contextmanager
def in_thread(**options: Any) -> Generator[Running]:
    """`running`, in a thread with a loop of its own, for tests that speak over blocking sockets."""
    ready: Future[tuple[Running, asyncio.Event]] = Future()

    async def own() -> None:
        try:
            async with running(**options) as lab:
                end = asyncio.Event()
                ready.set_result((lab, end))
                await end.wait()
        except BaseException as failed:
            if ready.done():
                raise
            ready.set_exception(failed)

    thread = threading.Thread(target=lambda: asyncio.run(own()))
    thread.start()
    lab, end = ready.result(PATIENCE_S)
    try:
        yield lab
    finally:
        lab.loop.call_soon_threadsafe(end.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _actions(asked: list[tuple[Any, ...]]) -> AdminActions:
    async def status() -> Facts:
        asked.append(("status",))
        return {"phase": "ready"}

    async def wait(after: int, within_s: float) -> Facts:
        asked.append(("wait", after, within_s))
        return {}

    async def search(query: str, k: int, mode: Mode) -> Facts:
        asked.append(("search", query, k, mode))
        if query == "missing":
            raise NotFound("There is nothing.")
        return {"results": []}

    async def stop() -> Facts:
        asked.append(("stop",))
        return {"stopping": True}

    async def rebuild() -> Mapping[str, Any]:
        asked.append(("rebuild",))
        return {"rebuilding": True}

    def told(word: str) -> Callable[..., Awaitable[Facts]]:
        async def act(*given: Any) -> Facts:
            asked.append((word, *given))
            return {"done": word}

        return act

    words = ("token", "tokens", "rotate", "add", "remove", "endpoint", "pin")
    access = AccessActions(**{word: told(word) for word in words})
    notes = NotesActions(allow_writes=told("allow_writes"), restore=told("restore"))
    proposals = ProposalActions(*map(told, ("listed", "show", "apply", "reject")))
    knowledge = KnowledgeActions(**{word: told(word) for word in ("listed", "shown", "remove", "release", "export")})
    databases = DatabaseActions(status=told("databases"), add=told("add_database"), remove=told("remove_database"))
    agents = AgentsActions(**{word: told(word) for word in ("listed", "remote", "runs", "cancel")})
    return AdminActions(
        status=status,
        search=search,
        stop=stop,
        rebuild=rebuild,
        wait=wait,
        access=access,
        notes=notes,
        proposals=proposals,
        knowledge=knowledge,
        digest=told("digest"),
        databases=databases,
        agents=agents,
    )
