"""A handler that asks its client something while the call runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from sidecar.protocol.envelope import Message
from sidecar.protocol.http import McpPath
from sidecar.protocol.questions import Questions
from sidecar.protocol.sessions import Sessions
from sidecar.protocol.streams import EventStream
from tests import wire
from tests.conformance import everything
from tests.eras import next_event
from tests.lab import Running, running

ASKING = wire.tool("test_elicitation", message="How many?")
YES = {"action": "accept", "content": {"response": "7"}}


async def nothing() -> None:
    pass


class Client:
    """One client by hand, at a path whose tools ask."""

    def __init__(self, lab: Running, http: httpx2.AsyncClient, path: str) -> None:
        self.http = http
        self.url = f"http://127.0.0.1:{lab.port}{path}"
        self.headers = wire.mcp_headers(lab.port, lab.token)

    async def shake_hands(self) -> Client:
        reply = await self.post(wire.INITIALIZE)
        self.headers["Mcp-Session-Id"] = reply.headers["Mcp-Session-Id"]
        return self

    async def post(self, body: bytes, **headers: str) -> httpx2.Response:
        return await self.http.post(self.url, content=body, headers=self.headers | headers)

    async def answer(self, question: dict[str, Any], **reply: Any) -> None:
        response = await self.post(json.dumps({"jsonrpc": "2.0", "id": question["id"], **reply}).encode())
        assert (response.status_code, response.content) == (202, b"")

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[tuple[dict[str, Any], AsyncIterator[str]]]:
        """A call that asks: the question, and the lines after it."""
        async with self.http.stream("POST", self.url, content=ASKING, headers=self.headers) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            lines = response.aiter_lines()
            yield await next_event(lines), lines


@asynccontextmanager
async def two_clients() -> AsyncIterator[tuple[Client, Client]]:
    """Two sessions of one token."""
    path = McpPath(everything.build(nothing, nothing), Sessions())
    async with running(more={"/asking": path}) as lab, httpx2.AsyncClient(timeout=30) as http:
        yield await Client(lab, http, "/asking").shake_hands(), await Client(lab, http, "/asking").shake_hands()


async def test_a_question_goes_out_on_its_own_call_and_the_answer_comes_back_to_it() -> None:
    async with two_clients() as (client, _), client.asking() as (question, lines):
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "How many?"
        await client.answer(question, result=YES)
        text = (await next_event(lines))["result"]["content"][0]["text"]
        assert text == 'Elicitation completed: action=accept, content={"response": "7"}'


async def test_calls_of_one_session_each_get_their_own_answer() -> None:
    async with two_clients() as (client, _), client.asking() as (first, one), client.asking() as (second, two):
        assert first["id"] != second["id"]
        await client.answer(second, result={"action": "decline"})
        await client.answer(first, result=YES)
        assert "accept" in (await next_event(one))["result"]["content"][0]["text"]
        assert "decline" in (await next_event(two))["result"]["content"][0]["text"]


async def test_another_session_can_not_answer() -> None:
    async with two_clients() as (client, other), client.asking() as (question, lines):
        await other.answer(question, result={"action": "accept", "content": {"response": "forged"}})
        await client.answer(question | {"id": "question-999"}, result=YES)  # of no call at all
        await client.answer(question, result=YES)
        assert '"7"' in (await next_event(lines))["result"]["content"][0]["text"]


async def test_the_first_answer_counts() -> None:
    async with two_clients() as (client, _), client.asking() as (question, lines):
        await client.answer(question, result=YES)
        await client.answer(question, result={"action": "decline"})
        assert "accept" in (await next_event(lines))["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        ({"error": {"code": -1, "message": "User rejected it"}}, -1, "User rejected it"),
        ({"error": "no"}, -32600, "The client's response has neither a result nor an error."),
        ({"result": [1]}, -32600, "The client's response has neither a result nor an error."),
    ],
    ids=["an error", "no error object", "no result object"],
)
async def test_what_is_no_result_ends_the_call(reply: dict[str, Any], code: int, message: str) -> None:
    async with two_clients() as (client, _), client.asking() as (question, lines):
        await client.answer(question, **reply)
        assert (await next_event(lines))["error"] == {"code": code, "message": message}


async def test_a_session_that_ends_takes_its_questions_along() -> None:
    async with two_clients() as (client, _), client.asking() as (_, lines):
        assert (await client.http.delete(client.url, headers=client.headers)).status_code == 200
        assert (await next_event(lines))["error"]["code"] == -32800


async def test_a_client_without_a_session_is_never_asked() -> None:
    path = McpPath(everything.build(nothing, nothing))
    async with running(more={"/asking": path}) as lab, httpx2.AsyncClient(timeout=30) as http:
        reply = await Client(lab, http, "/asking").post(ASKING)
    assert reply.headers["Content-Type"] == "application/json"
    assert "elicitation/create" in reply.json()["error"]["message"]


async def test_a_client_that_takes_no_streams_is_never_asked() -> None:
    async with two_clients() as (client, _):
        reply = await client.post(ASKING, Accept="application/json")
        assert "elicitation/create" in reply.json()["error"]["message"]


class Sent:
    """Stands where a stream stands, and keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


async def test_a_client_that_does_not_answer_is_not_waited_for_without_end() -> None:
    questions, stream = Questions(), Sent()
    with pytest.raises(MCPError, match="The client did not answer roots/list in time"):
        await questions.ask(cast("EventStream", stream), "roots/list", None, within_s=0.01)
    [sent] = stream.messages
    assert sent == {"jsonrpc": "2.0", "id": "question-1", "method": "roots/list"}
    questions.answer(Message("response", "", "question-1", None, {"result": {}}))  # too late: dropped


async def test_a_question_that_is_given_up_leaves_nothing_behind() -> None:
    questions, stream = Questions(), Sent()
    asking = asyncio.create_task(questions.ask(cast("EventStream", stream), "roots/list", {}))
    while not stream.messages:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not questions._waiting
