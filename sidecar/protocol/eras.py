"""The two eras of the protocol over HTTP, and how a message is told to be of one or the other.

Revisions up to 2025-11-25 shake hands (`initialize`). 2026-07-28 sends its
envelope with every request, repeats part of it in headers, and knows neither
sessions nor a stream that a GET opens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from aiohttp import web
from mcp.server.connection import Connection
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp_types import DEFAULT_NEGOTIATED_VERSION, PROTOCOL_VERSION_META_KEY, ErrorData
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS as HANDSHAKE

from sidecar.protocol import replies
from sidecar.protocol.envelope import BadMessage, Id, Message


def is_modern(request: web.BaseRequest, message: Message) -> bool:
    """Whether a message is of the era of per-request envelopes.

    Decided by the header, and by the body where the header is silent or old: a
    request with an envelope must say so in its headers too, and is refused by
    the classifier if it does not.
    """
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version is not None and version not in HANDSHAKE:
        return True
    meta = (message.params or {}).get("_meta")
    return message.method != "initialize" and isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


SchemaOf = Callable[[str], Mapping[str, Any] | None]


def connection_of(
    request: web.BaseRequest, message: Message, schema_of: SchemaOf | None = None
) -> Connection | web.Response:
    """What the kernel is told of the client of one request, or the refusal of an envelope that is wrong.

    `schema_of` gives the input schema of a tool, for arguments that a schema wants repeated in headers.
    """
    if not is_modern(request, message):
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        return Connection.from_envelope(version, None, None)
    # The classifier looks names up in lower case.
    lowered = {name.lower(): value for name, value in request.headers.items()}
    route = classify_inbound_request({"method": message.method, "params": message.params}, headers=lowered)
    if isinstance(route, InboundLadderRejection):
        return _rejected(message.id, route)
    refused = _unlike_arguments(request, message, schema_of) if schema_of is not None else None
    if refused is not None:
        return _rejected(message.id, refused)
    return Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)


def _unlike_arguments(request: web.BaseRequest, message: Message, schema_of: SchemaOf) -> InboundLadderRejection | None:
    """The refusal of a call whose `Mcp-Param-*` headers are not what its arguments say."""
    params = message.params or {}
    name, arguments = params.get("name"), params.get("arguments", {})
    if message.method != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    schema = schema_of(name)
    if schema is None:
        return None
    return validate_mcp_param_headers(schema, cast("dict[str, Any]", arguments), request.headers)


def acknowledge(request: web.BaseRequest, message: Message) -> web.Response:
    """202 for what needs no reply. Nothing acts on it: no state is kept between two requests."""
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version is not None and version not in HANDSHAKE:
        refused = unsupported_protocol_version_rejection(version)
        if refused is not None:
            return _rejected(message.id, refused)
        if message.kind == "response":
            text = "Responses are not accepted: this server sends no requests."
            return replies.to_error(message.id, BadMessage.code, text, 400)
    return web.Response(status=202)


def refuse_without_sessions(request: web.BaseRequest) -> web.Response | None:
    """The refusal of a GET or DELETE whose revision is unknown, or has no such thing."""
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version is None or version in HANDSHAKE:
        return None
    refused = unsupported_protocol_version_rejection(version)
    if refused is not None:
        return _rejected(None, refused)
    return web.Response(status=405, headers={"Allow": "POST"})


def _rejected(message_id: Id | None, rejection: InboundLadderRejection) -> web.Response:
    error = ErrorData(code=rejection.code, message=rejection.message, data=rejection.data)
    return replies.to_json(replies.error_of(message_id, error), ERROR_CODE_HTTP_STATUS.get(error.code, 400))
