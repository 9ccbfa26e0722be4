"""Rows L that show over HTTP: the token, paths and contents stay out of logs, arguments and answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import wire
from tests.lab import SECRET_PATH, in_thread
from tests.security.conftest import SECRET_WORD, Guarded


def a_full_session(guarded: Guarded) -> None:
    """Good calls, bad calls, and every kind of refusal with the token in it."""
    guarded.post()
    guarded.post(wire.call("tools/list"))
    guarded.call("list_notes")
    guarded.call("read_note", path="Projects/House.md")
    guarded.call("search_notes", query=SECRET_WORD)
    guarded.call("read_note", path=guarded.token)
    guarded.call("read_note", colour=guarded.token)
    guarded.post(wire.tool(guarded.token))
    guarded.post(b'{"' + guarded.token.encode())
    guarded.post(wire.call(guarded.token))
    guarded.post(Host="evil.example")
    guarded.post(Origin="https://evil.example")
    guarded.post(Authorization=f"Bearer  {guarded.token}")
    guarded.post(Accept="text/html")
    guarded.ask("GET", f"/mcp?token={guarded.token}")
    guarded.ask("GET", f"/{guarded.token}")
    guarded.raw(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer TOKEN\x00\r\n\r\n")
    guarded.raw(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer TOKEN\r\nbad header TOKEN\r\n\r\n")
    guarded.raw(b"TOKEN /mcp HTTP/9.9\r\n\r\n")


def test_l01_the_token_is_in_no_log(guarded: Guarded) -> None:
    a_full_session(guarded)
    log = guarded.daemon.stderr()
    assert guarded.token not in log
    [key] = guarded.state.rglob("local.key")
    assert key.read_text().strip() not in log
    assert "refused" in log  # the log is the right one


def test_l02_the_token_is_in_no_argument(guarded: Guarded) -> None:
    cmdline = Path(f"/proc/{guarded.daemon.pid}/cmdline")
    if not cmdline.exists():
        pytest.skip("reads the command line by way of /proc")
    assert guarded.token.encode() not in cmdline.read_bytes()
    assert b"sidecar" in cmdline.read_bytes()


def test_l09_a_mistake_in_a_tool_tells_the_client_nothing() -> None:
    with in_thread() as lab:
        reply = wire.post(lab.port, lab.token, wire.tool("crash"))
        answer = reply.json()["result"]
        assert answer["isError"] is True
        for word in (SECRET_PATH, "Traceback", "RuntimeError", lab.token, "lab.py", str(Path.home())):
            assert word.encode() not in reply.body


def test_l10_error_pages_repeat_nothing(guarded: Guarded) -> None:
    word = "repeatedword"
    replies = [
        guarded.ask("GET", f"/{word}?{word}", X_Word=word),
        guarded.ask("PUT", f"/mcp?{word}", X_Word=word),
        guarded.post(Host=word),
        guarded.post(Origin=word),
        guarded.post(Authorization=f"Bearer {word}"),
        guarded.post(Content_Type=word),
        guarded.post(Accept=word),
        guarded.post(f'{{"{word}'.encode()),
        guarded.ask("GET", f"/.well-known/{word}"),
        guarded.ask("GET", f"/identity?nonce={word}"),
        guarded.raw(f"{word}\r\n\r\n".encode()),
        guarded.raw(f"GET /{word} HTTP/1.1\r\nHost: a\r\n{word}\r\n\r\n".encode()),
    ]
    assert {reply.status for reply in replies} == {400, 401, 403, 404, 405, 406, 415}
    for reply in replies:
        assert word.encode() not in reply.body
        assert not [value for _, value in reply.headers if word in value]
        assert b"/" not in re.sub(rb"application/json|text/event-stream", b"", reply.body)


def test_l12_a_name_can_not_forge_a_line_of_the_log(guarded: Guarded) -> None:
    forged = "2026-01-01 00:00:00 INFO    sidecar: all is well"
    for name in (f"x\n{forged}", f"x\r{forged}", f"x\x1b[2J{forged}", f"x\u2028{forged}"):
        guarded.call("read_note", path=name)
        guarded.post(wire.tool(name))
        guarded.post(Authorization="Bearer wrong", User_Agent="agent")
    log = guarded.daemon.stderr()
    assert not [line for line in log.splitlines() if line.startswith(forged)]
    assert "\x1b[2J" not in log


def test_l13_contents_and_queries_are_not_in_the_usual_log(another: Guarded) -> None:
    another.call("read_note", path="Projects/House.md")
    found = another.call("search_notes", query=SECRET_WORD)
    assert "House" in found["content"][0]["text"]
    another.call("search_notes", query="averyspecialquery")
    log = another.daemon.stderr()
    assert SECRET_WORD not in log
    assert "averyspecialquery" not in log
