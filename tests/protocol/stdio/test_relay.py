"""A relay against the lab's daemon: what comes out is what HTTP answers, and what stdio adds to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from sidecar.bridge.client import NotRunning
from sidecar.contract import single
from sidecar.protocol.http import McpPath
from sidecar.protocol.server import build_server
from sidecar.protocol.stdio import link, relay
from sidecar.protocol.stdio.messages import header_value
from sidecar.protocol.stdio.post import Broken, Post
from sidecar.protocol.stdio.relay import MOST_CALLS
from tests import lab as the_lab
from tests import wire
from tests.eras import HANDSHAKE, MODERN
from tests.eras import modern as modern_over_http
from tests.lab import Running, wait_until
from tests.protocol.stdio.conftest import Rig, another_lab
from tests.stdio import HELLO, PATIENCE_S

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": 'Zürich 潮音 \u2028 \\ " \n\t\u0001'}}),
    ("tools/call", {"name": "add", "arguments": {"a": 1}}),
    ("tools/call", {"name": "add", "arguments": {"a": "x", "c": 1}}),
    ("tools/call", {"name": "refuse", "arguments": {}}),
    ("tools/call", {"name": "crash", "arguments": {}}),
    ("tools/call", {"name": "gated", "arguments": {}}),
    ("tools/call", {"name": "nö-such-tool\n", "arguments": {}}),
    ("tools/call", {"name": 5}),
    ("tools/call", {}),
    ("tools/list", {"cursor": "x"}),
    ("no/such/method", {}),
    ("resources/list", {}),
]
IDS = [f"{method}-{number}" for number, (method, _) in enumerate(CALLS)]


# both eras


@pytest.mark.parametrize("call", CALLS, ids=IDS)
@pytest.mark.parametrize("revision", [None, *HANDSHAKE])
def test_an_answer_is_that_of_http_byte_for_byte(
    rig: Rig, lab: Running, revision: str | None, call: tuple[str, dict[str, Any]]
) -> None:
    client, _ = rig.relay()
    headers = {}
    if revision is not None:
        assert client.shake_hands(protocolVersion=revision)["protocolVersion"] == revision
        headers = {"MCP-Protocol-Version": revision}
    line = wire.call(*call, message_id="same")
    client.send(line)
    assert client.answer_line("same") == wire.post(lab.port, lab.token, line, **headers).body


@pytest.mark.parametrize("call", [*CALLS, ("server/discover", {})], ids=[*IDS, "discover"])
def test_an_answer_of_the_newest_revision_is_that_of_http_byte_for_byte(
    rig: Rig, lab: Running, call: tuple[str, dict[str, Any]]
) -> None:
    client, _ = rig.relay()
    method, params = call
    name = params.get("name")
    client.begin(method, params, modern=True)
    line = client.answer_line(1)
    headers = {"Mcp_Name": header_value(name)} if isinstance(name, str) else {"Mcp_Name": ""}
    assert json.loads(line) == modern_over_http(lab, method, params, **headers).json()


def test_both_eras_share_one_relay(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    assert "capabilities" in client.ask("server/discover", modern=True)["result"]
    client.shake_hands()
    assert client.text("echo", text="old") == "old"
    assert client.call("echo", modern=True, text="new")["content"][0]["text"] == "new"


def test_an_unknown_revision_in_an_envelope_is_refused_as_over_http(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    answer = client.ask("tools/list", {"_meta": meta}, modern=True)
    assert answer["error"]["code"] == -32022
    assert MODERN in answer["error"]["data"]["supported"]


@pytest.mark.parametrize("version", ["2026-07-28\r\nX-Evil: 1", "ü", 5, None])
def test_a_version_that_fits_no_header_is_an_error_and_no_more(rig: Rig, lab: Running, version: Any) -> None:
    client, _ = rig.relay()
    meta = {"io.modelcontextprotocol/protocolVersion": version}
    assert "error" in client.ask("tools/list", {"_meta": meta}, modern=True)
    assert client.tools()


def test_a_method_that_fits_no_header_is_an_error_and_no_more(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    assert "error" in client.ask("tools/list\r\nX-Evil: 1", modern=True)
    assert client.tools()


# what stdio adds


def test_the_handshake_promises_news_of_the_tools_and_they_come(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    rig.until_found()
    assert client.shake_hands()["capabilities"]["tools"] == {"listChanged": True}
    lab.tools_changed()
    assert client.hear("notifications/tools/list_changed")["params"] == {}


def test_before_the_handshake_there_is_no_news(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    assert client.tools()
    rig.until_found()
    lab.tools_changed()
    wait_until(lambda: rig.relays[-1].changes == 2)
    client.shake_hands()
    assert client.others == []


def test_a_subscription_hears_of_a_change(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    listening = listen(client)
    lab.tools_changed()
    heard = client.hear("notifications/tools/list_changed")
    assert heard["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": listening}


def test_a_cancelled_subscription_hears_no_more(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    client.notify("notifications/cancelled", requestId=listen(client))
    wait_until(lambda: lab.on_loop(lambda: not lab.mounts["/mcp"].streams))
    lab.tools_changed()
    client.text("echo", text="x")
    assert client.others == []


@pytest.mark.parametrize("modern", [False, True])
def test_progress_comes_before_the_answer(rig: Rig, lab: Running, modern: bool) -> None:
    client, _ = rig.relay()
    call = {"name": "work", "arguments": {"steps": 2}, "_meta": {"progressToken": "p"}}
    answer = client.ask("tools/call", call, modern=modern)
    assert answer["result"]["content"][0]["text"] == "done"
    assert [progress["params"] for progress in client.others] == [
        {"progressToken": "p", "progress": 1, "total": 2, "message": "half way"},
        {"progressToken": "p", "progress": 2, "total": 2},
    ]


def test_a_slow_call_holds_nothing_up(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    slow = client.begin("tools/call", {"name": "slow", "arguments": {}})
    assert client.text("echo", text="meanwhile") == "meanwhile"
    lab.on_loop(lab.lab.leave.set)
    assert client.answer(slow)["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("modern", [False, True])
def test_a_cancelled_call_is_cancelled_at_the_daemon_and_not_answered(rig: Rig, lab: Running, modern: bool) -> None:
    client, _ = rig.relay()
    slow = client.begin("tools/call", {"name": "slow", "arguments": {}}, modern=modern)
    wait_until(lambda: lab.on_loop(lab.lab.entered.is_set))
    client.notify("notifications/cancelled", requestId=slow, reason="enough")
    wait_until(lambda: lab.on_loop(lab.lab.cancelled.is_set))
    client.text("echo", text="x")
    assert client.others == [] and client._answers == {}


@pytest.mark.parametrize("named", [99, "1", None, True, {}])
def test_a_cancellation_of_something_else_changes_nothing(rig: Rig, lab: Running, named: Any) -> None:
    client, _ = rig.relay()
    slow = client.begin("tools/call", {"name": "slow", "arguments": {}})
    client.notify("notifications/cancelled", requestId=named)
    client.text("echo", text="x")
    lab.on_loop(lab.lab.leave.set)
    assert client.answer(slow)["result"]["content"][0]["text"] == "done"


def test_an_id_is_free_as_soon_as_its_answer_is_there(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    for number in range(50):
        client.send(wire.call("tools/call", {"name": "echo", "arguments": {"text": str(number)}}, message_id=7))
        assert client.answer(7)["result"]["content"][0]["text"] == str(number)


def test_an_id_in_use_is_refused(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    slow = client.begin("tools/call", {"name": "slow", "arguments": {}})
    client.send(wire.call("ping", message_id=slow))
    assert client.answer(slow)["error"]["message"] == "id: is that of a request still running."
    lab.on_loop(lab.lab.leave.set)
    assert "result" in client.answer(slow)


def test_more_requests_than_it_has_threads_for_are_refused(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    slow = [client.begin("tools/call", {"name": "slow", "arguments": {}}) for _ in range(MOST_CALLS)]
    assert client.ask("ping")["error"]["message"].startswith(f"{MOST_CALLS} requests are running")
    refused = client.call("echo", text="x")
    assert refused["isError"] and refused["content"][0]["text"].startswith(f"{MOST_CALLS} requests are running")
    lab.on_loop(lab.lab.leave.set)
    for message_id in slow:
        assert "result" in client.answer(message_id)


# what is no request


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
        (b"[" * 2000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"5", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"id":"x","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":"x","method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":"x","method":"ping","params":[]}', -32600),
    ],
)
def test_what_is_no_message_is_an_error(rig: Rig, lab: Running, line: bytes, code: int) -> None:
    client, _ = rig.relay()
    client.send(line)
    answer = json.loads(client.next_line())
    assert answer["error"]["code"] == code
    assert answer["id"] == ("x" if b'"id":"x"' in line else None)
    assert client.tools()


def test_what_needs_no_answer_gets_none(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    for line in (b"", b"  ", b'{"jsonrpc":"2.0","id":9,"result":{}}', b'{"jsonrpc":"2.0","method":"made/up"}'):
        client.send(line)
    client.send(wire.call("ping", message_id="p") + b"\r")
    client.answer("p")
    assert client.others == [] and client._answers == {}


def test_the_last_line_needs_no_end_and_is_answered(rig: Rig, lab: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_LAST_CALLS_S", PATIENCE_S)
    client, _ = rig.relay()
    client.tools()
    client._to.write(wire.call("ping", message_id="last"))
    client.end_input()
    assert json.loads(client.rest().splitlines()[-1])["id"] == "last"


def test_a_path_the_daemon_does_not_serve_is_an_error_that_says_so(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay(path="/mcp/nope")
    answer = client.ask("initialize", HELLO)
    assert answer["error"]["message"] == "There is no such surface, or it is switched off in the settings."


# ends of daemons


def test_a_request_is_sent_again_to_the_next_daemon(rig: Rig) -> None:
    client, starter = rig.relay(start=lambda: None)
    with another_lab(rig.state) as first:
        client.shake_hands()
        assert client.text("echo", text="one") == "one"
        assert first.lab.calls == 1
    started = starter.times
    reading = client.begin("tools/call", {"name": "echo", "arguments": {"text": "two"}})
    wait_until(lambda: starter.times > started)
    with another_lab(rig.state) as second:
        assert client.answer(reading)["result"]["content"][0]["text"] == "two"
        assert second.lab.calls == 1
        client.hear("notifications/tools/list_changed")


def test_a_call_in_flight_that_may_write_is_not_sent_twice(rig: Rig) -> None:
    client, _ = rig.relay(start=lambda: None)
    with another_lab(rig.state) as first:
        slow = client.begin("tools/call", {"name": "slow", "arguments": {}})
        wait_until(lambda: first.on_loop(first.lab.entered.is_set))
    with another_lab(rig.state) as second:
        result = client.answer(slow)["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == (
            "The daemon ended before it had answered. slow may have done its work, or part of it, or nothing;"
            " look before you call it again."
        )
        assert client.text("echo", text="on") == "on"
        assert not second.lab.entered.is_set()


def test_a_call_in_flight_that_only_reads_is_sent_once_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = [tool for tool in the_lab.SURFACE.tools if tool.name != "slow"]
    waits = the_lab.Tool("waits", "Waits.", the_lab.SlowArgs, None, the_lab.slow, read_only=True)
    monkeypatch.setattr(the_lab, "SURFACE", the_lab.Surface("lab", "Tools.", (*reading, waits)))
    client, _ = rig.relay(start=lambda: None)
    with another_lab(rig.state) as first:
        call = client.begin("tools/call", {"name": "waits", "arguments": {}})
        wait_until(lambda: first.on_loop(first.lab.entered.is_set))
    with another_lab(rig.state) as second:
        wait_until(lambda: second.on_loop(second.lab.entered.is_set))
        second.on_loop(second.lab.leave.set)
        assert client.answer(call)["result"]["content"][0]["text"] == "done"


def test_connections_that_break_one_after_the_other_are_not_all_tried(
    rig: Rig, lab: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a killed daemon do, while the system clears it away."""
    kept: list[link.Lent] = []
    give_back = link.Link.give_back

    def give_back_noted(self: link.Link, lent: link.Lent) -> None:
        give_back(self, lent)
        kept.append(lent)

    monkeypatch.setattr(link.Link, "give_back", give_back_noted)
    client, _ = rig.relay()
    calls = [client.begin("tools/call", {"name": "slow", "arguments": {}}) for _ in range(3)]
    wait_until(lambda: lab.listener.connections == 4)  # the fourth is the link's own
    lab.on_loop(lab.lab.leave.set)
    for call in calls:
        assert client.answer(call)["result"]["content"][0]["text"] == "done"
    wait_until(lambda: len(kept) == 3)
    fresh: list[HTTPConnection] = []
    connect, replies = link.client.connect, Post.replies

    def connect_noted(*args: Any) -> HTTPConnection:
        fresh.append(connect(*args))
        return fresh[-1]

    def replies_on_fresh(self: Post, *args: Any) -> Iterator[bytes]:
        if self._connection not in fresh:
            self._connection.close()
            raise Broken
        yield from replies(self, *args)

    monkeypatch.setattr(link.client, "connect", connect_noted)
    monkeypatch.setattr(Post, "replies", replies_on_fresh)
    assert client.text("echo", text="still here") == "still here"
    assert client.tools()


def test_a_subscription_outlives_the_daemon(rig: Rig) -> None:
    client, starter = rig.relay(start=lambda: None)
    with another_lab(rig.state):
        listening = listen(client)
    started = starter.times
    with another_lab(rig.state) as second:
        heard = client.hear("notifications/tools/list_changed")
        assert heard["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": listening}
        second.tools_changed()
        client.hear("notifications/tools/list_changed")
        assert [message for message in client.others if "acknowledged" in message.get("method", "")] == []
        assert listening not in client._answers
    assert starter.times == started, "nobody asked for a daemon"


def test_a_subscription_that_notices_the_end_first_starts_no_daemon(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, looks = threading.Event(), 0
    lines, connect, recorded = link._Stream.lines, link.client.connect, link.client.recorded

    def lines_late(stream: link._Stream) -> Iterator[dict[str, Any]]:
        yield from lines(stream)
        assert refused.wait(PATIENCE_S)

    def connect_noted(*args: Any) -> HTTPConnection:
        try:
            return connect(*args)
        except NotRunning:
            refused.set()
            raise

    def recorded_noted(state: Path) -> Any:
        nonlocal looks
        looks += 1
        return recorded(state)

    monkeypatch.setattr(link._Stream, "lines", lines_late)
    monkeypatch.setattr(link.client, "connect", connect_noted)
    monkeypatch.setattr(link.client, "recorded", recorded_noted)
    client, starter = rig.relay(start=lambda: None)
    with another_lab(rig.state):
        listen(client)
        started, before = starter.times, looks
        refused.clear()
    wait_until(lambda: looks >= before + 2)
    assert starter.times == started


def test_a_connection_that_the_daemon_closed_meanwhile_is_not_used(rig: Rig, lab: Running) -> None:
    client, _ = rig.relay()
    client.text("echo", text="x")

    def close_idle() -> bool:
        """Whether only the link's own is left. One that has just answered may not be idle yet."""
        assert lab.listener._door is not None
        for connection in list(lab.listener._door._open):
            if connection.idle:
                connection.drop()
        return lab.listener.connections == 1

    for _ in range(20):
        wait_until(lambda: lab.on_loop(close_idle))
        slow = client.begin("tools/call", {"name": "slow", "arguments": {}})
        lab.on_loop(lab.lab.leave.set)
        assert client.answer(slow)["result"]["content"][0]["text"] == "done", "not even one that may write"


def test_a_connection_that_is_given_back_after_the_end_is_closed(
    rig: Rig, lab: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.relay()
    monkeypatch.setattr(link._Stream, "cut", lambda _: None)  # the end is not noticed yet
    way = rig.relays[-1]._link
    lent = way.lend()
    way.close()
    way.give_back(lent)
    assert lent.connection.sock is None


# no daemon at all


def catalogue() -> McpPath:
    return McpPath(build_server(single(the_lab.SURFACE), the_lab.Lab().core))


def test_without_a_daemon_the_tools_are_listed_and_a_call_says_why(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_NOT_AGAIN_S", 3600.0)
    client, starter = rig.relay(stand_in=catalogue)
    assert client.shake_hands()["instructions"] == "Tools for tests."
    assert client.tools()[0] == "echo"
    for modern in (False, True):
        result = client.call("echo", modern=modern, text="x")
        assert result["isError"]
        assert result["content"] == [{"type": "text", "text": "No daemon can be started: there is no folder to serve."}]
    assert "resultType" in client.call("echo", modern=True, text="x")
    assert "capabilities" in client.ask("server/discover", modern=True)["result"]
    assert starter.times == 1, "a start that failed is not tried again for every call"


def test_a_daemon_that_comes_after_all_is_used_and_the_tools_are_announced(rig: Rig) -> None:
    client, _ = rig.relay(stand_in=catalogue)
    client.shake_hands()
    listening = listen(client)
    with another_lab(rig.state) as late:
        for _ in range(2):
            client.hear("notifications/tools/list_changed")
        assert client.text("echo", text="x") == "x"
        late.tools_changed()
        for _ in range(2):
            client.hear("notifications/tools/list_changed")
        assert [message for message in client.others if "acknowledged" in message.get("method", "")] == []
        assert listening not in client._answers


def test_a_stranger_on_record_is_told_nothing_and_another_is_started(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_NOT_AGAIN_S", 3600.0)
    with another_lab(rig.state) as stranger:
        (rig.state / "local.key").write_bytes(b"vsl_of_another_run")
        client, starter = rig.relay(stand_in=catalogue)
        assert client.call("echo", text="x")["isError"]
        assert starter.times == 1
        assert stranger.served == []


def listen(client: Any) -> Any:
    """Subscribe to changes of the tools; the id of that."""
    message_id = client.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, modern=True)
    client.hear("notifications/subscriptions/acknowledged")
    return message_id
