"""A server that has every feature of the protocol: what the conformance suites need of a server to test a transport.

The product has tools only. So that the suites reach every path of its
transport, this server is put behind it; nothing but tests uses it.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Result,
)

from tests.conformance.everything_tools import IMAGE, PNG, TOOLS, Call, Context, Wire, more, question, resource, text

NAME = "everything"
_RESOURCES: dict[str, tuple[str, Wire]] = {
    "test://static-text": ("text/plain", {"text": "This is the content of the static text resource."}),
    "test://static-binary": ("image/png", {"blob": PNG}),
    "test://watched-resource": ("text/plain", {"text": "Watched resource content"}),
}
_TEMPLATE = re.compile(r"test://template/([^/]+)/data")
_PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def _list_tools(context: Context, params: Any) -> Wire:
    return {
        "tools": [
            {"name": name, "description": tool.description, "inputSchema": tool.schema} for name, tool in TOOLS.items()
        ]
    }


async def _list_resources(context: Context, params: Any) -> Wire:
    return {
        "resources": [
            {"uri": uri, "name": uri.rpartition("/")[2], "description": "For tests.", "mimeType": mime}
            for uri, (mime, _) in _RESOURCES.items()
        ]
    }


async def _list_templates(context: Context, params: Any) -> Wire:
    template = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
    return {"resourceTemplates": [template]}


async def _read_resource(context: Context, params: ReadResourceRequestParams) -> Wire:
    uri = str(params.uri)
    if found := _RESOURCES.get(uri):
        mime, held = found
    elif match := _TEMPLATE.fullmatch(uri):
        mime = "application/json"
        held = {"text": json.dumps({"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"})}
    else:
        raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, "mimeType": mime, **held}]}


async def _list_prompts(context: Context, params: Any) -> Wire:
    return {
        "prompts": [
            {
                "name": name,
                "description": "For tests.",
                "arguments": [{"name": argument, "description": "For tests.", "required": True} for argument in needed],
            }
            for name, needed in _PROMPTS.items()
        ]
    }


async def _get_prompt(context: Context, params: GetPromptRequestParams) -> Wire:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            said = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            said = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            said = [resource(given["resourceUri"], "text/plain", "Embedded resource content for testing.")]
        case "test_prompt_with_image":
            said = [IMAGE]
        case "test_input_required_result_prompt":
            if "user_context" not in (params.input_responses or {}):
                return more(user_context=question("What context should the prompt use?", context="string"))
            said = [text("In that context.")]
        case unknown:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {unknown}")
    return {"messages": [{"role": "user", "content": block} for block in said]}


async def _complete(context: Context, params: Any) -> Wire:
    return {"completion": {"values": [], "total": 0, "hasMore": False}}


async def _nothing(context: Context, params: Any) -> Wire:
    return {}


def _typed(handler: Callable[[Context, Any], Awaitable[Wire]], result: type[Result]) -> Any:
    """The handler with its wire dictionaries made models: the SDK adds what a revision wants to models only."""

    async def run(context: Context, params: Any) -> Result:
        wire = await handler(context, params)
        return (InputRequiredResult if "inputRequests" in wire else result).model_validate(wire)

    return run


def build(tools_changed: Callable[[], Awaitable[None]], prompts_changed: Callable[[], Awaitable[None]]) -> Server[Any]:
    """The server. The two functions tell its clients that a list has changed."""

    async def call_tool(context: Context, params: CallToolRequestParams) -> Wire:
        found = TOOLS.get(params.name)
        if found is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await found.run(Call(context, params, tools_changed, prompts_changed))

    handlers = {
        "on_list_tools": _typed(_list_tools, ListToolsResult),
        "on_call_tool": _typed(call_tool, CallToolResult),
        "on_list_resources": _typed(_list_resources, ListResourcesResult),
        "on_list_resource_templates": _typed(_list_templates, ListResourceTemplatesResult),
        "on_read_resource": _typed(_read_resource, ReadResourceResult),
        "on_subscribe_resource": _typed(_nothing, EmptyResult),
        "on_unsubscribe_resource": _typed(_nothing, EmptyResult),
        "on_list_prompts": _typed(_list_prompts, ListPromptsResult),
        "on_get_prompt": _typed(_get_prompt, GetPromptResult),
        "on_completion": _typed(_complete, CompleteResult),
        "on_set_logging_level": _typed(_nothing, EmptyResult),
    }
    with warnings.catch_warnings():
        # logging is on its way out of the protocol; the suites still test it
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        server = Server(
            NAME,
            version="1",
            get_tool_input_schema=lambda name: TOOLS[name].schema if name in TOOLS else None,
            **handlers,
        )
    server.middleware[:] = [RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)]
    return server
