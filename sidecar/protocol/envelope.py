"""Reads one JSON-RPC message out of a parsed body.

Stricter than the SDK's models, which take a request with an unusable id for a
notification and answer it with silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

INVALID_REQUEST = -32600  # of JSON-RPC; the relay reads messages without importing the SDK

Id = int | str

_MAX_ID_CHARS = 1000
_MAX_ID = 2**63 - 1


class BadMessage(ValueError):
    """The JSON is no single JSON-RPC message. `id` is the sender's where it could be read."""

    code = INVALID_REQUEST

    def __init__(self, text: str, message_id: Id | None = None) -> None:
        super().__init__(text)
        self.id = message_id


@dataclass(frozen=True, slots=True)
class Message:
    """One message. A request has a method and an id, a notification a method only, a response an id only."""

    kind: Literal["request", "notification", "response"]
    method: str
    id: Id | None
    params: dict[str, Any] | None
    reply: dict[str, Any] | None = None
    """Of a response: its `result` and `error`, as far as they are there, unchecked."""


def read(value: Any) -> Message:
    """`value` as a message.

    Raises:
        BadMessage: a batch, no object, a member of the wrong type.
    """
    if isinstance(value, list):
        raise BadMessage("Batches are not accepted; send one message per request.")
    if not isinstance(value, dict):
        raise BadMessage("The body must be one JSON-RPC message.")
    found = cast("dict[str, Any]", value)
    message_id = as_id(found.get("id"))
    if "id" in found and message_id is None:
        raise BadMessage("id: must be text of at most 1,000 characters or a whole number of 64 bits.")
    if found.get("jsonrpc") != "2.0":
        raise BadMessage('jsonrpc: must be "2.0".', message_id)
    if "method" not in found:
        if message_id is not None and ("result" in found or "error" in found):
            reply = {name: found[name] for name in ("result", "error") if name in found}
            return Message("response", "", message_id, None, reply)
        raise BadMessage("method: is required.", message_id)
    method = found["method"]
    if not isinstance(method, str):
        raise BadMessage("method: must be text.", message_id)
    params = found.get("params")
    if params is not None and not isinstance(params, dict):
        raise BadMessage("params: must be an object.", message_id)
    kind = "notification" if message_id is None else "request"
    return Message(kind, method, message_id, cast("dict[str, Any] | None", params))


def as_id(value: Any) -> Id | None:
    """A usable id, else None. `true` is an int to Python and no id to JSON-RPC."""
    if isinstance(value, str) and len(value) <= _MAX_ID_CHARS:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -_MAX_ID <= value <= _MAX_ID:
        return value
    return None
