"""The routes for the owner's own programs."""

from __future__ import annotations

from typing import Any

import pytest

from tests import wire
from tests.lab import Running


def ask(lab: Running, method: str, target: str, key: str | None = None, body: bytes = b"", **more: str) -> wire.Reply:
    key = lab.local_key.decode() if key is None else key
    headers = {"Host": f"127.0.0.1:{lab.port}"} | ({"Authorization": f"Bearer {key}"} if key else {}) | more
    return wire.raw(lab.port, wire.request(method, target, headers, body))


ROUTES = [
    ("GET", "/admin/status", b""),
    ("GET", "/admin/search?q=a", b""),
    ("POST", "/admin/stop", b""),
    ("POST", "/admin/rebuild", b""),
    ("GET", "/admin/token", b""),
    ("GET", "/admin/tokens", b""),
    ("POST", "/admin/token/rotate", b""),
    ("POST", "/admin/token/add", b'{"agent": "bob"}'),
    ("POST", "/admin/token/remove", b'{"agent": "bob"}'),
    ("GET", "/admin/endpoint", b""),
    ("POST", "/admin/port", b'{"port": 25000}'),
    ("POST", "/admin/settings", b'{"allow_writes": true}'),
    ("POST", "/admin/restore", b'{"id": "20261130-111200-000001"}'),
    ("GET", "/admin/knowledge", b""),
    ("POST", "/admin/knowledge/show", b'{"id": "ku-x"}'),
    ("POST", "/admin/knowledge/remove", b'{"id": "ku-x"}'),
    ("POST", "/admin/knowledge/release", b'{"id": "ku-x"}'),
    ("POST", "/admin/knowledge/export", b""),
    ("POST", "/admin/proposals", b""),
    ("POST", "/admin/proposals/show", b'{"id": "ABCDEF"}'),
    ("POST", "/admin/proposals/apply", b'{"id": "ABCDEF", "by": "console"}'),
    ("POST", "/admin/proposals/reject", b'{"id": "ABCDEF", "by": "plugin"}'),
    ("GET", "/admin/databases", b""),
    ("POST", "/admin/databases/add", b'{"name": "docs", "folder": "/docs"}'),
    ("POST", "/admin/databases/remove", b'{"name": "docs"}'),
    ("GET", "/admin/agents", b""),
    ("POST", "/admin/agents/remote", b'{"name": "Scout", "on": true}'),
    ("GET", "/admin/agents/runs", b""),
    ("POST", "/admin/agents/cancel", b'{"id": "01KB"}'),
]


@pytest.mark.parametrize("method, target, body", ROUTES)
def test_only_the_local_key_opens_them(lab: Running, method: str, target: str, body: bytes) -> None:
    assert ask(lab, method, target, body=body).status == 200
    assert len(lab.asked) == 1
    refused = ask(lab, method, target, lab.token, body)
    nowhere = ask(lab, method, "/admin/nothing", lab.token)
    assert (refused.status, refused.body) == (404, nowhere.body)
    assert ask(lab, method, target, "").status == 401
    assert len(lab.asked) == 1


@pytest.mark.parametrize("target", [target for method, target, _ in ROUTES if method == "POST"])
def test_nothing_happens_by_get(lab: Running, target: str) -> None:
    assert ask(lab, "GET", target).status == 405
    assert lab.asked == []


@pytest.mark.parametrize(
    "query, expected",
    [
        ("q=winter%20plan", ("search", "winter plan", 10, "hybrid")),
        ("q=+a&k=3&mode=keyword", ("search", "a", 3, "keyword")),
        ("q=5", ("search", "5", 10, "hybrid")),
    ],
)
def test_a_search_is_passed_on(lab: Running, query: str, expected: tuple[Any, ...]) -> None:
    assert ask(lab, "GET", f"/admin/search?{query}").json() == {"results": []}
    assert lab.asked == [expected]


@pytest.mark.parametrize(
    "query, sentence",
    [
        ("", "q: is required."),
        ("q=+", "q: is required."),
        ("q=a&k=0", "k: must be a whole number from 1 to 100."),
        ("q=a&k=x", "k: must be a whole number from 1 to 100."),
        ("q=a&k=" + "9" * 5000, "k: must be a whole number from 1 to 100."),
        ("q=a&mode=fts", "mode: must be one of hybrid, vector, keyword."),
        ("q=a&x=1", "x: is not an argument of /admin/search."),
    ],
)
def test_bad_arguments_are_answered_with_one_line_each(lab: Running, query: str, sentence: str) -> None:
    reply = ask(lab, "GET", f"/admin/search?{query}")
    assert reply.status == 400
    assert reply.json() == {"error": "bad_arguments", "message": sentence}


def test_an_error_of_ours_has_its_status_and_code(lab: Running) -> None:
    reply = ask(lab, "GET", "/admin/search?q=missing")
    assert reply.status == 404
    assert reply.json() == {"error": "not_found", "message": "There is nothing."}


def test_status_can_wait_for_a_newer_generation(lab: Running) -> None:
    assert ask(lab, "GET", "/admin/status?after=3&wait_s=0.5").json() == {"phase": "ready"}
    assert ask(lab, "GET", "/admin/status?after=3&wait_s=2").status == 200
    assert lab.asked == [("wait", 3, 0.5), ("status",), ("wait", 3, 2.0), ("status",)]
    assert ask(lab, "GET", "/admin/status?after=-1").status == 400
    assert ask(lab, "GET", "/admin/status?after=1&wait_s=nan").status == 400


@pytest.mark.parametrize(
    "target, body, expected",
    [
        ("/admin/token/rotate", b"", ("rotate",)),
        ("/admin/token/rotate", b"{}", ("rotate",)),
        ("/admin/token/add", b'{"agent": "bob"}', ("add", "bob", "local")),
        ("/admin/token/add", b'{"agent": "bob", "org": "home"}', ("add", "bob", "home")),
        ("/admin/token/remove", b'{"agent": "bob"}', ("remove", "bob")),
        ("/admin/port", b'{"port": 0}', ("pin", 0)),
        ("/admin/settings", b'{"allow_writes": true}', ("allow_writes", True)),
        ("/admin/settings", b'{"allow_writes": false}', ("allow_writes", False)),
        ("/admin/agents/remote", b'{"name": "Scout", "on": false}', ("remote", "Scout", False)),
        ("/admin/agents/cancel", b'{"id": "01KB"}', ("cancel", "01KB")),
        ("/admin/restore", b'{"id": "111200-000001"}', ("restore", "111200-000001")),
        ("/admin/proposals", b'{"all": true}', ("listed", True)),
        ("/admin/proposals", b"", ("listed", False)),
        ("/admin/proposals/show", b'{"id": "ABCDEF"}', ("show", "ABCDEF")),
        ("/admin/proposals/apply", b'{"id": "A", "by": "plugin"}', ("apply", "A", "plugin", None)),
        ("/admin/proposals/apply", b'{"id": "A", "by": "cli", "seen": "x"}', ("apply", "A", "cli", "x")),
        ("/admin/proposals/reject", b'{"id": "A", "by": "console"}', ("reject", "A", "console", None)),
        ("/admin/proposals/reject", b'{"id": "A", "by": "cli", "reason": "No."}', ("reject", "A", "cli", "No.")),
    ],
)
def test_a_change_is_passed_on(lab: Running, target: str, body: bytes, expected: tuple[Any, ...]) -> None:
    reply = ask(lab, "POST", target, body=body)
    assert reply.json() == {"done": expected[0]}
    assert reply.header("Cache-Control") == "no-store"
    assert lab.asked == [expected]


@pytest.mark.parametrize(
    "target, body, status, sentence",
    [
        ("/admin/token/rotate", b'{"force": true}', 400, "force: is not an argument of /admin/token/rotate."),
        ("/admin/token/add", b"", 400, "agent: is required."),
        ("/admin/token/add", b'{"agent": 5}', 400, "agent: must be text."),
        ("/admin/port", b'{"port": "80"}', 400, "port: must be a whole number from 0 to 65,535."),
        ("/admin/port", b'{"port": -1}', 400, "port: must be a whole number from 0 to 65,535."),
        ("/admin/settings", b"", 400, "allow_writes: is required."),
        ("/admin/settings", b'{"allow_writes": 1}', 400, "allow_writes: must be true or false."),
        (
            "/admin/settings",
            b'{"port": 1}',
            400,
            "allow_writes: is required.\nport: is not an argument of /admin/settings.",
        ),
        ("/admin/restore", b'{"id": ""}', 400, "id: is required."),
        ("/admin/proposals/apply", b'{"id": "A"}', 400, "by: is required."),
        ("/admin/proposals/reject", b'{"id": "A", "by": "me"}', 400, "by: must be one of cli, plugin, console."),
        ("/admin/port", b"[1]", 400, "The request is not well-formed HTTP for this server."),
        ("/admin/port", b"{", 400, "The request is not well-formed HTTP for this server."),
        ("/admin/port", b"[" * 10_000, 400, "The request is not well-formed HTTP for this server."),
        ("/admin/port", b" " * 70_000, 413, "The body of the request is larger than this server accepts."),
    ],
)
def test_a_body_that_is_wrong_changes_nothing(
    lab: Running, target: str, body: bytes, status: int, sentence: str
) -> None:
    reply = ask(lab, "POST", target, body=body)
    assert (reply.status, reply.json()["message"]) == (status, sentence)
    assert lab.asked == []
