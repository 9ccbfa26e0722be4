"""What becomes of a tool's answers and errors, seen by a client."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sidecar import __version__
from sidecar.calling import FAILED
from tests import wire
from tests.lab import SECRET_PATH, Running


def result(lab: Running, name: str, path: str = "/mcp", **arguments: Any) -> dict[str, Any]:
    reply = wire.post(lab.port, lab.token, wire.tool(name, **arguments), path)
    assert reply.status == 200, reply
    return reply.json()["result"]


def text_of(answer: dict[str, Any]) -> str:
    [block] = answer["content"]
    assert block["type"] == "text"
    return block["text"]


def test_the_server_names_itself_and_its_version(lab: Running) -> None:
    answer = wire.post(lab.port, lab.token, wire.INITIALIZE).json()["result"]
    assert answer["serverInfo"] == {"name": "vault-sidecar", "version": __version__}
    assert answer["instructions"] == "Tools for tests."
    assert answer["capabilities"] == {"tools": {"listChanged": False}}


def test_tools_are_listed_in_the_order_of_the_surface(lab: Running) -> None:
    listed = wire.post(lab.port, lab.token, wire.call("tools/list")).json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == [
        "echo",
        "add",
        "refuse",
        "crash",
        "slow",
        "who",
        "work",
        "flood",
        "large",
    ]


def test_a_tool_shows_its_schemas_and_whether_it_only_reads(lab: Running) -> None:
    listed = wire.post(lab.port, lab.token, wire.call("tools/list")).json()["result"]["tools"]
    tools = {tool["name"]: tool for tool in listed}
    assert "outputSchema" not in tools["echo"]
    assert tools["add"]["inputSchema"]["properties"]["a"]["maximum"] == 100
    assert tools["add"]["inputSchema"]["additionalProperties"] is False
    assert tools["echo"]["annotations"] == {"readOnlyHint": True}
    assert tools["slow"]["annotations"] == {"readOnlyHint": False}


def test_no_schema_asks_for_headers_that_mirror_arguments(lab: Running) -> None:
    # such headers would have to be checked against the body, which the handler leaves out
    listed = wire.post(lab.port, lab.token, wire.call("tools/list"))
    assert b"x-mcp-header" not in listed.body


def test_a_text_answer_is_one_block_with_its_facts_beside_it(lab: Running) -> None:
    answer = result(lab, "echo", text="Ζ\u2028\N{GRINNING FACE}")
    assert text_of(answer) == "Ζ\u2028\N{GRINNING FACE}"
    assert answer["_meta"] == {"lab/length": 3}
    assert "structuredContent" not in answer


def test_an_empty_text_is_an_empty_block(lab: Running) -> None:
    assert text_of(result(lab, "echo", text="")) == ""


def test_a_structured_answer_comes_with_the_same_json_as_text(lab: Running) -> None:
    answer = result(lab, "add", a=2)
    assert answer["structuredContent"] == {"total": 3, "remark": None}
    assert json.loads(text_of(answer)) == answer["structuredContent"]
    listed = wire.post(lab.port, lab.token, wire.call("tools/list")).json()["result"]["tools"]
    Draft202012Validator(listed[1]["outputSchema"]).validate(answer["structuredContent"])


def test_an_error_of_ours_is_a_tool_error_with_its_sentence(lab: Running) -> None:
    answer = result(lab, "refuse")
    assert answer["isError"] is True
    assert text_of(answer) == "There is no note 'Plan.md'."
    assert "structuredContent" not in answer


def test_a_mistake_of_ours_is_one_fixed_sentence_and_a_logged_trace(
    lab: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = result(lab, "crash")
    assert answer["isError"] is True
    assert text_of(answer) == FAILED
    assert SECRET_PATH in caplog.text


def test_arguments_are_checked_before_the_tool_runs(lab: Running) -> None:
    answer = result(lab, "echo", text=5, colour="red")
    assert answer["isError"] is True
    assert text_of(answer) == "text: must be text.\ncolour: is not an argument of echo."
    assert lab.lab.calls == 0


def test_a_tool_without_arguments_is_called_without_any(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, wire.call("tools/call", {"name": "refuse"}))
    assert text_of(reply.json()["result"]) == "There is no note 'Plan.md'."


def test_a_tool_knows_who_calls(lab: Running) -> None:
    assert text_of(result(lab, "who")) == "local of local"


def test_numbers_follow_the_rule_of_their_surface(lab: Running) -> None:
    assert result(lab, "add", a=500)["isError"] is True
    assert result(lab, "add", "/mcp/clamping", a=500, b="x")["structuredContent"]["total"] == 101


@pytest.mark.parametrize("name", ["nope", "", "ECHO", "gated"])
def test_a_tool_that_is_not_listed_is_a_protocol_error(lab: Running, name: str) -> None:
    answer = wire.post(lab.port, lab.token, wire.tool(name)).json()
    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"] == f"Unknown tool: {name}"


def test_an_unknown_name_is_repeated_cut_and_without_control_characters(lab: Running) -> None:
    message = wire.post(lab.port, lab.token, wire.tool("a\n\u2028" + "x" * 500)).json()["error"]["message"]
    assert message == "Unknown tool: a\\n\\u2028" + "x" * 77 + "…"


def test_a_gated_tool_comes_and_goes_without_reconnecting(lab: Running) -> None:
    def listed() -> bool:
        tools = wire.post(lab.port, lab.token, wire.call("tools/list")).json()["result"]["tools"]
        return "gated" in [tool["name"] for tool in tools]

    assert not listed()
    lab.lab.gate_open = True
    assert listed()
    assert text_of(result(lab, "gated", text="in")) == "in"
    lab.lab.gate_open = False
    assert not listed()
    assert wire.post(lab.port, lab.token, wire.tool("gated", text="in")).json()["error"]["code"] == -32602


def test_the_list_has_one_page(lab: Running) -> None:
    answer = wire.post(lab.port, lab.token, wire.call("tools/list", {"cursor": "2"})).json()
    assert answer["error"]["code"] == -32602
