"""Carries out calls of tools, whoever makes them: a client over a transport, or the model of an agent's run.

Both find only what is offered at that moment, have their arguments checked by
the rules of the tool's surface, and get a sentence where something is wrong.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar import arguments
from sidecar.arguments import Shape
from sidecar.bridge.token import Caller
from sidecar.contract import Call, Catalogue, Listing, Offer, Text
from sidecar.errors import BadArguments, SidecarError
from sidecar.services.agents.ceiling import CEILING
from sidecar.services.agents.toolbox import ToolAnswer, ToolSpec
from sidecar.services.core import Core

logger = logging.getLogger(__name__)

FAILED = "The tool failed because of a mistake in vault-sidecar. Its log holds the details."


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the caller is told instead of a result."""

    sentence: str


async def carry_out(offer: Offer, core: Core, given: Mapping[str, Any], call: Call) -> Shape | Text | Refusal:
    """Check the arguments and run the tool. What it raises on purpose is a sentence; a mistake of ours, a fixed one."""
    tool, surface = offer.tool, offer.surface
    try:
        try:
            args = arguments.check(tool.args, given, owner=tool.name, numbers=surface.numbers, nulls=surface.nulls)
        except BadArguments as bad:
            if tool.on_refused is not None:
                await tool.on_refused(core, given, call, str(bad))
            raise
        return await tool.run(core, args, call)
    except SidecarError as refused:
        return Refusal(str(refused))
    except Exception:
        logger.exception("tool %s failed", tool.name)
        return Refusal(FAILED)


def text_of(structured: Shape) -> str:
    """A structured result as the text block that goes with it."""
    facts = structured.model_dump(mode="json")
    shown = facts["result"] if isinstance(structured, Listing) else facts
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


class AgentTools:
    """The tools of a catalogue that agents may have, for their runs."""

    def __init__(self, catalogue: Catalogue, core: Core) -> None:
        self._catalogue = catalogue
        self._core = core

    def offered(self) -> list[ToolSpec]:
        """Those that could be called at this moment."""
        return [
            ToolSpec(offer.tool.name, offer.tool.description, arguments.schema_of(offer.tool.args))
            for offer in self._catalogue.offers(self._core)
            if offer.tool.name in CEILING
        ]

    async def call(self, name: str, arguments: Mapping[str, Any], agent: str) -> ToolAnswer:
        """As a client's call, by the caller `agent:NAME`; nobody hears of its progress."""
        offer = self._catalogue.find(self._core, name) if name in CEILING else None
        if offer is None:
            return ToolAnswer("There is no such tool now.", failed=True)
        caller = Caller(f"agent:{agent}", "local", local=False)
        answer = await carry_out(offer, self._core, arguments, Call(caller, _unheard))
        if isinstance(answer, Refusal):
            return ToolAnswer(answer.sentence, failed=True)
        return ToolAnswer(answer.text if isinstance(answer, Text) else text_of(answer))


async def _unheard(done: float, total: float | None, line: str | None) -> None:
    pass
