"""What a tool family is made of: records, and the catalogue built from them.

A surface is data. The protocol room lists and calls its tools, the web room
points routes at them; neither knows a tool by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sidecar.arguments import Nulls, Numbers, Shape
from sidecar.bridge.token import Caller
from sidecar.errors import BadConfig
from sidecar.services.core import Core


@dataclass(frozen=True, slots=True)
class Text:
    """The result of a text-only tool: one text block, and facts about it for programs (`_meta`)."""

    text: str
    meta: dict[str, Any] = field(default_factory=dict[str, Any])


class Listing(Shape):
    """A result that is a list, in its one member `result`: the text block is the bare array.

    Structured content has to be an object, in the revisions before 2026-07-28.
    """


Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells the client how far a call is: done so far, of how much (None: unknown), and a line for people (or None).

`done` grows with every report. Does nothing where the client asked for no
progress. The first report turns an HTTP answer into an event stream.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler may know of the request behind its arguments."""

    caller: Caller
    report: Report
    client: str | None = None
    """What the client calls itself, on one line."""


Handler = Callable[[Core, Any, Call], Awaitable["Shape | Text"]]


Refused = Callable[[Core, Mapping[str, Any], Call, str], Awaitable[None]]
"""Gets the arguments of a call as they came, and the sentence that refuses them."""


def always(core: Core) -> bool:
    """The gate of a tool that is never switched off."""
    return True


@dataclass(frozen=True, slots=True)
class Tool:
    """One callable. `run` gets the service facade, its checked arguments and the call, and only translates."""

    name: str
    description: str
    args: type[Shape]
    result: type[Shape] | None
    """Shape of the structured result; None for a text-only tool."""
    run: Handler
    read_only: bool = True
    offered: Callable[[Core], bool] = always
    """Asked at every tools/list and every tools/call; while false the tool does not exist."""
    on_refused: Refused | None = None
    """Told of calls that `run` never gets, because their arguments are wrong."""


@dataclass(frozen=True, slots=True)
class Route:
    """An address that answers to GET. Its query string holds the arguments, as text."""

    path: str
    args: type[Shape]
    result: type[Shape] | None
    """Shape of the JSON; None for plain text."""
    run: Handler


@dataclass(frozen=True, slots=True)
class Surface:
    """A named tool family with one contract."""

    name: str
    instructions: str
    tools: tuple[Tool, ...]
    sessions: Literal["stateless", "required"] = "stateless"
    numbers: Numbers = "refuse"
    nulls: Nulls = "refuse"
    routes: tuple[Route, ...] = ()
    """The same services without MCP."""
    alias: str | None = None
    """A second address of its path."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool together with the surface whose rules it follows."""

    surface: Surface
    tool: Tool


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one MCP path serves: a single surface, or the composite of several."""

    name: str
    surfaces: tuple[Surface, ...]

    @property
    def instructions(self) -> str:
        """One paragraph per surface."""
        return "\n\n".join(surface.instructions for surface in self.surfaces)

    @property
    def sessions(self) -> Literal["stateless", "required"]:
        """The composite is stateless whatever its parts are."""
        return self.surfaces[0].sessions if len(self.surfaces) == 1 and self.name else "stateless"

    def offers(self, core: Core) -> Iterator[Offer]:
        """The tools listed now, in surface order."""
        for surface in self.surfaces:
            for tool in surface.tools:
                if tool.offered(core):
                    yield Offer(surface, tool)

    def find(self, core: Core, name: str) -> Offer | None:
        """The tool of that name if it is listed now."""
        return next((offer for offer in self.offers(core) if offer.tool.name == name), None)


def composite(surfaces: Iterable[Surface]) -> Catalogue:
    """The union of `surfaces`, served at `/mcp`.

    Raises:
        BadConfig: two surfaces have a tool of the same name.
    """
    chosen = tuple(surfaces)
    seen: set[str] = set()
    for surface in chosen:
        for tool in surface.tools:
            if tool.name in seen:
                raise BadConfig(f"two tools are called {tool.name!r}; tool names are unique over all surfaces")
            seen.add(tool.name)
    return Catalogue("", chosen)


def single(surface: Surface) -> Catalogue:
    """One surface alone, served at `/mcp/<name>`."""
    return Catalogue(surface.name, (surface,))
