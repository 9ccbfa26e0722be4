"""One line of the pipe as a message, and messages as lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sidecar.bridge.pipe import LONGEST_LINE
from sidecar.editor.problems import Problem, Refusal, problem

Id = str | int

_LONGEST_ID = 128
_PARSE, _INVALID, _PARAMS = -32700, -32600, -32602


@dataclass(frozen=True, slots=True)
class Request:
    """A method that the plugin wants done."""

    id: Id
    method: str
    params: Mapping[str, Any]


class BadMessage(Refusal):
    """A line that is no request. `id` is its own, as far as it has one."""

    def __init__(self, number: int, reason: str, message_id: Id | None = None) -> None:
        super().__init__(problem("bad-message", reason), number)
        self.id = message_id


def read(line: bytes | None) -> Request | None:
    """The request in a line; None for a notification, of which this protocol has none. A `line` of None was too long.

    Raises:
        BadMessage: it is neither.
    """
    if line is None:
        raise BadMessage(_INVALID, f"a line has at most {LONGEST_LINE:,} bytes")
    try:
        found = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadMessage(_PARSE, "a line is UTF-8") from None
    except (ValueError, RecursionError):
        raise BadMessage(_PARSE, "a line is one JSON object") from None
    if not isinstance(found, dict):
        raise BadMessage(_INVALID, "a line is one JSON object")
    message = cast("dict[str, Any]", found)
    method, message_id, params = message.get("method"), message.get("id"), message.get("params", {})
    known = message_id if _is_id(message_id) else None
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise BadMessage(_INVALID, 'a request has "jsonrpc": "2.0" and a "method"', known)
    if "id" not in message:
        return None
    if known is None:
        raise BadMessage(_INVALID, "an id is a whole number or a text of at most 128 characters")
    if not isinstance(params, dict):
        raise BadMessage(_PARAMS, "params is an object", known)
    return Request(known, method, cast("dict[str, Any]", params))


def success(message_id: Id, result: Mapping[str, Any]) -> bytes:
    """The answer to a request that was done; one that says so, if the result has no room in a line."""
    line = _line({"jsonrpc": "2.0", "id": message_id, "result": result})
    if len(line) > LONGEST_LINE:
        return failure(message_id, Refusal(problem("too-large", "the answer is too long for a line")))
    return line


def failure(message_id: Id | None, refusal: Refusal) -> bytes:
    """The answer to a request that was refused."""
    found: Problem = refusal.problem
    error = {"code": refusal.number, "message": found["reason"], "data": found}
    return _line({"jsonrpc": "2.0", "id": message_id, "error": error})


def event(name: str, params: Mapping[str, Any]) -> bytes:
    """What the plugin is told unasked."""
    return _line({"jsonrpc": "2.0", "method": name, "params": params})


def size(value: Any) -> int:
    """Bytes of a value in a line."""
    return len(_line(value))


def beginning(text: str, room: int) -> str:
    """As much of the beginning as takes `room` bytes of a line."""
    if size(text) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:  # escapes make some characters longer than others
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _is_id(found: Any) -> bool:
    return type(found) is int or (isinstance(found, str) and len(found) <= _LONGEST_ID)


def _line(message: Any) -> bytes:
    # A half of a surrogate pair becomes an escape that JSON knows; all else is written as it is.
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
