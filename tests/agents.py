"""Agents over a real vault folder and a scripted provider, without a daemon around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from sidecar.bridge.provider_keys import ProviderKeys
from sidecar.config import AgentsConfig, ProviderConfig
from sidecar.errors import SidecarError
from sidecar.services.agents.agents import Agents, Requester
from sidecar.services.agents.gates import Gates
from sidecar.services.agents.listing import Listing
from sidecar.services.agents.provider import Providers
from sidecar.services.agents.records import Record, Records
from sidecar.services.agents.roster import Roster
from sidecar.services.agents.toolbox import ToolAnswer, ToolSpec
from sidecar.services.agents.turns import Pace
from sidecar.vault.jail import Jail
from tests.bridge.keyrings import Memory
from tests.provider import Provider

SCOUT = """---
name: Scout
emoji: 🔭
description: Finds notes on a topic and lists them with a reason.
model: claude-sonnet-5-5
tools: read_note, search_notes, semantic_search
---
You look through a vault of notes. Answer with paths and one reason each.
"""
PERSONA = "You look through a vault of notes. Answer with paths and one reason each."
P = ParamSpec("P")
T = TypeVar("T")
CLIENT = Requester("local", "mcp", "tests")


def write_agent(vault: Path, name: str = "Scout.md", text: str = SCOUT) -> Path:
    """An agent file."""
    folder = vault / "Agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder / name


def aside(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Blocking calls of ours in a thread, waited for: a test may look at files while its loop runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args, **kwargs).result()


def roster_of(vault: Path) -> tuple[Jail, Roster]:
    vault.mkdir(exist_ok=True)
    jail = Jail(vault)
    return jail, Roster(jail, "Agents", "Agents/Memory.md", lambda _: False)


def pass_time(seconds: float) -> None:
    """Have the clock of the running loop go forward by so much at once."""
    loop = asyncio.get_running_loop()
    clock = loop.time
    setattr(loop, "time", lambda: clock() + seconds)  # noqa: B010 - a method, to a checker of types


class NoWait:
    """Takes note of how long was to be waited, and lets go on."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def __call__(self, delay_s: float) -> None:
        self.waited.append(delay_s)


@dataclass
class Shelf:
    """A toolbox whose tools echo their arguments; `off` are those not offered."""

    names: tuple[str, ...] = ("list_notes", "read_note", "search_notes", "write_note")
    off: set[str] = field(default_factory=set)
    called: list[tuple[str, Mapping[str, Any], str]] = field(default_factory=list)
    text: str = ""
    fails: bool = False

    def offered(self) -> list[ToolSpec]:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
        return [ToolSpec(name, f"Does {name}.", schema) for name in self.names if name not in self.off]

    async def call(self, name: str, arguments: Mapping[str, Any], agent: str) -> ToolAnswer:
        self.called.append((name, arguments, agent))
        return ToolAnswer(self.text or f"{name} of {arguments}", self.fails)


@dataclass
class Rig:
    """Everything a test turns on the agents of one vault."""

    agents: Agents
    vault: Path
    state: Path
    shelf: Shelf
    wait: NoWait
    keyring: Memory
    finished: list[dict[str, Any]]
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list)

    async def report(self, done: float, total: float | None, line: str | None) -> None:
        self.progress.append((done, total, line))

    async def run(self, name: str = "Scout", task: str = "Find heating.", max_turns: int | None = None) -> str:
        return (await self.agents.run(name, task, max_turns, CLIENT, self.report)).text

    async def refusal(self, name: str = "Scout", task: str = "Find heating.", max_turns: int | None = None) -> str:
        with pytest.raises(SidecarError) as refused:
            await self.run(name, task, max_turns)
        return str(refused.value)

    def records(self) -> list[Record]:
        """Newest first."""
        return aside(Records(self.state).newest)

    def begin(self, **given: Any) -> asyncio.Task[str]:
        """A run that goes on by itself."""
        return asyncio.get_running_loop().create_task(self.run(**given))


@asynccontextmanager
async def rig(
    tmp_path: Path,
    provider: Provider | None,
    *,
    kind: str = "openai",
    key: str | None = None,
    environment: Mapping[str, str] | None = None,
    allowed: bool = True,
    text: str = SCOUT,
    pace: Pace | None = None,
    settings: AgentsConfig | None = None,
    **table: Any,
) -> AsyncIterator[Rig]:
    """Agents of a new vault with one agent, who asks `provider`. `key` lies in the keyring."""
    vault, state, backend = tmp_path / "vault", tmp_path / "state", Memory()
    url = {} if provider is None else {"base_url": provider.url_for(kind)}
    tables = {"scripted": ProviderConfig.model_validate({"kind": kind, **url, **table})}
    keys, wait = ProviderKeys(backend), NoWait()
    providers = Providers(settings or AgentsConfig(), tables, environment or {}, keys)

    def prepare() -> tuple[Jail, Listing]:
        state.mkdir(mode=0o700, exist_ok=True, parents=True)
        write_agent(vault, text=text)
        if key is not None:
            keys.store("scripted", key)
        jail, roster = roster_of(vault)
        listing = Listing(roster, Gates(state), providers)
        if allowed:
            for agent in roster.read():
                listing.set_remote(agent.name, True)
        return jail, listing

    jail, listing = await asyncio.to_thread(prepare)
    agents = Agents(listing, providers, Records(state), max_turns=8, pace=pace or Pace(sleep=wait))
    shelf = Shelf()
    agents.toolbox = shelf
    finished: list[dict[str, Any]] = []
    agents.on_finished = finished.append
    try:
        async with agents:
            yield Rig(agents, vault, state, shelf, wait, backend, finished)
    finally:
        jail.close()
