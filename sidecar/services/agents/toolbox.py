"""What a run needs of the tools: to name them to a model, and to have one carried out.

The tools themselves stand above the services, so they are handed in from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of its arguments."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model wants done. `arguments` is None where they are no JSON object."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What came of a call, for the model."""

    text: str
    failed: bool = False


class Toolbox(Protocol):
    """The tools of this program, by their names."""

    def offered(self) -> list[ToolSpec]:
        """Those that could be called at this moment."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], agent: str) -> ToolAnswer:
        """Carry out a call of a run, by the rules for a client's: only what is offered now, arguments checked."""
        ...
