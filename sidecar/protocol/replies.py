"""JSON-RPC replies as HTTP responses and as events."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web
from mcp_types import ErrorData

from sidecar.protocol.envelope import Id

JSON = "application/json"
EVENTS = "text/event-stream"


def result_of(message_id: Id, result: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request that succeeded."""
    return {"jsonrpc": "2.0", "id": message_id, "result": result}


def error_of(message_id: Id | None, error: ErrorData) -> dict[str, Any]:
    """The reply to a request that failed, or that could not be read."""
    return {"jsonrpc": "2.0", "id": message_id, "error": error.model_dump(mode="json", exclude_none=True)}


def notification_of(method: str, params: dict[str, Any] | None) -> dict[str, Any]:
    """A notification; without parameters it has no such member."""
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def to_json(message: dict[str, Any], status: int = 200) -> web.Response:
    """The message as a plain response."""
    return web.Response(body=_dump(message), status=status, content_type=JSON)


def to_error(message_id: Id | None, code: int, text: str, status: int) -> web.Response:
    """An error of the transport, as a plain response."""
    return to_json(error_of(message_id, ErrorData(code=code, message=text)), status)


def to_event(message: dict[str, Any]) -> bytes:
    """The message as one event of a stream."""
    return b"event: message\ndata: " + _dump(message) + b"\n\n"


def _dump(message: dict[str, Any]) -> bytes:
    # "replace": half a surrogate pair, should a handler ever produce one, must not cost the whole answer.
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
