"""One run: a model gets persona, task and tools, and goes on turn by turn until it answers.

Who may run an agent, and what is kept of it, is decided around this.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sidecar.services.agents.ceiling import CEILING
from sidecar.services.agents.definition import Definition
from sidecar.services.agents.records import Outcome
from sidecar.services.agents.toolbox import ToolAnswer, Toolbox, ToolCall, ToolSpec
from sidecar.services.agents.turns import Pace, Trouble, Turn, patiently
from sidecar.services.lengths import cut

if TYPE_CHECKING:
    from sidecar.services.agents.conversation import Conversation

MOST_CALLS: Final = 10  # in one turn
MOST_RESULT_CHARS: Final = 50_000

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells who waits how far the run is: turns begun, of how many, and a line for people."""


class Ended(Exception):
    """A run ended without an answer. The text is a sentence about the agent, without its name."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome: Outcome = outcome


@dataclass(slots=True)
class Tally:
    """What a run has used so far."""

    turns: int = 0
    tools: Counter[str] = field(default_factory=Counter[str])
    usage: Counter[str] = field(default_factory=Counter[str])


class Engagement:
    """A run of one agent over one conversation."""

    def __init__(
        self, agent: Definition, conversation: Conversation, toolbox: Toolbox, max_turns: int, pace: Pace, tally: Tally
    ) -> None:
        self._agent = agent
        self._conversation = conversation
        self._toolbox = toolbox
        self._max_turns = max_turns
        self._pace = pace
        self._tally = tally

    async def answer(self, report: Report) -> str:
        """The final answer.

        Raises:
            Ended: there is none.
        """
        for turn in range(1, self._max_turns + 1):
            self._tally.turns = turn
            await report(turn, self._max_turns, f"Turn {turn} of at most {self._max_turns}.")
            said = await self._turn()
            if not said.calls:
                if not said.text.strip():
                    raise Ended("failed", "gave no answer.")
                return said.text
            if turn < self._max_turns:  # else nobody would learn what came of them
                self._conversation.give(
                    [(call, await self._result(place, call)) for place, call in enumerate(said.calls)]
                )
        turns = "1 turn" if self._max_turns == 1 else f"{self._max_turns} turns"
        raise Ended("turn_limit", f"stopped after {turns} without an answer.")

    async def _turn(self) -> Turn:
        tools, limit = self._tools(), asyncio.timeout(self._pace.turn_s)
        try:
            async with limit:
                said = await patiently(lambda: self._conversation.ask(tools), self._pace)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Ended("timeout", f"failed: the provider did not answer in {self._pace.turn_s:g} seconds.") from None
        except Trouble as trouble:
            raise Ended("failed", f"failed: {trouble}.") from None
        self._tally.usage["input_tokens"] += said.input_tokens
        self._tally.usage["output_tokens"] += said.output_tokens
        return said

    def _tools(self) -> list[ToolSpec]:
        """What may be called at this moment."""
        allowed = CEILING if self._agent.tools is None else CEILING & self._agent.tools
        return [tool for tool in self._toolbox.offered() if tool.name in allowed]

    async def _result(self, place: int, call: ToolCall) -> ToolAnswer:
        if place >= MOST_CALLS:
            return ToolAnswer(f"At most {MOST_CALLS} tools can be called at once; this call was not carried out.", True)
        if call.name not in {tool.name for tool in self._tools()}:
            return ToolAnswer("There is no such tool now.", True)
        self._tally.tools[call.name] += 1
        if call.arguments is None:
            return ToolAnswer("The arguments must be a JSON object.", True)
        answer = await self._toolbox.call(call.name, call.arguments, self._agent.name)
        return ToolAnswer(cut(answer.text, MOST_RESULT_CHARS), answer.failed)
