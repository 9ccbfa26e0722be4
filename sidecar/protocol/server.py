"""Turns a catalogue of tools into an SDK server: listing, argument checks, results, errors.

The server is the same for every transport. What a tool raises on purpose
becomes a tool error with its sentence; what it raises by mistake becomes one
fixed sentence, and the log has the rest.
"""

from __future__ import annotations

import functools
import json
import logging
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
from sidecar.errors import SidecarError
from sidecar.services.core import Core
from sidecar.vault.paths import echo

logger = logging.getLogger(__name__)

NAME = "vault-sidecar"
FAILED = "The tool failed because of a mistake in vault-sidecar. Its log holds the details."

Context: TypeAlias = ServerRequestContext[Any, Caller]
"""`request` is who calls; every transport has to say so with each message."""
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
        return await _answer(offer, core, params.arguments or {}, _call_of(ctx))

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
    assert isinstance(ctx.request, Caller)
    return contract.Call(ctx.request, ctx.session.report_progress)


async def _answer(offer: contract.Offer, core: Core, given: dict[str, Any], call: contract.Call) -> CallToolResult:
    tool = offer.tool
    try:
        args = arguments.check(tool.args, given, owner=tool.name, numbers=offer.surface.numbers)
        return _result(await tool.run(core, args, call))
    except SidecarError as refused:
        return _failed(str(refused))
    except Exception:
        logger.exception("tool %s failed", tool.name)
        return _failed(FAILED)


def _result(answer: Shape | contract.Text) -> CallToolResult:
    if isinstance(answer, contract.Text):
        return CallToolResult(content=[_text(answer.text)], _meta=cast("Any", answer.meta or None))
    structured = answer.model_dump(mode="json")
    return CallToolResult(
        content=[_text(json.dumps(structured, ensure_ascii=False, separators=(",", ":")))],
        structured_content=structured,
    )


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
