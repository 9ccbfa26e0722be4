"""A path that requires sessions: how they begin, are named, end, and whom they belong to."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator

import pytest

from sidecar.bridge.token import Caller
from sidecar.protocol.sessions import Sessions
from tests import wire
from tests.eras import ENVELOPE, HANDSHAKE, MODERN
from tests.lab import Running, in_thread, wait_until
from tests.streams import (
    PATH,
    Stream,
    ask,
    calling,
    cancel,
    hello,
    listening,
    notify,
    open_session,
    post,
    request,
    standing,
)  # fmt: skip

LIST = wire.call("tools/list")


class Clock:
    """Seconds, set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def few(clock: Clock) -> Iterator[Running]:
    """Room for two sessions, which are kept for ten seconds."""
    with in_thread(sessions=Sessions(most=2, idle_s=10.0, clock=clock)) as lab:
        yield lab


# --- beginning ---


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_the_answer_to_initialize_names_a_session(lab: Running, revision: str) -> None:
    reply = wire.post(lab.port, lab.token, hello(revision), PATH)
    assert reply.json()["result"]["protocolVersion"] == revision
    session = reply.header("Mcp-Session-Id")
    assert session is not None and re.fullmatch(r"[0-9a-f]{32}", session)
    assert post(lab, session, LIST).status == 200


def test_a_client_that_takes_streams_only_gets_its_session_too(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, hello(), PATH, Accept="text/event-stream")
    assert reply.header("Content-Type") == "text/event-stream"
    assert post(lab, reply.header("Mcp-Session-Id"), LIST).status == 200


def test_every_session_has_another_name(lab: Running) -> None:
    assert len({open_session(lab) for _ in range(20)}) == 20


def test_a_session_says_that_it_tells_of_changed_tools(lab: Running) -> None:
    capabilities = wire.post(lab.port, lab.token, hello(), PATH).json()["result"]["capabilities"]
    assert capabilities == {"tools": {"listChanged": True}}


def test_a_handshake_that_fails_opens_no_session(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, wire.call("initialize", {}), PATH)
    assert reply.json()["error"]["code"] == -32602
    assert reply.header("Mcp-Session-Id") is None
    assert len(lab.sessions) == 0


def test_a_second_handshake_stays_in_its_session(lab: Running) -> None:
    session = open_session(lab)
    reply = post(lab, session, hello("2025-03-26"))
    assert reply.json()["result"]["protocolVersion"] == "2025-03-26"
    assert reply.header("Mcp-Session-Id") == session
    assert post(lab, session, wire.call("initialize", {})).json()["error"]["code"] == -32602
    assert post(lab, session, LIST).status == 200
    assert len(lab.sessions) == 1


# --- naming ---

BODIES = {
    "request": LIST,
    "notification": notify("notifications/initialized"),
    "response": b'{"jsonrpc":"2.0","id":1,"result":{}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_message_without_its_session_is_refused(lab: Running, body: bytes) -> None:
    reply = post(lab, None, body)
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32600


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_message_of_an_unknown_session_is_refused(lab: Running, body: bytes) -> None:
    open_session(lab)
    for name in (secrets.token_hex(16), "guessed", "", "x" * 5000, "\xff"):
        assert post(lab, name, body).status == 404


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_message_with_its_session_is_served(lab: Running, body: bytes) -> None:
    assert post(lab, open_session(lab), body).status in (200, 202)


def test_two_names_at_once_are_refused(lab: Running) -> None:
    session = open_session(lab)
    pairs = [*wire.mcp_headers(lab.port, lab.token).items(), *[("Mcp-Session-Id", session)] * 2]
    assert wire.raw(lab.port, wire.request("POST", PATH, pairs, LIST)).status == 400


def test_an_initialize_in_an_unknown_session_is_refused(lab: Running) -> None:
    assert post(lab, "guessed", hello()).status == 404
    assert len(lab.sessions) == 0


def test_what_is_unreadable_is_refused_as_on_every_path(lab: Running) -> None:
    session = open_session(lab)
    for body, status in ((b"{", 400), (b"[]", 400), (b"[" + LIST + b"]", 400)):
        assert post(lab, session, body).status == status
    assert post(lab, session, LIST, Accept="text/html").status == 406
    assert post(lab, session, LIST, Content_Type="text/plain").status == 415


def test_the_newest_revision_is_served_without_a_session(lab: Running) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
    body = wire.call("tools/list", {"_meta": ENVELOPE})
    for session in (None, open_session(lab), "guessed"):
        reply = post(lab, session, body, **headers)
        assert reply.status == 200
        assert reply.header("Mcp-Session-Id") is None
    assert len(lab.sessions) == 1


# --- whose it is ---


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_session_is_its_own_callers_only(lab: Running, method: str) -> None:
    key = lab.local_key.decode()
    theirs, ours = open_session(lab, key), open_session(lab)
    for session, foreign in ((theirs, lab.token), (ours, key)):
        reply = post(lab, session, LIST, foreign) if method == "POST" else ask(lab, method, session, foreign)
        assert reply.status == 404
    assert post(lab, theirs, LIST, key).status == post(lab, ours, LIST).status == 200


# --- ending ---


def test_a_deleted_session_is_gone(lab: Running) -> None:
    session, other = open_session(lab), open_session(lab)
    reply = ask(lab, "DELETE", session)
    assert (reply.status, reply.body) == (200, b"")
    assert post(lab, session, LIST).status == 404
    assert ask(lab, "GET", session).status == 404
    assert ask(lab, "DELETE", session).status == 404
    assert post(lab, other, LIST).status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_stream_and_end_need_a_session(lab: Running, method: str) -> None:
    assert ask(lab, method, None).status == 400
    assert ask(lab, method, "guessed").status == 404


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_stream_and_end_belong_to_the_older_revisions(lab: Running, method: str) -> None:
    session = open_session(lab)
    reply = ask(lab, method, session, MCP_Protocol_Version=MODERN)
    assert (reply.status, reply.header("Allow")) == (405, "POST")
    assert ask(lab, method, session, MCP_Protocol_Version="rubbish").status == 400
    assert post(lab, session, LIST).status == 200


@pytest.mark.parametrize("method", ["PUT", "HEAD", "PATCH"])
def test_other_methods_are_not_allowed(lab: Running, method: str) -> None:
    with wire.Wire(lab.port) as client:
        client.send(request(lab, method, open_session(lab)))
        reply = client.reply(bodiless=method == "HEAD")
    assert (reply.status, reply.header("Allow")) == (405, "DELETE, GET, POST")


def test_a_session_too_many_is_refused_until_one_ends(few: Running) -> None:
    first, second = open_session(few), open_session(few)
    refused = post(few, None, hello())
    assert refused.status == 503
    assert "Too many sessions" in refused.json()["error"]["message"]
    assert refused.header("Mcp-Session-Id") is None
    assert post(few, first, LIST).status == post(few, second, LIST).status == 200
    ask(few, "DELETE", first)
    open_session(few)


def test_a_session_that_is_not_used_ends(few: Running, clock: Clock) -> None:
    used, unused = open_session(few), open_session(few)
    clock.now_s += 9
    assert post(few, used, LIST).status == 200
    clock.now_s += 2
    assert post(few, unused, LIST).status == 404
    assert post(few, used, notify("notifications/initialized")).status == 202
    clock.now_s += 9
    assert post(few, used, LIST).status == 200
    assert len(few.sessions) == 1


def test_sessions_that_are_over_make_room(few: Running, clock: Clock) -> None:
    for _ in range(5):
        open_session(few)
        open_session(few)
        clock.now_s += 10
    open_session(few)
    assert len(few.sessions) == 1


def test_a_session_in_use_does_not_end(few: Running, clock: Clock) -> None:
    streaming, calling_ = open_session(few), open_session(few)
    with standing(few, streaming) as stream, wire.Wire(few.port) as client:
        client.send(calling(few, "slow", session=calling_))
        wait_until(few.lab.entered.is_set)
        clock.now_s += 1000
        assert post(few, calling_, LIST).status == post(few, streaming, LIST).status == 200
        few.on_loop(few.lab.leave.set)
        assert client.reply().status == 200
        stream.socket.close()
    wait_until(lambda: few.on_loop(lambda: all(session.uses == 0 for session in few.sessions)))
    clock.now_s += 11
    assert post(few, streaming, LIST).status == post(few, calling_, LIST).status == 404


# --- the standing stream ---


def test_the_standing_stream_tells_of_changed_tools(lab: Running) -> None:
    with standing(lab, open_session(lab)) as first, standing(lab, open_session(lab)) as second:
        lab.tools_changed()
        for stream in (first, second):
            assert stream.event() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def test_a_change_reaches_both_eras_of_a_path(lab: Running) -> None:
    with standing(lab, open_session(lab)) as old, listening(lab, path=PATH) as new, listening(lab) as other:
        lab.tools_changed()
        for stream in (old, new, other):
            event = stream.event()
            assert event is not None and event["method"] == "notifications/tools/list_changed"


def test_a_change_is_lost_on_a_session_without_a_stream(lab: Running) -> None:
    session = open_session(lab)
    lab.tools_changed()
    with standing(lab, session) as stream:
        ask(lab, "DELETE", session)
        assert stream.event() is None


def test_a_session_has_one_stream(lab: Running) -> None:
    session = open_session(lab)
    with standing(lab, session):
        assert ask(lab, "GET", session).status == 409
    wait_until(lambda: lab.mounts[PATH].streams == 0)
    with standing(lab, session):
        pass


def test_a_stream_goes_only_to_a_client_that_takes_it(lab: Running) -> None:
    session = open_session(lab)
    assert ask(lab, "GET", session, Accept="application/json").status == 406
    with Stream(lab.port, request(lab, "GET", session, Accept="*/*")) as stream:
        assert stream.answer.status == 200


def test_the_number_of_streams_is_limited(lab: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.protocol.sessions.MOST_STREAMS", 1)
    with standing(lab, open_session(lab)):
        assert ask(lab, "GET", open_session(lab)).status == 503
    wait_until(lambda: lab.mounts[PATH].streams == 0)
    with standing(lab, open_session(lab)):
        pass


def test_the_end_of_a_session_ends_its_stream_in_good_order(lab: Running) -> None:
    session = open_session(lab)
    with standing(lab, session) as stream, standing(lab, open_session(lab)) as other:
        lab.tools_changed()
        ask(lab, "DELETE", session)
        assert stream.event() is not None
        assert stream.event() is None and stream.ended_well
        assert other.event() is not None
        lab.tools_changed()
        assert other.event() is not None


def test_a_standing_stream_is_kept_alive() -> None:
    with in_thread(ping_after_s=0.01) as lab, standing(lab, open_session(lab)) as stream:
        assert stream.chunk() == b": ping\n\n"


def test_a_client_that_lags_too_far_behind_loses_its_stream() -> None:
    sessions = Sessions()
    session = sessions.open(Caller("local", "local", local=False), lambda: True)
    assert session is not None
    with session.stream():
        for _ in range(64):
            session.post({})
        assert session.has_stream
        session.post({})
        assert not session.has_stream
        with session.stream():
            session.post({})
            assert session.has_stream


# --- progress and cancelling ---


def test_progress_comes_on_the_answer_of_its_own_call(lab: Running) -> None:
    session = open_session(lab)
    with standing(lab, session) as stream:
        with Stream(lab.port, calling(lab, "work", session=session, steps=3)) as answer:
            events = [answer.event() for _ in range(4)]
            assert [event["params"]["progress"] for event in events[:3] if event] == [1, 2, 3]
            assert events[3] and events[3]["result"]["content"][0]["text"] == "done"
            assert answer.event() is None and answer.ended_well
        lab.tools_changed()
        event = stream.event()
        assert event and event["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("reports", [0, 1], ids=["json", "stream"])
def test_a_call_is_cancelled_by_its_id(lab: Running, reports: int) -> None:
    session = open_session(lab)
    with wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow", session=session, reports=reports))
        wait_until(lab.lab.entered.is_set)
        for stranger in ("1", 2, True, None, [1]):
            assert post(lab, session, cancel(stranger)).status == 202
        assert post(lab, open_session(lab), cancel(1)).status == 202
        assert wire.post(lab.port, lab.token, cancel(1)).status == 202
        assert lab.lab.inside == 1 and not lab.lab.cancelled.is_set()
        assert post(lab, session, cancel(1)).status == 202
        answer = client.reply()
    assert b'{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}' in answer.body
    assert lab.lab.cancelled.is_set() and lab.lab.inside == 0
    assert post(lab, session, LIST).status == 200


def test_the_end_of_a_session_cancels_its_calls(lab: Running) -> None:
    session = open_session(lab)
    with wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow", session=session))
        wait_until(lab.lab.entered.is_set)
        ask(lab, "DELETE", session)
        assert client.reply().json()["error"]["code"] == -32800
    assert lab.lab.cancelled.is_set()


def test_a_call_without_a_session_is_not_cancelled_by_anybodys_message(lab: Running) -> None:
    with wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow"))
        wait_until(lab.lab.entered.is_set)
        for revision in ("2025-11-25", MODERN):
            assert wire.post(lab.port, lab.token, cancel(1), MCP_Protocol_Version=revision).status == 202
        lab.on_loop(lab.lab.leave.set)
        assert client.reply().json()["result"]["content"][0]["text"] == "done"
    assert not lab.lab.cancelled.is_set()


@pytest.mark.parametrize("reports", [0, 1], ids=["json", "stream"])
def test_a_closed_connection_cancels_the_call_in_a_session_too(lab: Running, reports: int) -> None:
    session = open_session(lab)
    with wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow", session=session, reports=reports))
        wait_until(lab.lab.entered.is_set)
    wait_until(lab.lab.cancelled.is_set)
    assert post(lab, session, LIST).status == 200
