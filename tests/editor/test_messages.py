"""Lines as messages, and messages as lines, by the protocol's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bridge.pipe import LONGEST_LINE
from sidecar.editor import messages
from sidecar.editor.messages import BadMessage, Request
from sidecar.editor.problems import Refusal, problem
from tests.editor import law


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


@pytest.mark.parametrize(
    ("given", "number", "message_id"),
    [
        pytest.param(None, -32600, None, id="too long"),
        pytest.param(b"plum", -32700, None, id="no JSON"),
        pytest.param(b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, None, id="no UTF-8"),
        pytest.param('{"jsonrpc": "2.0"}'.encode("utf-16"), -32700, None, id="UTF-16"),
        pytest.param(b"[" * 100_000, -32700, None, id="nested"),
        pytest.param(b"[" + line(id=1, method="status") + b"]", -32600, None, id="batch"),
        pytest.param(b"null", -32600, None, id="null"),
        pytest.param(b'{"id": 7, "method": "status"}', -32600, 7, id="no version"),
        pytest.param(b'{"jsonrpc": "1.0", "id": 7, "method": "status"}', -32600, 7, id="other version"),
        pytest.param(line(id=7), -32600, 7, id="no method"),
        pytest.param(line(id="seven", method=7), -32600, "seven", id="method no text"),
        pytest.param(line(id=None, method="status"), -32600, None, id="id null"),
        pytest.param(line(id=True, method="status"), -32600, None, id="id no number"),
        pytest.param(line(id=1.5, method="status"), -32600, None, id="id no whole number"),
        pytest.param(line(id="x" * 129, method="status"), -32600, None, id="id too long"),
        pytest.param(line(id={}, method="status"), -32600, None, id="id an object"),
        pytest.param(line(id=7, method="status", params=[]), -32602, 7, id="params a list"),
        pytest.param(line(id=7, method="status", params=None), -32602, 7, id="params null"),
    ],
)
def test_a_line_that_is_no_request_is_refused_with_what_it_says_of_itself(
    given: bytes | None, number: int, message_id: object
) -> None:
    with pytest.raises(BadMessage) as bad:
        messages.read(given)
    assert (bad.value.number, bad.value.id) == (number, message_id)
    answer = json.loads(messages.failure(bad.value.id, bad.value))
    law.check("failure", answer)
    assert answer["error"]["data"]["code"] == "bad-message"


def test_a_request_is_read_and_a_notification_passed_over() -> None:
    assert messages.read(line(id="a", method="status")) == Request("a", "status", {})
    assert messages.read(line(id=2, method="x", params={"y": 1})) == Request(2, "x", {"y": 1})
    assert messages.read(line(method="status")) is None


@given(st.text(st.characters(codec=None)))
def test_whatever_an_answer_holds_it_is_one_line_that_any_reader_understands(text: str) -> None:
    made = messages.success(1, {"text": text})
    assert b"\n" not in made and b"\r" not in made
    assert json.loads(made.decode("utf-8"))["result"] == {"text": text}


def test_an_answer_that_has_no_room_in_a_line_says_so() -> None:
    room = LONGEST_LINE - len(messages.success(1, {"text": ""}))
    assert len(messages.success(1, {"text": "x" * room})) == LONGEST_LINE
    answer = json.loads(messages.success(1, {"text": "x" * (room + 1)}))
    law.check("failure", answer)
    assert answer["error"]["data"]["code"] == "too-large"


def test_a_refusal_goes_out_with_its_data() -> None:
    refusal = Refusal(problem("port", "port 1 is used", "Choose another port.", command="x", port=2000))
    answer = json.loads(messages.failure(1, refusal))
    law.check("failure", answer)
    assert answer["error"] == {
        "code": -32000,
        "message": "Port 1 is used.",
        "data": {
            "code": "port",
            "reason": "Port 1 is used.",
            "fix": "Choose another port.",
            "command": "x",
            "suggestPort": 2000,
        },
    }
