"""The routes for the owner's own programs."""

from __future__ import annotations

from typing import Any

import pytest

from tests import wire
from tests.lab import Running


def ask(lab: Running, method: str, target: str, key: str | None = None) -> wire.Reply:
    key = lab.local_key.decode() if key is None else key
    headers = {"Host": f"127.0.0.1:{lab.port}"} | ({"Authorization": f"Bearer {key}"} if key else {})
    return wire.raw(lab.port, wire.request(method, target, headers))


ROUTES = [("GET", "/admin/status"), ("GET", "/admin/search?q=a"), ("POST", "/admin/stop"), ("POST", "/admin/rebuild")]


@pytest.mark.parametrize("method, target", ROUTES)
def test_only_the_local_key_opens_them(lab: Running, method: str, target: str) -> None:
    assert ask(lab, method, target).status == 200
    assert len(lab.asked) == 1
    refused = ask(lab, method, target, lab.token)
    nowhere = ask(lab, method, "/admin/nothing", lab.token)
    assert (refused.status, refused.body) == (404, nowhere.body)
    assert ask(lab, method, target, "").status == 401
    assert len(lab.asked) == 1


@pytest.mark.parametrize("target", ["/admin/stop", "/admin/rebuild"])
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
