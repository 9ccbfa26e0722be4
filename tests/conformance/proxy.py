"""A local proxy that adds the token: the conformance suites can't send a header of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

_OWN_BUSINESS = ("Connection", "Content-Length", "Host", "Keep-Alive", "Transfer-Encoding")
_ALLOWED_ORIGIN = "app://obsidian.md"


@asynccontextmanager
async def proxy(port: int, token: str) -> AsyncGenerator[int]:
    """Forwards to `port` on this computer, streams included; the port where it listens itself.

    A Host that names the proxy is made to name what is behind it, and an Origin that does so to be one that is let
    in. All others are passed on as they are, for the server to refuse.
    """
    own = 0

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = request.headers.copy()
        for name in _OWN_BUSINESS:
            headers.popall(name, None)
        host = request.headers["Host"]
        headers["Host"] = host.replace(f":{own}", f":{port}")
        if headers.get("Origin") == f"http://{host}":
            headers["Origin"] = _ALLOWED_ORIGIN
        headers["Authorization"] = f"Bearer {token}"
        url = f"http://127.0.0.1:{port}{request.raw_path}"
        async with session.request(request.method, url, headers=headers, data=await request.read()) as answer:
            kept = answer.headers.copy()
            for name in _OWN_BUSINESS:
                kept.popall(name, None)
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=32 << 20)
    app.router.add_route("*", "/{path:.*}", forward)
    # a client that goes away must be seen to go by what is behind
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        own = site.port
        try:
            yield own
        finally:
            await runner.cleanup()
