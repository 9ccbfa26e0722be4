"""What a message needs on its way: the headers of its revision, and the answers that the relay gives itself."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, cast

from sidecar.protocol.envelope import Id, Message

if TYPE_CHECKING:
    from sidecar.protocol.stdio.call import Call

MODERN = "2026-07-28"
CANCELLED = "notifications/cancelled"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
LISTEN = "subscriptions/listen"

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")


def modern_version(message: Message) -> str | None:
    """The revision that a request with an envelope names; None for one without, of the era of handshakes."""
    version = member(message.params, "_meta", _VERSION_KEY)
    return version if isinstance(version, str) and message.method != "initialize" else None


def modern_headers(message: Message, version: str) -> dict[str, str]:
    """The headers that repeat a request's envelope. What can't be put in a header is left out, and then refused."""
    found = {"MCP-Protocol-Version": version, "Mcp-Method": message.method}
    headers = {name: value for name, value in found.items() if _PLAIN.fullmatch(value)}
    name = (message.params or {}).get(_NAMED_BY.get(message.method, ""))
    return headers | {"Mcp-Name": header_value(name)} if isinstance(name, str) else headers


def header_value(value: str) -> str:
    """The text as 2026-07-28 writes it in a header: encoded if HTTP would not bring it through as it is."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def tool_list_request() -> tuple[bytes, dict[str, str]]:
    """A request for the list of tools of the relay's own, and its headers; it needs no session."""
    params: dict[str, Any] = {"_meta": {_VERSION_KEY: MODERN, _CAPABILITIES_KEY: {}}}
    message = Message("request", "tools/list", 0, params)
    return dump(_rpc(0, method=message.method, params=params)), modern_headers(message, MODERN)


def error(message_id: Id | None, code: int, text: str) -> bytes:
    """A JSON-RPC error."""
    return dump(_rpc(message_id, error={"code": code, "message": text}))


def tool_error(call: Call, text: str) -> bytes:
    """The result of a tool call that failed."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if call.version is not None:
        result["resultType"] = "complete"
    return dump(_rpc(call.id, result=result))


def failure(call: Call, text: str) -> bytes:
    """That a request could not be answered, in the way of what was asked."""
    return tool_error(call, text) if call.method == "tools/call" else error(call.id, INTERNAL_ERROR, text)


def tools_changed(subscription: Id | None = None) -> bytes:
    """That the list of tools has changed: to a subscription, or to a client that shook hands."""
    params = {} if subscription is None else {"_meta": {"io.modelcontextprotocol/subscriptionId": subscription}}
    return dump({"jsonrpc": "2.0", "method": TOOLS_CHANGED, "params": params})


def as_answer(call: Call, status: int, reply: bytes) -> bytes:
    """What the daemon answered over HTTP, as an answer to the request."""
    found: dict[str, Any] = {} if status == 200 else load(reply) or {}
    if status == 200 or "jsonrpc" in found:
        return reply
    if status == 404:
        return error(call.id, INVALID_PARAMS, "There is no such surface, or it is switched off in the settings.")
    return failure(call, str(found.get("message") or f"The daemon refused with status {status}."))


def is_read_only(tool_list: bytes, name: str | None) -> bool:
    """Does the list of tools say of a tool that it changes nothing?"""
    tools: list[Any] = member(load(tool_list), "result", "tools") or []
    return any(member(tool, "name") == name and member(tool, "annotations", "readOnlyHint") is True for tool in tools)


def dump(message: dict[str, Any]) -> bytes:
    """As one line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def load(answer: bytes) -> dict[str, Any] | None:
    """The JSON object of an answer; None if it is something else."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def member(value: Any, *path: str) -> Any:
    """What lies at the end of a path of names through JSON objects; None where it breaks off."""
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value


def _rpc(message_id: Id | None, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, **members}
