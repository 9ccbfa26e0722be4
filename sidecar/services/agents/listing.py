"""The agents as they would run now: what their files say, with what the settings and the gates add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.errors import NotFound, NotRunnable
from sidecar.services.agents.definition import Definition
from sidecar.services.agents.gates import Gate, Gates, gate_of
from sidecar.services.agents.provider import Providers
from sidecar.services.agents.roster import Roster
from sidecar.vault.paths import echo


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent as it would run now."""

    agent: Definition
    model: str | None
    provider: str | None
    remote: bool
    """Clients may run it."""
    changed: bool
    """Its text is not the one that was allowed."""

    def facts(self) -> dict[str, Any]:
        """JSON as it is."""
        agent = self.agent
        return {
            "name": agent.name,
            "emoji": agent.emoji,
            "description": agent.description,
            "model": self.model,
            "provider": self.provider,
            "path": agent.path,
            "remote": self.remote,
            "changed": self.changed,
            "problem": agent.problem,
            "hints": list(agent.hints),
        }


class Listing:
    """Blocks: call it in a lane, or in a command."""

    def __init__(self, roster: Roster, gates: Gates, providers: Providers) -> None:
        self._roster = roster
        self._gates = gates
        self._providers = providers

    @property
    def folder(self) -> str:
        """Where the agent files are."""
        return self._roster.folder

    def listed(self) -> list[Listed]:
        """All agents as their files are now, sorted by name without case.

        Raises:
            Unreadable: the folder can't be read.
        """
        gates = self._gates.read()
        return [self._as_listed(agent, gates) for agent in self._roster.read()]

    def find(self, name: str) -> Listed:
        """One agent, as `Roster.find`.

        Raises:
            NotFound: there is none.
            Unreadable: the folder can't be read.
        """
        return self._as_listed(self._roster.find(name), self._gates.read())

    def set_remote(self, name: str, on: bool) -> None:
        """Let clients run an agent as it is now, or no longer. Only the holder of the lock may call it.

        Raises:
            NotFound: there is no such agent.
            NotRunnable: it has a mistake and is not switched on.
            Unreadable: the disk refused.
        """
        if not on and self._gates.forbid(name):
            return
        try:
            agent = self._roster.find(name)
        except NotFound as error:  # a client would be told of a tool
            raise NotFound(f"There is no agent '{echo(name)}'. 'vault-sidecar agents list' names them.") from error
        if on and agent.problem is not None:
            raise NotRunnable(f"'{agent.name}' can't run: {agent.problem}.")
        if on:
            self._gates.allow(agent)

    def facts(self) -> dict[str, Any]:
        """All of it, JSON as it is.

        Raises:
            Unreadable: the folder can't be read.
        """
        return {"folder": self.folder, "agents": [each.facts() for each in self.listed()]}

    def _as_listed(self, agent: Definition, gates: Mapping[str, Gate]) -> Listed:
        gate = gate_of(gates, agent)
        is_changed = gate is not None and gate.checksum != agent.checksum
        model, provider = self._providers.model_for(agent), self._providers.name_for(agent)
        return Listed(agent, model, provider, gate is not None, is_changed)
