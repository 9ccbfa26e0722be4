"""Turns a catalogue of tools into an SDK server: listing, argument checks, results, errors.

The server is the same for every transport. What a tool raises on purpose
becomes a tool error with its sentence; what it raises by mistake becomes one
fixed sentence, and the log has the rest.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from sidecar import __version__, arguments, contract
from sidecar.arguments import Shape
from sidecar.bridge.token import Caller
from sidecar.calling import Refusal, carry_out, text_of
from sidecar.services.core import Core
from sidecar.vault.paths import echo

NAME = "vault-sidecar"


@dataclass(frozen=True, slots=True)
class Requester:
    """Who sends a message; every transport has to say so with each. `program` is what the sender calls itself."""

    caller: Caller
    program: str | None = None


Context: TypeAlias = ServerRequestContext[Any, Requester]
McpServer: TypeAlias = Server[Any]


def build_server(catalogue: contract.Catalogue, core: Core) -> McpServer:
    """The server of one catalogue. Gates are asked at every list and every call."""

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "cursor: the list of tools has one page only.")
        return ListToolsResult(tools=[_listed(offer.tool) for offer in catalogue.offers(core)])

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        offer = catalogue.find(core, params.name)
        if offer is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {echo(params.name)}")
        return _result(await carry_out(offer, core, params.arguments or {}, _call_of(ctx)))

    server = Server(
        NAME,
        version=__version__,
        instructions=catalogue.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # The SDK puts a tracing layer in front of every message. Nothing here exports traces, and it would record
    # exception texts, which may hold note content.
    server.middleware.clear()
    return server


def _call_of(ctx: Context) -> contract.Call:
    # A transport that names nobody is a mistake of ours; no caller is assumed in its place.
    assert isinstance(ctx.request, Requester)
    info = ctx.session.client_params.client_info if ctx.session.client_params is not None else None
    name = echo(info.name) if info is not None and info.name else ctx.request.program
    return contract.Call(ctx.request.caller, ctx.session.report_progress, name or None)


def _result(answer: Shape | contract.Text | Refusal) -> CallToolResult:
    if isinstance(answer, Refusal):
        return _failed(answer.sentence)
    if isinstance(answer, contract.Text):
        return CallToolResult(content=[_text(answer.text)], _meta=cast("Any", answer.meta or None))
    return CallToolResult(content=[_text(text_of(answer))], structured_content=answer.model_dump(mode="json"))


def _failed(sentence: str) -> CallToolResult:
    return CallToolResult(content=[_text(sentence)], is_error=True)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


@functools.cache
def _listed(tool: contract.Tool) -> Tool:
    """How a tool is advertised."""
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=arguments.schema_of(tool.args),
        output_schema=arguments.schema_of(tool.result) if tool.result is not None else None,
        annotations=ToolAnnotations(read_only_hint=tool.read_only),
    )
