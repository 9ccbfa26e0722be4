"""The fixed answers of the HTTP edge, and the headers that every answer carries.

No text here repeats what a client sent: neither path, header nor token.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from sidecar.errors import SidecarError

Facts = Mapping[str, Any]
"""What a program of ours is told: JSON as it is."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Server": "vault-sidecar",  # without it aiohttp names itself, Python and their versions
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'",
}

HOW_TO_SIGN_IN = (
    "Add the header 'Authorization: Bearer <token>' to this client's set-up. "
    "'vault-sidecar token show' prints the token; there is no sign-in page."
)
_CHALLENGE = 'Bearer realm="vault-sidecar"'


@dataclass(frozen=True, slots=True)
class Refusal:
    """One fixed answer to a request that goes no further. `code` is stable; the message is for people."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""
    """What the owner is told in `status`, where that is more than the client learns by the code."""


BAD_REQUEST = Refusal(400, "bad_request", "The request is not well-formed HTTP for this server.")
NO_TOKEN = Refusal(
    401,
    "unauthorized",
    f"A bearer token is required. {HOW_TO_SIGN_IN}",
    {"WWW-Authenticate": _CHALLENGE},
    reason="no_token",
)
WRONG_TOKEN = Refusal(
    401,
    "unauthorized",
    f"The bearer token is not valid. {HOW_TO_SIGN_IN}",
    {"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'},
    reason="wrong_token",
)
FORBIDDEN_HOST = Refusal(403, "forbidden_host", "This server answers to its loopback address only.")
FORBIDDEN_ORIGIN = Refusal(403, "forbidden_origin", "Web pages may not use this server.")
NOT_FOUND = Refusal(404, "not_found", "There is nothing at this address.")
NOT_ACCEPTABLE = Refusal(
    406, "not_acceptable", "The answer is application/json or text/event-stream; name both in the Accept header."
)
TIMED_OUT = Refusal(408, "timed_out", "The body of the request did not arrive in time.")
TOO_LARGE = Refusal(413, "too_large", "The body of the request is larger than this server accepts.")
WRONG_MEDIA = Refusal(415, "unsupported_media_type", "Send application/json in UTF-8, without a content encoding.")
BAD_EXPECTATION = Refusal(417, "expectation_failed", "The only expectation this server meets is 100-continue.")
FAILED = Refusal(
    500, "internal", "The request failed because of a mistake in vault-sidecar. Its log holds the details."
)


def not_allowed(methods: frozenset[str]) -> Refusal:
    """405, naming the methods that would do."""
    return Refusal(
        405, "method_not_allowed", "This address does not answer that method.", {"Allow": ", ".join(sorted(methods))}
    )


def refuse(refusal: Refusal, **more: str) -> web.Response:
    """The response to a refused request; `more` are further members of its JSON body."""
    body = {"error": refusal.code, "message": refusal.message, **more}
    return to_json(body, refusal.status, refusal.headers)


def to_json(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response."""
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return web.Response(body=raw, status=status, headers=headers, content_type="application/json")


async def reply(action: Callable[[], Awaitable[Facts]]) -> web.Response:
    """What an action of the owner's says, or the refusal that it is."""
    try:
        return to_json(await action())
    except SidecarError as refused:
        return refuse(Refusal(refused.status, refused.code, str(refused)))
