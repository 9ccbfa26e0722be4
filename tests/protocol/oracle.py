"""The SDK's own HTTP transport behind aiohttp: what our handler's answers are compared with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from sidecar.protocol.server import Requester
from tests.calls import LOCAL


def bridge(manager: StreamableHTTPSessionManager) -> Any:
    """An aiohttp handler that runs the manager's ASGI application for one request."""

    async def handle(request: web.Request) -> web.StreamResponse:
        body: bytes | None = await request.read()
        over = asyncio.Event()
        response: web.StreamResponse | None = None
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.raw_path.encode(),
            "query_string": request.query_string.encode(),
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }

        async def receive() -> dict[str, Any]:
            nonlocal body
            if body is not None:
                sent, body = body, None
                return {"type": "http.request", "body": sent, "more_body": False}
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            nonlocal response
            if message["type"] == "http.response.start":
                headers = {name.decode(): value.decode() for name, value in message.get("headers", [])}
                headers.pop("content-length", None)
                response = web.StreamResponse(status=message["status"], headers=headers)
                await response.prepare(request)
            elif response is not None:
                if message.get("body"):
                    await response.write(message["body"])
                if not message.get("more_body"):
                    over.set()

        await manager.handle_request(scope, receive, send)  # type: ignore[arg-type]  # ASGI's own loose dicts
        assert response is not None
        await response.write_eof()
        return response

    return handle


async def _as_local(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """The SDK's transport names an HTTP request where ours names who sends it."""
    requester = ctx.request if isinstance(ctx.request, Requester) else Requester(LOCAL)
    return await call_next(replace(ctx, request=requester))


@asynccontextmanager
async def oracle(server: Server[Any], *, sessions: bool = False) -> AsyncGenerator[str]:
    """The server behind the SDK's transport, stateless or with sessions; the URL."""
    server.middleware.append(_as_local)
    manager = StreamableHTTPSessionManager(app=server, json_response=True, stateless=not sessions)
    app = web.Application(client_max_size=32 << 20)
    app.router.add_route("*", "/mcp", bridge(manager))
    async with manager.run():
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{site.port}/mcp"
        finally:
            await runner.cleanup()
