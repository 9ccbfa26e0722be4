"""REST: addresses of a surface that answer to GET, from the same services as its tools.

Mistakes of the caller, and what can't be answered now, are 400 with the
sentence; anything else that goes wrong is 500, and the log has the details.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from sidecar import arguments
from sidecar.arguments import schema_of
from sidecar.bridge.token import Caller
from sidecar.contract import Call, Route, Text
from sidecar.errors import BadArguments, SidecarError
from sidecar.services.core import Core
from sidecar.web import answers

logger = logging.getLogger(__name__)

METHODS: tuple[str, ...] = ("GET", "HEAD")

RestAnswer = Callable[[web.BaseRequest, Caller], Awaitable[web.StreamResponse]]

_LONGEST_NUMBER = 15
_MOST_PARAMETERS = 100


def handler(route: Route, core: Core) -> RestAnswer:
    """What answers GET and HEAD at the route's path; the server leaves out the body of the latter."""

    async def answer(request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        try:
            args = arguments.check(route.args, _given(route, request.raw_path.partition("?")[2]), owner=route.path)
            result = await route.run(core, args, Call(caller, _unheard))
        except SidecarError as refused:
            return answers.to_json({"error": str(refused)}, 400)
        except Exception:
            logger.exception("%s failed", route.path)
            return answers.to_json({"error": "internal error"}, 500)
        if isinstance(result, Text):
            return web.Response(text=result.text)
        return answers.to_json(result.model_dump(mode="json"))

    return answer


async def _unheard(done: float, total: float | None = None, message: str | None = None) -> None:
    """Progress, which nobody asked for."""


def _given(route: Route, query: str) -> Mapping[str, Any]:
    """The arguments of a query string. It holds text only; digits are a number where a whole number is asked for.

    Raises:
        BadArguments: it is no query string, or an argument is given twice.
    """
    properties: dict[str, dict[str, Any]] = schema_of(route.args).get("properties", {})
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise BadArguments("The query string is not well-formed.") from error
    given: dict[str, Any] = {}
    for name, text in pairs:
        if name in given:
            raise BadArguments(f"{json.dumps(name[:80])[1:-1]}: is given twice.")
        is_number = properties.get(name, {}).get("type") == "integer"
        given[name] = _number(text) if is_number else text
    return given


def _number(text: str) -> int | str:
    """The number that digits write, else the text, which the check will refuse. Of a huge one the beginning will do."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        return text
    return int(sign + (digits.lstrip("0")[:_LONGEST_NUMBER] or "0"))
