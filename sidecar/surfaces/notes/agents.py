"""Handlers of the tools about the user: their memory facts, and their agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar.contract import Call, Text
from sidecar.services.agents.agents import Requester
from sidecar.services.agents.listing import Listed
from sidecar.services.core import Core
from sidecar.services.lengths import cut
from sidecar.services.memory import MOST_FACTS
from sidecar.surfaces.notes.shapes import Nothing, RunAgent
from sidecar.surfaces.notes.tools import MOST_CHARS
from sidecar.vault.paths import printable

MOST_DESCRIPTION_CHARS = 140


async def get_memory(core: Core, args: Nothing, call: Call) -> Text:
    """The facts of the memory note."""
    facts, total = await core.memory.facts()
    if not facts:
        return Text("No memory facts are saved.")
    first = "1 memory fact." if total == 1 else f"{total:,} memory facts."
    if total > MOST_FACTS:
        first = f"{MOST_FACTS} of {total:,} memory facts."
    lines = (f"- [{fact.category}] {fact.text}" if fact.category else f"- {fact.text}" for fact in facts)
    return Text(cut("\n".join([first, *lines]), MOST_CHARS))


async def list_agents(core: Core, args: Nothing, call: Call) -> Text:
    """All agents, a line each."""
    agents = await core.agents.listed()
    if not agents:
        return Text(f"No agents. An agent is a note in the folder '{printable(core.agents.folder)}'.")
    first = "1 agent." if len(agents) == 1 else f"{len(agents):,} agents."
    return Text(cut("\n".join([first, *map(_line, agents)]), MOST_CHARS))


def _line(listed: Listed) -> str:
    agent = listed.agent
    name = f"- {agent.name} {agent.emoji}" if agent.emoji else f"- {agent.name}"
    if agent.problem is not None:
        return f"{name} — can't run: {agent.problem}."
    description = agent.description
    if len(description) > MOST_DESCRIPTION_CHARS:
        description = description[: MOST_DESCRIPTION_CHARS - 1].rstrip() + "…"
    facts = [f"{name} — {description}", *([listed.model] if listed.model else [])]
    return " · ".join([*facts, *([] if listed.remote else ["remote invocation off"])])


async def run_agent(core: Core, args: RunAgent, call: Call) -> Text:
    """The final answer of one agent."""
    answer = await core.agents.run(args.name, args.task, args.max_turns or None, _requester(call), call.report)
    return Text(answer.text)


async def record_refused(core: Core, given: Mapping[str, Any], call: Call, reason: str) -> None:
    """A call of run_agent whose arguments are wrong is recorded as well."""
    await core.agents.refused(given.get("name"), given.get("task"), _requester(call), reason)


def _requester(call: Call) -> Requester:
    # only the relay of stdio clients comes in with the local key
    return Requester(call.caller.agent_id, "stdio" if call.caller.local else "mcp", call.client)
