"""A path with sessions, over stdio: the client knows nothing of them, and is served for as long as it likes."""

from __future__ import annotations

import pytest

from sidecar.contract import single
from sidecar.protocol.http import McpPath
from sidecar.protocol.server import build_server
from tests import lab as the_lab
from tests import wire
from tests.lab import Running, wait_until
from tests.protocol.stdio.conftest import Rig, another_lab
from tests.stdio import Pipes

PATH = "/mcp/stateful"


def connected(rig: Rig) -> Pipes:
    client, _ = rig.relay(path=PATH)
    rig.until_found()
    client.shake_hands()
    return client


def test_all_requests_of_a_client_go_by_one_session(rig: Rig, lab: Running) -> None:
    client = connected(rig)
    for number in range(5):
        assert client.text("echo", text=str(number)) == str(number)
    assert lab.on_loop(lambda: len(lab.sessions)) == 1


def test_without_the_session_the_path_would_answer_nothing(lab: Running) -> None:
    """Control of the above."""
    assert wire.post(lab.port, lab.local_key.decode(), wire.tool("echo", text="x"), PATH).status == 400


def test_a_session_that_has_ended_is_opened_anew_and_nothing_is_done_twice(rig: Rig, lab: Running) -> None:
    client = connected(rig)

    def end_all() -> None:
        for session in lab.sessions:
            lab.sessions.end(session)

    for calls in range(1, 4):
        lab.on_loop(end_all)
        assert client.text("echo", text="x") == "x"
        assert lab.lab.calls == calls
        assert lab.on_loop(lambda: len(lab.sessions)) == 1


def test_many_calls_that_meet_an_ended_session_at_once_are_all_answered(rig: Rig, lab: Running) -> None:
    client = connected(rig)
    lab.on_loop(lambda: [lab.sessions.end(session) for session in lab.sessions])
    calls = [client.begin("tools/call", {"name": "echo", "arguments": {"text": str(n)}}) for n in range(30)]
    for number, call in enumerate(calls):
        assert client.answer(call)["result"]["content"][0]["text"] == str(number)


def test_the_next_daemon_gets_a_handshake_of_its_own(rig: Rig) -> None:
    client, _ = rig.relay(path=PATH, start=lambda: None)
    with another_lab(rig.state):
        rig.until_found()
        client.shake_hands(protocolVersion="2025-06-18")
        assert client.text("echo", text="one") == "one"
    with another_lab(rig.state) as second:
        assert client.text("echo", text="two") == "two"
        [session] = second.on_loop(lambda: list(second.sessions))
        assert session.revision == "2025-06-18"
        client.hear("notifications/tools/list_changed")
        assert client.others == [] and client._answers == {}, "nothing of that handshake reaches the client"


@pytest.mark.parametrize("modern", [False, True])
def test_a_call_in_a_session_is_cancelled_too(rig: Rig, lab: Running, modern: bool) -> None:
    client = connected(rig)
    slow = client.begin("tools/call", {"name": "slow", "arguments": {}}, modern=modern)
    wait_until(lambda: lab.on_loop(lab.lab.entered.is_set))
    client.notify("notifications/cancelled", requestId=slow)
    wait_until(lambda: lab.on_loop(lab.lab.cancelled.is_set))
    client.text("echo", text="x")
    assert client.others == [] and client._answers == {}


def test_news_of_the_tools_come_once(rig: Rig, lab: Running) -> None:
    client = connected(rig)
    lab.tools_changed()
    client.hear("notifications/tools/list_changed")
    client.text("echo", text="x")
    assert client.others == []


def test_a_handshake_with_the_catalogue_is_made_up_for_when_a_daemon_comes(rig: Rig) -> None:
    catalogue = build_server(single(the_lab.STATEFUL), the_lab.Lab().core)
    client, _ = rig.relay(path=PATH, stand_in=lambda: McpPath(catalogue))
    client.shake_hands()
    with another_lab(rig.state) as late:
        client.hear("notifications/tools/list_changed")
        assert client.text("echo", text="x") == "x"
        assert late.on_loop(lambda: len(late.sessions)) == 1
