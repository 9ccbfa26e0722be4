"""The stock client of the Python SDK, in both of its modes."""

from __future__ import annotations

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
async def connected(lab: Running, mode: Mode, token: str | None = None) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token or lab.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=5) as http,
        Client(streamable_http_client(lab.url, http_client=http), mode=mode) as client,
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
