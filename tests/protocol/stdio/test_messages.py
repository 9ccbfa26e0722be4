"""Headers as the SDK would write and read them, and the answers of the relay's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, encode_header_value

from sidecar.protocol import envelope
from sidecar.protocol.stdio import messages
from sidecar.protocol.stdio.call import Call
from tests.eras import ENVELOPE, MODERN

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT)
@example(" edge ")
@example("=?base64?YQ==?=")
@example("=?base64?\n?=")
@example("a\r\nX-Evil: 1")
@example("")
def test_a_header_value_is_written_as_the_sdk_does(value: str) -> None:
    written = messages.header_value(value)
    assert written == encode_header_value(value)
    assert written.isascii() and written.isprintable()


@given(st.sampled_from(["tools/call", "resources/read", "prompts/get", "tools/list"]), TEXT)
def test_the_headers_of_an_envelope_are_what_the_sdk_asks_for(method: str, name: str) -> None:
    named = {"resources/read": {"uri": name}, "tools/list": {}}.get(method, {"name": name})
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**named, "_meta": ENVELOPE}}
    message = envelope.read(body)
    version = messages.modern_version(message)
    assert version == MODERN
    headers = {key.lower(): value for key, value in messages.modern_headers(message, version).items()}
    assert isinstance(classify_inbound_request(body, headers=headers), InboundModernRoute)


def test_the_relays_own_request_is_one_the_sdk_takes() -> None:
    body, headers = messages.tool_list_request()
    lowered = {key.lower(): value for key, value in headers.items()}
    assert isinstance(classify_inbound_request(json.loads(body), headers=lowered), InboundModernRoute)


@pytest.mark.parametrize(
    "params", [None, {}, {"_meta": None}, {"_meta": []}, {"_meta": {}}, {"_meta": {messages._VERSION_KEY: 5}}]
)
def test_without_a_whole_envelope_a_request_is_of_the_older_era(params: Any) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    assert messages.modern_version(envelope.read({k: v for k, v in body.items() if v is not None})) is None


def call(method: str = "tools/call") -> Call:
    message = envelope.read({"jsonrpc": "2.0", "id": "x", "method": method, "params": {"name": "write_note"}})
    return Call(message, b"", None)


@pytest.mark.parametrize(
    ("status", "reply", "text"),
    [
        (413, b'{"error":"too_large","message":"Too large."}', "Too large."),
        (503, b"<html>", "The daemon refused with status 503."),
        (500, b"[]", "The daemon refused with status 500."),
    ],
)
def test_a_refusal_of_the_http_edge_becomes_an_answer(status: int, reply: bytes, text: str) -> None:
    of_tool = json.loads(messages.as_answer(call(), status, reply))
    assert of_tool["id"] == "x"
    assert of_tool["result"] == {"content": [{"type": "text", "text": text}], "isError": True}
    of_other = json.loads(messages.as_answer(call("ping"), status, reply))
    assert of_other == {"jsonrpc": "2.0", "id": "x", "error": {"code": -32603, "message": text}}


def test_an_answer_that_is_one_is_left_as_it_is() -> None:
    for status, reply in ((200, b"anything"), (400, b'{"jsonrpc":"2.0", "id":"x","error":{}}')):
        assert messages.as_answer(call(), status, reply) is reply


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([{"name": "write_note", "annotations": {"readOnlyHint": True}}], True),
        ([{"name": "write_note", "annotations": {"readOnlyHint": False}}], False),
        ([{"name": "write_note", "annotations": {"readOnlyHint": "yes"}}], False),
        ([{"name": "write_note", "annotations": None}], False),
        ([{"name": "write_note"}], False),
        ([{"name": "other", "annotations": {"readOnlyHint": True}}], False),
        ([5], False),
        (None, False),
    ],
)
def test_only_a_tool_that_is_said_to_read_only_is(tools: Any, expected: bool) -> None:
    assert messages.is_read_only(json.dumps({"result": {"tools": tools}}).encode(), "write_note") is expected


def test_rubbish_is_no_list_of_tools() -> None:
    for reply in (b"", b"[]", b"nonsense", b'{"result":5}'):
        assert not messages.is_read_only(reply, "write_note")
