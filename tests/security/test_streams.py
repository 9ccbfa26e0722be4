"""Rows R, T and X of streams, sessions and calls in flight: what becomes of them with their token and their client.

The rule for a call in flight (R04): one that has begun and answers in JSON is finished; one whose answer is a stream
already is cut off; one that has not begun is refused.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest

from sidecar.protocol.sessions import MOST_SESSIONS, Session, Sessions
from sidecar.web.app import Limits
from sidecar.web.connections import Deadlines
from sidecar.web.guards import Access
from tests import wire
from tests.lab import Running, in_thread, wait_until
from tests.streams import (
    PATH,
    Stream,
    ask,
    calling,
    hello,
    open_everything,
    open_session,
    post,
    request,
    unread,
)

Patch = pytest.MonkeyPatch
LIST = wire.call("tools/list")


def test_r03_a_rotation_ends_the_streams_of_the_old_token_and_no_others() -> None:
    with in_thread() as lab, ExitStack() as stack:
        key = lab.local_key.decode()
        old, others = open_everything(lab, stack, lab.token), open_everything(lab, stack, key)
        lab.on_loop(lab.rotate)
        lab.tools_changed()
        lab.on_loop(lab.lab.leave.set)
        for stream in old:
            assert stream.event() is None and not stream.ended_well
        for stream in others:
            assert stream.event() is not None
        wait_until(lab.lab.cancelled.is_set)


def test_without_the_cut_a_stream_of_the_old_token_hears_on(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Access, "valid", lambda _: True)
    with in_thread() as lab, ExitStack() as stack:
        streams = open_everything(lab, stack, lab.token)
        lab.on_loop(lab.rotate)
        lab.tools_changed()
        for stream in streams[:3]:
            event = stream.event()
            assert event is not None and event["method"] == "notifications/tools/list_changed"


def test_r03_a_stream_that_nobody_reads_is_closed_too() -> None:
    with in_thread() as lab, unread(lab, calling(lab, "flood")):
        lab.on_loop(lab.rotate)
        wait_until(lambda: lab.listener.connections == 0)
        wait_until(lab.lab.cancelled.is_set)  # its call hears of it a few turns of the loop later
        wait_until(lambda: lab.mounts["/mcp"].streams == 0)


def test_r04_a_call_that_has_begun_is_finished(monkeypatch: Patch) -> None:
    for session_wanted in (False, True):
        with in_thread() as lab, wire.Wire(lab.port) as client:
            session = open_session(lab) if session_wanted else None
            client.send(calling(lab, "slow", session=session, after=1))
            wait_until(lab.lab.entered.is_set)
            lab.on_loop(lab.rotate)
            lab.on_loop(lab.lab.leave.set)
            reply = client.reply()
            assert reply.header("Content-Type") == "application/json"  # what it reports now opens no stream
            assert reply.json()["result"]["content"][0]["text"] == "done"


def test_without_the_look_at_the_token_a_report_opens_a_stream_for_it(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Access, "valid", lambda _: True)
    with in_thread() as lab, wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow", after=1))
        wait_until(lab.lab.entered.is_set)
        lab.on_loop(lab.rotate)
        lab.on_loop(lab.lab.leave.set)
        assert client.reply().header("Content-Type") == "text/event-stream"


def test_r04_a_write_that_has_not_begun_is_refused() -> None:
    with in_thread() as lab, wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow") + calling(lab, "echo", text="written"))
        wait_until(lab.lab.entered.is_set)
        lab.on_loop(lab.rotate)
        lab.on_loop(lab.lab.leave.set)
        assert [client.reply().status for _ in range(2)] == [200, 401]
        assert lab.lab.calls == 0


def test_r04_without_a_rotation_the_second_call_runs() -> None:
    with in_thread() as lab, wire.Wire(lab.port) as client:
        client.send(calling(lab, "slow") + calling(lab, "echo", text="written"))
        wait_until(lab.lab.entered.is_set)
        lab.on_loop(lab.lab.leave.set)
        assert [client.reply().status for _ in range(2)] == [200, 200]
        assert lab.lab.calls == 1


def test_r04_a_call_that_is_a_stream_already_is_cut_off() -> None:
    with in_thread() as lab, Stream(lab.port, calling(lab, "slow", reports=1)) as stream:
        assert stream.event() is not None
        wait_until(lab.lab.entered.is_set)
        lab.on_loop(lab.rotate)
        wait_until(lab.lab.cancelled.is_set)
        assert stream.event() is None and not stream.ended_well


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_t26_a_known_session_opens_nothing_without_the_token(method: str) -> None:
    with in_thread() as lab:
        session = open_session(lab)
        headers = wire.mcp_headers(lab.port, lab.token) | {"Mcp-Session-Id": session}
        for bearer in (None, "Bearer wrong", f"Bearer {session}"):
            sent = {name: value for name, value in (headers | {"Authorization": bearer}).items() if value}
            body = wire.tool("echo", text="x") if method == "POST" else b""
            assert wire.raw(lab.port, wire.request(method, PATH, sent, body)).status == 401
        assert lab.lab.calls == 0
        assert post(lab, session, LIST).status == 200


def test_t27_a_session_dies_with_the_token_that_opened_it() -> None:
    with in_thread() as lab:
        key = lab.local_key.decode()
        session, other = open_session(lab), open_session(lab, key)
        old, new = lab.token, lab.on_loop(lab.rotate)
        assert post(lab, session, LIST, new).status == 404
        assert ask(lab, "GET", session, new).status == 404
        assert ask(lab, "DELETE", session, new).status == 404
        assert post(lab, session, LIST, old).status == 401
        assert post(lab, other, LIST, key).status == 200
        assert len(lab.sessions) == 1
        assert post(lab, open_session(lab, new), LIST, new).status == 200


def test_t27_a_session_is_dead_before_anybody_is_told() -> None:
    with in_thread() as lab:
        session = open_session(lab)
        lab.on_loop(lambda: lab.keys.replace("x" * 40))
        assert post(lab, session, LIST, "x" * 40).status == 404


def test_without_the_tie_to_its_token_a_session_lives_on(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Access, "valid", lambda _: True)
    with in_thread() as lab:
        session = open_session(lab)
        assert post(lab, session, LIST, lab.on_loop(lab.rotate)).status == 200


def fill(lab: Running, count: int) -> list[Session]:
    """So many sessions, without the requests for them."""
    caller = lab.served[-1][0]
    opened = [lab.sessions.open(caller, lambda: True) for _ in range(count)]
    return [session for session in opened if session is not None]


def test_x25_there_are_ten_thousand_sessions_at_most() -> None:
    with in_thread() as lab:
        first = open_session(lab)
        assert MOST_SESSIONS == 10_000
        assert len(lab.on_loop(lambda: fill(lab, MOST_SESSIONS - 2))) == MOST_SESSIONS - 2
        last = open_session(lab)
        refused = post(lab, None, hello())
        assert refused.status == 503
        assert refused.json()["error"]["message"] == "Too many sessions are open; end one, or try again later."
        assert post(lab, first, LIST).status == post(lab, last, LIST).status == 200
        assert wire.post(lab.port, lab.token, LIST).status == 200
        assert ask(lab, "DELETE", first).status == 200
        open_session(lab)


def test_x25_idle_sessions_end() -> None:
    now_s = [0.0]
    with in_thread(sessions=Sessions(clock=lambda: now_s[0])) as lab:
        session = open_session(lab)
        now_s[0] = 30 * 60 - 1
        assert post(lab, session, LIST).status == 200
        now_s[0] += 30 * 60
        assert post(lab, session, LIST).status == 404


def test_without_the_limits_sessions_pile_up() -> None:
    now_s = [0.0]
    sessions = Sessions(most=1 << 60, idle_s=float("inf"), clock=lambda: now_s[0])
    with in_thread(sessions=sessions) as lab:
        session = open_session(lab)
        lab.on_loop(lambda: fill(lab, MOST_SESSIONS))
        now_s[0] = 1e9
        open_session(lab)
        assert len(lab.sessions) == MOST_SESSIONS + 2
        assert post(lab, session, LIST).status == 200


def test_x26_a_guessed_or_foreign_session_is_not_there() -> None:
    with in_thread() as lab:
        key = lab.local_key.decode()
        foreign = open_session(lab, key)
        for name in (foreign, foreign[:-1], foreign.upper() + "0", "0" * 32, "1", "../" + foreign):
            assert post(lab, name, wire.tool("echo", text="x")).status == 404
            assert ask(lab, "GET", name).status == 404
            assert ask(lab, "DELETE", name).status == 404
        assert lab.lab.calls == 0
        assert post(lab, foreign, LIST, key).status == 200
        for name in (foreign, "guessed"):
            assert wire.post(lab.port, lab.token, LIST, Mcp_Session_Id=name).status == 200


def test_without_the_look_at_its_owner_a_foreign_session_is_used(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Sessions, "find", lambda self, session_id, _: self._all.get(session_id))
    with in_thread() as lab:
        assert post(lab, open_session(lab, lab.local_key.decode()), LIST).status == 200


SHORT = Limits(deadlines=Deadlines(unread_s=0.2))


@pytest.mark.parametrize("seated", [False, True], ids=["X27", "X27-session"])
def test_a_client_that_stops_reading_a_stream_is_dropped(seated: bool) -> None:
    with in_thread(limits=SHORT) as lab:
        session = open_session(lab) if seated else None
        with unread(lab, calling(lab, "flood", session=session)):
            wait_until(lambda: lab.listener.connections == 0)
            wait_until(lab.lab.cancelled.is_set)
            # what the two kernels hold for a socket, and no more
            assert lab.lab.flooded << 16 < 64 << 20


def test_x27_a_standing_stream_that_nobody_reads_is_ended_when_too_much_waits() -> None:
    with in_thread(limits=SHORT) as lab, wire.Wire(lab.port) as client:
        session = open_session(lab)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        client.send(request(lab, "GET", session))
        assert client.head().status == 200
        [kept] = lab.on_loop(lambda: list(lab.sessions))
        posted = 0
        while kept.has_stream:
            lab.on_loop(lambda: kept.post({"pad": "x" * (1 << 16)}))
            posted += 1
            assert posted << 16 < 64 << 20
        wait_until(lambda: lab.listener.connections == 0)
        wait_until(lambda: lab.mounts[PATH].streams == 0 and kept.uses == 0)


def test_without_the_deadline_a_client_that_stops_reading_stays() -> None:
    with in_thread(limits=Limits(deadlines=Deadlines(unread_s=600))) as lab, unread(lab, calling(lab, "flood")):
        with pytest.raises(AssertionError):
            wait_until(lambda: lab.listener.connections == 0, within_s=1.0)
        assert not lab.lab.cancelled.is_set()


def test_x28_a_thousand_clients_that_leave_in_the_middle_leave_nothing_behind() -> None:
    with in_thread() as lab:
        before = lab.on_loop(lambda: len(asyncio.all_tasks()))
        session = open_session(lab)
        kinds = [
            calling(lab, "slow"),
            calling(lab, "slow", reports=1),
            calling(lab, "slow", session=session),
            calling(lab, "slow", session=session, reports=1),
            request(lab, "GET", session),
            calling(lab, "flood"),
        ]
        for number in range(1000):
            sent = kinds[number % len(kinds)]
            with wire.Wire(lab.port) as client:
                # some leave before the end of their request, some at once, some when the answer has begun
                whole = number % 7 != 0
                client.send(sent if whole else sent[: -number % len(sent)])
                if whole and (b"GET" in sent or b"flood" in sent):
                    client.head()
                elif whole and number % 2:
                    wait_until(lambda: lab.lab.inside > 0)
        wait_until(lambda: lab.listener.connections == 0)
        wait_until(lambda: lab.lab.inside == 0)
        [kept] = lab.on_loop(lambda: list(lab.sessions))
        wait_until(lambda: not kept.calls and not kept.has_stream and kept.uses == 0)
        wait_until(lambda: lab.mounts["/mcp"].streams == lab.mounts[PATH].streams == 0)
        wait_until(lambda: lab.on_loop(lambda: len(asyncio.all_tasks())) <= before)
        assert post(lab, session, LIST).status == 200


def test_x28_without_the_cancelling_of_calls_they_stay(monkeypatch: Patch) -> None:
    monkeypatch.setattr("sidecar.web.connections.Connection.connection_lost", forget_only)
    with in_thread() as lab:
        with wire.Wire(lab.port) as client:
            client.send(calling(lab, "slow"))
            wait_until(lab.lab.entered.is_set)
        wait_until(lambda: lab.listener.connections == 0)
        assert lab.lab.inside == 1
        lab.on_loop(lab.lab.leave.set)
        wait_until(lambda: lab.lab.inside == 0)


def forget_only(self: object, exc: BaseException | None) -> None:
    """The end of a connection, about which its handler hears nothing."""
    self._door.forget(self)  # type: ignore[attr-defined]  # a Connection
