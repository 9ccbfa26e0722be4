"""Controls: with a defence taken out, the attack it stops succeeds. A row that can't fail proves nothing."""

from __future__ import annotations

import hmac
import time

import pytest

from sidecar.protocol import json_body
from sidecar.web import answers, bodies, refusals
from sidecar.web.app import Limits
from sidecar.web.connections import Connection, Deadlines, Door
from sidecar.web.guards import Access, Guards
from sidecar.web.refusals import Refusals
from tests import wire
from tests.lab import Running, in_thread, wait_until

Patch = pytest.MonkeyPatch


def post(lab: Running, **change: str) -> wire.Reply:
    return wire.post(lab.port, lab.token, wire.tool("echo", text="hi"), **change)


def test_without_the_host_check_a_rebound_name_gets_in(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Guards, "allows_host", lambda *_: True)
    with in_thread() as lab:
        assert post(lab, Host="evil.example").status == 200


def test_without_the_origin_check_a_page_gets_in(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Guards, "allows_origin", lambda *_: True)
    with in_thread() as lab:
        reply = post(lab, Origin="https://evil.example")
        assert reply.status == 200
        assert reply.header("Access-Control-Allow-Origin") == "https://evil.example"


def test_without_the_comparison_every_token_gets_in(monkeypatch: Patch) -> None:
    with in_thread() as lab:
        monkeypatch.setattr(hmac, "compare_digest", lambda *_: True)
        assert post(lab, Authorization="Bearer wrong").status == 200
        monkeypatch.undo()
        assert post(lab, Authorization="Bearer wrong").status == 401


def test_without_the_second_look_a_replaced_token_still_acts(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Access, "valid", lambda _: True)
    body = wire.tool("echo", text="late")
    with in_thread() as lab, wire.Wire(lab.port) as client:
        headers = wire.mcp_headers(lab.port, lab.token) | {"Content-Length": str(len(body))}
        client.send(wire.request("POST", "/mcp", headers) + body[:10])
        wait_until(lambda: lab.served != [])  # the headers are in
        lab.on_loop(lab.rotate)
        client.send(body[10:])
        assert client.reply().status == 200
        assert lab.lab.calls == 1


def test_without_the_check_of_headers_a_page_posts_what_it_likes(monkeypatch: Patch) -> None:
    with in_thread() as lab:
        monkeypatch.setattr(type(lab.mounts["/mcp"]), "unacceptable", lambda *_: None)
        assert post(lab, Content_Type="text/plain").status == 200


def test_without_the_check_of_length_a_large_body_is_waited_for(monkeypatch: Patch) -> None:
    monkeypatch.setattr(bodies, "unacceptable", lambda *_: None)
    limits = Limits(max_body_bytes=1000, deadlines=Deadlines(body_s=0.3, linger_s=0.1))
    with in_thread(limits=limits) as lab:
        assert post(lab, Content_Length="10000000000").status == 408


def test_without_the_depth_scan_a_deep_body_meets_the_parser(monkeypatch: Patch) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(json_body.BadJson, match="deeper than 1,000"):
        json_body.parse(deep)
    monkeypatch.setattr(json_body, "_deeper", lambda *_: False)
    with pytest.raises(json_body.BadJson, match="nested too deep"):
        json_body.parse(deep)


def test_without_the_first_deadline_a_silent_connection_stays(monkeypatch: Patch) -> None:
    limits = Limits(deadlines=Deadlines(first_s=0.1))
    for patched in (False, True):
        if patched:
            monkeypatch.setattr(Connection, "_no_token_yet", lambda _: None)
        with in_thread(limits=limits) as lab, wire.Wire(lab.port) as client:
            if patched:
                client.socket.settimeout(1.0)
                with pytest.raises(TimeoutError):
                    client.at_end()
            else:
                assert client.at_end()


def test_without_the_limit_of_connections_strangers_stay(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Door, "welcome", lambda self, newcomer: self._open.setdefault(newcomer) is None)
    limits = Limits(deadlines=Deadlines(first_s=60.0))  # none of them is closed for its silence
    with in_thread(limits=limits, most_connections=3) as lab:
        strangers = [wire.Wire(lab.port, timeout_s=0.3) for _ in range(6)]
        with pytest.raises(TimeoutError):
            strangers[0].at_end()
        for stranger in strangers:
            stranger.socket.close()


def test_without_the_headers_of_ours_the_framework_names_its_version(monkeypatch: Patch) -> None:
    monkeypatch.setattr(answers, "SECURITY_HEADERS", {})
    with in_thread() as lab:
        reply = post(lab)
        assert any(c.isdigit() for c in reply.header("Server") or "")
        assert reply.header("X-Content-Type-Options") is None


def test_without_our_answer_the_framework_quotes_what_it_can_not_read(monkeypatch: Patch) -> None:
    monkeypatch.delattr(Connection, "handle_error")
    with in_thread() as lab:
        assert b"secretword" in wire.raw(lab.port, b"GET / HTTP/1.1\r\nHost: a\r\nsecretword\r\n\r\n").body


def test_without_the_summary_a_storm_fills_the_log(monkeypatch: Patch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(Refusals, "note", lambda *_: refusals.logger.warning("refused a request"))
    begin = time.monotonic()
    with in_thread() as lab:
        for _ in range(50):
            post(lab, Authorization="Bearer wrong")
    assert len(caplog.messages) > 2 + (time.monotonic() - begin)
