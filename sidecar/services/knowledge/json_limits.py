"""How large and deep a JSON value is, found without recursion, before anything recursive touches it."""

from __future__ import annotations

import math
from typing import Any, cast

from sidecar.errors import BadArguments, TooLarge


def check(name: str, value: Any, *, max_bytes: int, max_depth: int) -> None:
    """Is the value small enough, and made of what JSON and Unicode have?

    The size is that of the JSON text without blanks, letters outside ASCII unescaped; what only escapes would add
    is not counted. A value that is too large costs no more than one that is just small enough.

    Raises:
        TooLarge: more than `max_bytes`.
        BadArguments: deeper than `max_depth`, or with a number or text that can't be stored.
    """
    size = 0
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        held, depth = waiting.pop()
        if isinstance(held, str):
            size += _bytes(name, held) + 2
        elif isinstance(held, list | dict):
            if depth > max_depth:
                raise BadArguments(f"{name}: at most {max_depth} levels deep.")
            items = cast("list[Any]", held) if isinstance(held, list) else list(cast("dict[str, Any]", held).values())
            size += 2 + len(items)
            if size > max_bytes:
                break
            if isinstance(held, dict):
                size += sum(_bytes(name, key) + 3 for key in cast("dict[str, Any]", held))
            waiting += [(item, depth + 1) for item in items]
        elif isinstance(held, float) and not math.isfinite(held):
            raise BadArguments(f"{name}: holds a number that is not finite.")
        else:
            size += 1 if held is None or isinstance(held, bool) else len(str(held))
        if size > max_bytes:
            break
    if size > max_bytes:
        raise TooLarge(f"{name}: at most {max_bytes >> 20} MiB.")


def _bytes(name: str, text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise BadArguments(f"{name}: holds half of a character (a lone surrogate).") from None
