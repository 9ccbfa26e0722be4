"""Reads the JSON of a request body, strictly and at a cost that is bounded.

What the standard parser lets through is refused here: NaN and infinities in any
spelling, other encodings than UTF-8, halves of surrogate pairs, nesting that
would exhaust the stack, and so many values that building them would hold up
every other client. Of an object's equal keys the last one counts; the body is
read once, so every later check sees that same one.
"""

from __future__ import annotations

import json
import math
import re
import sys
from itertools import accumulate
from typing import Any

MAX_DEPTH = 1000
MAX_VALUES = 500_000
"""Of one body. A tool's arguments are a few; half a second of parsing is what the others can be asked to wait."""

_SHALLOW = 200  # a document of fewer brackets can't come near the interpreter's own limit of 1,000 frames

# Possessive, and the closing quote optional: a run of quotes and backslashes is crossed once, never retried.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_STEP = [0] * 256
_STEP[ord("[")] = _STEP[ord("{")] = 1
_STEP[ord("]")] = _STEP[ord("}")] = -1


class BadJson(ValueError):
    """The body is no JSON this server reads; the message names the reason, never the content."""


def parse(body: bytes) -> Any:
    """The value in `body`; objects are dicts, numbers are ints of up to 4,300 digits or finite floats.

    Raises:
        BadJson: no UTF-8, no JSON, a number out of range, deeper than `MAX_DEPTH`, more than `MAX_VALUES`.
    """
    brackets = _opened(body)
    if brackets > MAX_DEPTH or brackets + body.count(b",") > MAX_VALUES:
        _check_structure(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise BadJson("The body is not UTF-8.") from None
    if brackets <= _SHALLOW:
        return _load(body, text)
    # The parser recurses once per level and shares the interpreter's limit with the frames below it.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2 * MAX_DEPTH)
    try:
        return _load(body, text)
    except RecursionError:
        raise BadJson("The JSON is nested too deep.") from None
    finally:
        sys.setrecursionlimit(limit)


def _load(body: bytes, text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadJson("The JSON holds half of a surrogate pair.") from None
    except BadJson:
        raise
    except ValueError:
        # Not the parser's own sentence: it may quote the body.
        raise BadJson("The body is not valid JSON.") from None
    return value


def _opened(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _check_structure(body: bytes) -> None:
    """Count and measure what is outside of strings."""
    # An opening quote never follows a backslash, so this is at least the number of strings, and at most twice that.
    if body.count(b'"') - body.count(b'\\"') > 2 * MAX_VALUES:
        raise BadJson(f"The JSON has more than {MAX_VALUES:,} values.")
    structure = _STRING.sub(b"", body).translate(None, _NOT_STRUCTURE)
    if _opened(structure) + structure.count(b",") > MAX_VALUES:
        raise BadJson(f"The JSON has more than {MAX_VALUES:,} values.")
    if _deeper(structure, MAX_DEPTH):
        raise BadJson(f"The JSON is nested deeper than {MAX_DEPTH:,} levels.")


def _deeper(structure: bytes, levels: int) -> bool:
    return any(depth > levels for depth in accumulate(map(_STEP.__getitem__, structure)))


def _refuse(name: str) -> Any:
    raise BadJson(f"{name} is not JSON.")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BadJson("A number in the JSON is out of range.")
    return value
