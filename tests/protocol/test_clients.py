"""The stock client of the Python SDK, in both of its modes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.lab import Running, running

Mode = Literal["legacy", "auto"]


@asynccontextmanager
async def connected(
    lab: Running, mode: Mode, token: str | None = None, path: str = "", **more: Any
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token or lab.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(lab.url + path, http_client=http), mode=mode, **more) as client,
    ):
        yield client


def text(result: Any) -> str:
    [block] = result.content
    return block.text


@pytest.mark.parametrize("mode, revision", [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_client_negotiates_the_revision_of_its_mode(mode: Mode, revision: str) -> None:
    async with running() as lab, connected(lab, mode) as client:
        assert client.protocol_version == revision
        assert client.server_info is not None and client.server_info.name == "vault-sidecar"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_client_lists_and_calls(mode: Mode) -> None:
    async with running() as lab, connected(lab, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["echo", "add"]
        assert text(await client.call_tool("echo", {"text": "hi"})) == "hi"
        added = await client.call_tool("add", {"a": 1})
        assert added.structured_content == {"total": 2, "remark": None}
        refused = await client.call_tool("refuse", {})
        assert refused.is_error and text(refused) == "There is no note 'Plan.md'."
        with pytest.raises(MCPError, match="Unknown tool: nope"):
            await client.call_tool("nope", {})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_client_sees_a_tool_come_and_go(mode: Mode) -> None:
    async with running() as lab, connected(lab, mode) as client:
        lab.lab.gate_open = True
        assert "gated" in [tool.name for tool in (await client.list_tools()).tools]
        lab.lab.gate_open = False
        with pytest.raises(MCPError, match="Unknown tool: gated"):
            await client.call_tool("gated", {"text": "x"})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_with_a_wrong_token_does_not_connect(mode: Mode) -> None:
    async with running() as lab:
        with pytest.raises(Exception) as refused:
            async with connected(lab, mode, token="x" * 40):
                pass
        assert lab.refused
        assert refused.value


# --- the path that requires sessions ---


@pytest.mark.parametrize("mode, sessions", [("legacy", 1), ("auto", 0)])
async def test_the_client_keeps_its_session_and_ends_it(mode: Mode, sessions: int) -> None:
    async with running() as lab:
        async with connected(lab, mode, path="/stateful") as client:
            assert text(await client.call_tool("echo", {"text": "hi"})) == "hi"
            assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["echo", "add"]
            assert len(lab.sessions) == sessions
        assert len(lab.sessions) == 0


@pytest.mark.parametrize("path", ["", "/stateful"], ids=["stateless", "sessions"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_client_is_told_how_far_a_call_is(mode: Mode, path: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    async with running() as lab, connected(lab, mode, path=path) as client:
        answer = await client.call_tool("work", {"steps": 4}, progress_callback=progress)
        assert text(answer) == "done"
        # the client runs the callback in tasks of their own
        async with asyncio.timeout(30):
            while len(seen) < 4:
                await asyncio.sleep(0.01)
    assert sorted(seen) == [(1, 4, None), (2, 4, "half way"), (3, 4, None), (4, 4, None)]


async def test_the_client_of_a_session_hears_that_the_tools_have_changed() -> None:
    heard = asyncio.Event()

    async def on_message(message: object) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            heard.set()

    async with running() as lab, connected(lab, "legacy", path="/stateful", message_handler=on_message) as client:
        capabilities = client.server_capabilities
        assert capabilities is not None and capabilities.tools is not None and capabilities.tools.list_changed
        async with asyncio.timeout(30):
            while lab.mounts["/mcp/stateful"].streams == 0:  # it opens its stream in the background
                await asyncio.sleep(0.01)
            lab.lab.gate_open = True
            await lab.app.tools_changed()
            await heard.wait()
        assert "gated" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("path", ["", "/stateful"], ids=["stateless", "sessions"])
async def test_the_client_of_the_newest_revision_hears_that_the_tools_have_changed(path: str) -> None:
    async with (
        running() as lab,
        connected(lab, "auto", path=path) as client,
        client.listen(tools_list_changed=True) as events,
        asyncio.timeout(30),
    ):
        await lab.app.tools_changed()
        assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"


@pytest.mark.parametrize("mode, path", [("legacy", "/stateful"), ("auto", ""), ("auto", "/stateful")])
async def test_a_call_that_the_client_gives_up_is_cancelled(mode: Mode, path: str) -> None:
    async with running() as lab, connected(lab, mode, path=path) as client:
        call = asyncio.create_task(client.call_tool("slow", {}))
        async with asyncio.timeout(30):
            await lab.lab.entered.wait()
            call.cancel()
            await asyncio.wait({call})
            await lab.lab.cancelled.wait()
        assert text(await client.call_tool("echo", {"text": "still here"})) == "still here"


async def test_the_client_of_a_session_that_has_ended_is_told_so() -> None:
    async with running() as lab, connected(lab, "legacy", path="/stateful") as client:
        [session] = lab.sessions
        lab.sessions.end(session)
        with pytest.raises(MCPError, match="There is no such session"):
            await client.call_tool("echo", {"text": "hi"})
