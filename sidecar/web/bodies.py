"""Reads request bodies within a limit of size and one of time."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from aiohttp import web

from sidecar.web import answers
from sidecar.web.answers import Refusal


def unacceptable(request: web.BaseRequest, max_bytes: int) -> Refusal | None:
    """What the headers alone forbid, before a byte of the body is read."""
    declared = request.content_length
    if declared is not None and declared > max_bytes:
        return answers.TOO_LARGE
    # Nothing is ever inflated here, so a small body can't become a large one.
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return answers.WRONG_MEDIA
    if request.headers.get("Expect", "100-continue").lower() != "100-continue":
        return answers.BAD_EXPECTATION
    return None


async def read(request: web.BaseRequest, *, max_bytes: int, within_s: float) -> bytes | Refusal:
    """The whole body. Call it when everything else about the request is in order.

    Only then is a client that asked first told to go on: it must not send a
    body on behalf of a token that is wrong.
    """
    if "Expect" in request.headers:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the final answer's headers are still to come
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > max_bytes:
                    return answers.TOO_LARGE
    except TimeoutError:
        return answers.TIMED_OUT
    except web.RequestPayloadError:
        return answers.BAD_REQUEST
    return bytes(body)


async def read_object(request: web.BaseRequest, *, max_bytes: int, within_s: float) -> dict[str, Any] | Refusal:
    """The JSON object of a small body from a program of ours; an empty body is an empty object."""
    refusal = unacceptable(request, max_bytes)
    raw = refusal or await read(request, max_bytes=max_bytes, within_s=within_s)
    if isinstance(raw, Refusal):
        return raw
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return answers.BAD_REQUEST
    return cast("dict[str, Any]", found) if isinstance(found, dict) else answers.BAD_REQUEST
