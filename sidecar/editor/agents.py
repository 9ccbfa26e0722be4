"""Agents in the editor: which there are, who may run them, running one for another plugin, and the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sidecar.editor.session import Facts, Method, Tell
from sidecar.editor.shapes import Nothing, OfId, RunAgent, RunsList, SetKey, SetRemote
from sidecar.services.agents.agents import Agents, Requester
from sidecar.services.agents.provider import Usual

_OWNER: Final = "local"


def methods(agents: Agents, conceal: Callable[[str], None]) -> Mapping[str, Method]:
    """By name. A run takes the same way as a client's. `conceal` is told keys that no log may show."""

    async def listed(_: Nothing | None = None) -> Facts:
        rows = [each.facts() for each in await agents.listed()]
        return {"folder": agents.folder, "agents": rows, "provider": _provider(await agents.usual_provider())}

    async def set_remote(asked: SetRemote) -> Facts:
        await agents.set_remote(asked.name, asked.on)
        return await listed()

    async def run(asked: RunAgent) -> Facts:
        requester = Requester(_OWNER, "plugin", asked.client)
        turns = None if asked.maxTurns is None else max(1, asked.maxTurns)
        answer = await agents.run(asked.name, asked.task, turns, requester, _unheard)
        return {"id": answer.run_id, "text": answer.text}

    async def runs(asked: RunsList) -> Facts:
        return {"runs": await agents.runs(asked.limit)}

    async def cancel(asked: OfId) -> Facts:
        agents.cancel(asked.id)
        return {}

    async def set_key(asked: SetKey) -> Facts:
        conceal(asked.key or "")
        agents.give_key(asked.provider, asked.key)
        return {}

    return {
        "agents/list": Method(Nothing, listed),
        "agents/setRemote": Method(SetRemote, set_remote),
        "agents/run": Method(RunAgent, run),
        "runs/list": Method(RunsList, runs),
        "runs/cancel": Method(OfId, cancel),
        "provider/setKey": Method(SetKey, set_key),
    }


def tell_changes(agents: Agents, tell: Tell) -> None:
    """From now on tell of gates that changed and of runs that ended."""
    agents.on_changed = lambda: tell("agents/changed", {})
    agents.on_finished = lambda record: tell("run/finished", {"run": record})


def _provider(found: Usual | None) -> Facts | None:
    return found and {
        "name": found.name,
        "kind": found.kind,
        "baseUrl": found.base_url,
        "hasKey": found.has_key,
        "problem": found.problem,
    }


async def _unheard(done: float, total: float | None = None, message: str | None = None) -> None:
    """Nobody is told how far a run is."""
