"""One conversation, held by stock clients: each program hears the same from a server, or a test says what differs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tests.node import JS, NODE

PATIENCE_S = 180.0  # many are held at once
OURS = "vault-sidecar/"

Line = Mapping[str, Any]
Heard = dict[str, Any]


@dataclass(frozen=True)
class Http:
    """An address, and the token for it."""

    url: str
    token: str


@dataclass(frozen=True)
class Stdio:
    """A command that speaks the protocol on its stdin and stdout."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


Way = Http | Stdio


async def python(mode: Literal["legacy", "auto"], way: Way, script: list[Line]) -> Heard:
    """Held by the Python SDK."""

    noise: list[str] = []

    async def note(message: object) -> None:
        if isinstance(message, Exception):
            noise.append(str(message))

    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        if isinstance(way, Stdio):
            server = StdioServerParameters(command=way.command, args=list(way.args), env=dict(way.env), cwd=way.cwd)
            async with Client(stdio_client(server), mode=mode, message_handler=note) as client:
                yield client
        else:
            headers = {"Authorization": f"Bearer {way.token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
                Client(streamable_http_client(way.url, http_client=http), mode=mode, message_handler=note) as client,
            ):
                yield client

    async def call(client: Client, line: Line) -> Heard:
        try:
            return _wire(await client.call_tool(line["tool"], line["arguments"]))
        except MCPError as refused:
            return {"error": {"code": refused.error.code, "message": refused.error.message}}

    async with asyncio.timeout(PATIENCE_S):
        async with connected() as client:
            heard: Heard = {
                "noise": noise,
                "revision": client.protocol_version,
                "server": _wire(client.server_info),
                "instructions": client.instructions,
                "tools": [_wire(tool) for tool in (await client.list_tools()).tools],
                "answers": [await call(client, line) for line in script],
            }
        async with connected() as client:
            heard["again"] = await call(client, script[0])
    return heard


async def typescript(sdk: Literal["1", "2", "2 auto"], way: Way, script: list[Line]) -> Heard:
    """Held by a TypeScript SDK, in a process of its own."""
    order: Heard = {"sdk": sdk, "script": script}
    if isinstance(way, Http):
        order |= {"url": way.url, "token": way.token}
    else:
        order |= {"command": way.command, "args": way.args, "env": dict(way.env), "cwd": str(way.cwd)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        NODE, JS / "client.mjs", stdin=pipe, stdout=pipe, stderr=pipe, cwd=JS
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            out, errors = await process.communicate(json.dumps(order).encode())
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


def told(heard: Heard) -> Heard:
    """What the server said, without what a revision or a client adds: comparable between all of them."""
    return {
        "server": {name: heard["server"][name] for name in ("name", "version")},
        "instructions": heard["instructions"],
        "tools": [
            {name: tool.get(name) for name in ("name", "description", "inputSchema", "outputSchema", "annotations")}
            for tool in heard["tools"]
        ],
        "answers": [_answer(answer) for answer in heard["answers"]],
        "again": _answer(heard["again"]),
    }


def _answer(answer: Heard) -> Heard:
    if "error" in answer:
        return answer
    return {
        "is_error": answer.get("isError") or False,
        "content": answer["content"],
        "structured": answer.get("structuredContent"),
        "meta": {name: value for name, value in (answer.get("_meta") or {}).items() if name.startswith(OURS)},
    }


def _wire(model: BaseModel | None) -> Heard:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True) if model is not None else {}
