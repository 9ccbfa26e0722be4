"""Row X32: REST stands behind the same guards and limits as MCP. Its own health is no exception."""

from __future__ import annotations

import pytest

from tests.security.conftest import CANARY, SECRET_WORD, Guarded

PATHS = ["/databases/api/health", "/databases/api/list", "/databases/api/search?db=x&q=y", "/databases/api/nothing"]

ATTACKS = {
    "H04": ({"Host": "evil.example"}, 403),
    "O03": ({"Origin": "https://evil.example"}, 403),
    "T01": ({"Authorization": None}, 401),
    "T06": ({"Authorization": "Bearer " + "x" * 43}, 401),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_x32_the_guards_are_those_of_mcp(guarded: Guarded, path: str, attack: str) -> None:
    change, status = ATTACKS[attack]
    for method in ("GET", "HEAD"):
        reply = guarded.ask(method, path, **change)
        assert reply.status == status == guarded.post(**change).status
        assert reply.header("WWW-Authenticate") == guarded.post(**change).header("WWW-Authenticate")
        assert SECRET_WORD.encode() not in reply.body and CANARY.encode() not in reply.body


@pytest.mark.parametrize("path", PATHS[:3])
def test_x32_the_limits_are_those_of_mcp(guarded: Guarded, path: str) -> None:
    assert guarded.ask("GET", path, Content_Length="10000000000").status == 413
    assert guarded.ask("GET", path, Content_Encoding="gzip").status == 415
    assert guarded.ask("GET", path + "?" + "x" * 70_000).status in (400, 414, 431)
    assert guarded.is_well()


def test_x32_with_a_token_and_without_an_attack_they_answer(guarded: Guarded) -> None:
    """Control of the ones above."""
    assert [guarded.ask("GET", path).status for path in PATHS] == [200, 200, 400, 404]
    assert guarded.ask("GET", PATHS[0]).body == b"OK"
    assert guarded.ask("GET", PATHS[1]).json() == {"loaded": [], "registered": []}
