"""The proof of identity, as relay and command line ask for it."""

from __future__ import annotations

import pytest

from sidecar.bridge.identity import new_nonce, verify
from tests import wire
from tests.lab import INSTANCE, Running


def ask(lab: Running, query: str) -> wire.Reply:
    return wire.raw(lab.port, wire.request("GET", f"/identity{query}", {"Host": f"127.0.0.1:{lab.port}"}))


def test_the_answer_proves_key_port_and_instance(lab: Running) -> None:
    nonce = new_nonce()
    answer = ask(lab, f"?nonce={nonce}").json()
    assert set(answer) == {"proof", "instance", "port"}
    assert (answer["instance"], answer["port"]) == (INSTANCE, lab.port)
    assert verify(lab.local_key, nonce, lab.port, INSTANCE, answer["proof"])
    assert not verify(lab.local_key, nonce, lab.port + 1, INSTANCE, answer["proof"])
    assert not verify(b"another key", nonce, lab.port, INSTANCE, answer["proof"])


def test_d11_a_nonce_is_answered_once(lab: Running) -> None:
    nonce = new_nonce()
    assert ask(lab, f"?nonce={nonce}").status == 200
    again = ask(lab, f"?nonce={nonce}")
    assert again.status == 400
    assert again.json()["error"] == "bad_nonce"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?nonce=",
        "?nonce=short",
        "?nonce=%s&nonce=%s",
        "?nonce=%s%s",
        "?nonce=%%00%s",
        "?nonce=%s=",
        "?other=%s",
    ],
)
def test_d11_a_nonce_that_is_missing_or_malformed_is_refused(lab: Running, query: str) -> None:
    reply = ask(lab, query.replace("%s", new_nonce()).replace("%%", "%"))
    assert reply.status == 400
    assert "proof" not in reply.json()


def test_a_question_that_may_be_asked_again_has_an_answer_that_can_be_kept(
    lab: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of D11: to a daemon that remembers no questions, whoever kept one can ask it again for the same proof."""
    monkeypatch.setattr("sidecar.web.identity._MOST_REMEMBERED", 0)
    nonce = new_nonce()
    first, again = (ask(lab, f"?nonce={nonce}").json()["proof"] for _ in range(2))
    assert first == again


def test_the_proof_and_a_token_may_share_a_connection(lab: Running) -> None:
    # a relay sends its key on the connection that was proven, not on a new one
    with wire.Wire(lab.port) as client:
        client.send(wire.request("GET", f"/identity?nonce={new_nonce()}", {"Host": f"127.0.0.1:{lab.port}"}))
        assert client.reply().status == 200
        client.send(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.call("ping")))
        assert client.reply().status == 200


def test_identity_is_no_way_around_the_other_guards(lab: Running) -> None:
    target = f"/identity?nonce={new_nonce()}"
    assert wire.raw(lab.port, wire.request("GET", target, {"Host": "evil.example"})).status == 403
    headers = {"Host": f"127.0.0.1:{lab.port}", "Origin": "https://evil.example"}
    assert wire.raw(lab.port, wire.request("GET", target, headers)).status == 403
    assert wire.raw(lab.port, wire.request("POST", target, {"Host": f"127.0.0.1:{lab.port}"})).status == 401
