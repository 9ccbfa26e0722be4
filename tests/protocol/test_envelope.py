from __future__ import annotations

from typing import Any

import pytest

from sidecar.protocol.envelope import BadMessage, Message, read


def test_a_request_has_a_method_and_an_id() -> None:
    value = {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": 1}}
    assert read(value) == Message("request", "ping", 7, {"a": 1})


def test_a_notification_has_no_id() -> None:
    assert read({"jsonrpc": "2.0", "method": "notifications/initialized"}).kind == "notification"


@pytest.mark.parametrize("member", ["result", "error"])
def test_a_response_has_no_method(member: str) -> None:
    assert read({"jsonrpc": "2.0", "id": "a", member: {}}) == Message("response", "", "a", None, {member: {}})


@pytest.mark.parametrize("message_id", ["", "x" * 1000, 0, -1, 2**63 - 1])
def test_usable_ids_come_back_as_they_are(message_id: Any) -> None:
    assert read({"jsonrpc": "2.0", "id": message_id, "method": "ping"}).id == message_id


@pytest.mark.parametrize(
    "message_id",
    [None, {}, [], True, 1.5, 2**63, "x" * 1001],
    ids=["null", "object", "array", "true", "fraction", "65 bits", "long text"],
)
def test_unusable_ids_are_refused_and_never_taken_for_a_notification(message_id: Any) -> None:
    with pytest.raises(BadMessage, match="id: ") as refused:
        read({"jsonrpc": "2.0", "id": message_id, "method": "ping"})
    assert refused.value.id is None


@pytest.mark.parametrize(
    "value",
    [[], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}], "x", 1, None, True, {}],
    ids=["empty batch", "batch", "text", "number", "null", "true", "empty object"],
)
def test_what_is_no_single_message_is_refused(value: Any) -> None:
    with pytest.raises(BadMessage):
        read(value)


@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": None},
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"method": None},
        {"method": 5},
        {"params": []},
        {"params": "x"},
    ],
    ids=repr,
)
def test_a_refused_message_keeps_its_id_for_the_reply(change: dict[str, Any]) -> None:
    with pytest.raises(BadMessage) as refused:
        read({"jsonrpc": "2.0", "id": 7, "method": "ping"} | change)
    assert refused.value.id == 7
