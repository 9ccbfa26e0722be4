"""A running daemon as the plugin sees it: its methods, and what it tells by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sidecar.daemon.running import Outside, Running
from sidecar.editor import agents, proposals, settings
from sidecar.editor.session import Desk, Method, Tell
from sidecar.editor.shapes import ConnectGet, Nothing, SettingsGiven
from sidecar.editor.state import Facts, StateWatch, state_of
from sidecar.tasks import keep_running

_MOST_SKIPPED = 100

_TOKEN_REPLACED = "The access token was replaced by a command. Every client needs the new one."  # noqa: S105


@dataclass(frozen=True, slots=True)
class Connecting:
    """How clients are set up, in the words of the command `connect`."""

    clients: Callable[[], Sequence[Facts]]
    texts: Callable[[str, str | None, str], Facts]
    """The result of `connect/get` for a client, a transport (None: its first) and the token. Blocks.

    Raises:
        NotFound: there is no such client.
        BadArguments: it can't be set up that way.
    """


class _Talk:
    """What the methods share."""

    def __init__(
        self, running: Running, known: Sequence[str], connecting: Connecting, conceal: Callable[[str], None]
    ) -> None:
        self._running = running
        self._services = running.services
        self._known = known
        self._connecting = connecting
        self._conceal = conceal

    async def status(self) -> Facts:
        facts = await self._running.admin.status()
        return {
            **state_of(facts),
            **{name: facts[name] for name in ("version", "pid", "vault", "generation", "embedder", "vectors")},
            "settings": self.settings(),
            "skipped": facts["skipped"][:_MOST_SKIPPED],
            "skippedInAll": facts["notes"]["skipped"],
            "seen": [
                {"agent": client["agent"], "token": client["token"], "lastSeen": client["last_seen"]}
                for client in facts["clients"]
            ],
        }

    def settings(self) -> Facts:
        services = self._services
        return settings.shown(
            services.preferences.config,
            port=services.address.pinned,
            allow_writes=services.core.switches.allow_writes,
            known=self._known,
        )

    async def change(self, given: SettingsGiven) -> Facts:
        preferences = self._services.preferences
        restart = await preferences.change(settings.values(given, preferences.config, self._known))
        return {"settings": self.settings(), "restart": restart}

    async def token(self, _: Nothing) -> Facts:
        facts = await self._services.tokens.show()
        return {"token": facts["token"], "keptIn": facts["kept_in"]}

    async def rotate(self, _: Nothing) -> Facts:
        facts = await self._services.tokens.rotate()
        return {"keptIn": facts["kept_in"], "revoked": facts["revoked"]}

    async def clients(self, _: Nothing) -> Facts:
        return {"clients": self._connecting.clients()}

    async def connect(self, asked: ConnectGet) -> Facts:
        facts = await self._services.tokens.show()
        return await asyncio.to_thread(self._connecting.texts, asked.client, asked.transport, facts["token"])

    async def rebuild(self, _: Nothing) -> Facts:
        await self._services.upkeep.rebuild()
        return {}

    def methods(self) -> Mapping[str, Method]:
        """What it can do, by name."""
        return {
            "token/get": Method(Nothing, self.token),
            "token/rotate": Method(Nothing, self.rotate),
            "settings/set": Method(SettingsGiven, self.change),
            "connect/list": Method(Nothing, self.clients),
            "connect/get": Method(ConnectGet, self.connect),
            "index/rebuild": Method(Nothing, self.rebuild),
            **proposals.methods(self._running.admin.proposals),
            **agents.methods(self._services.core.agents, self._conceal),
        }


@asynccontextmanager
async def open_desk(
    running: Running,
    known: Sequence[str],
    connecting: Connecting,
    tell: Tell,
    touched: asyncio.Event,
    conceal: Callable[[str], None],
) -> AsyncGenerator[Desk]:
    """The desk of a daemon that listens. While the block lasts, the plugin is told of every change.

    `known`: the names of all surfaces there are. `touched` is set when the index may have got on;
    `conceal` is told keys that no log may show.
    """
    talk = _Talk(running, known, connecting, conceal)
    admin = running.admin
    watch = StateWatch(admin.status, admin.wait, lambda state: tell("state", state), touched)

    def outside(what: Outside) -> None:
        if what == "settings":
            tell("settings/changed", {"settings": talk.settings()})
        elif what == "token":
            tell("notice", {"code": "token-replaced", "text": _TOKEN_REPLACED})
        touched.set()

    running.on_outside = outside
    decided = asyncio.Event()
    running.services.core.proposals.on_changed = decided.set
    agents.tell_changes(running.services.core.agents, tell)
    watching = [
        asyncio.create_task(keep_running("telling the editor of changes", watch.run)),
        asyncio.create_task(
            keep_running("telling of proposals", lambda: proposals.tell_changes(admin.proposals, decided, tell))
        ),
    ]
    try:
        started = {
            "port": running.services.address.listening,
            "url": running.url,
            "settings": talk.settings(),
        }
        desk = Desk(talk.status, talk.methods(), started, running.stopped, lambda: running.taken_over_by == "bridge")
        yield desk
    finally:
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
