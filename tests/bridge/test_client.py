"""The local client: whom it talks to, and that a stranger learns no key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, identity, private_files
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.bridge.token import new_local_key, new_token
from sidecar.bridge.token_store import FileStore
from sidecar.errors import BadArguments, SidecarError, Unreachable, Unreadable
from tests.bridge.peers import Honest, Stranger, honest_daemon, http_answer, relay_to


def test_the_key_is_sent_only_after_the_proof(tmp_path: Path) -> None:
    with honest_daemon(tmp_path) as daemon, LocalClient(tmp_path) as client:
        assert client.get("/admin/status", depth=2) == {"echo": ""}
        assert client.post("/admin/search", query="плод") == {"echo": json.dumps({"query": "плод"})}
    (proof, shown_first), *rest = daemon.requests
    assert proof.startswith("/identity?nonce=")
    assert not shown_first
    assert rest == [("/admin/status?depth=2", True), ("/admin/search", True)]


def test_each_new_connection_is_proven_anew_with_a_new_nonce(tmp_path: Path) -> None:
    """D11."""
    with honest_daemon(tmp_path) as daemon, LocalClient(tmp_path) as client:
        client.get("/admin/status")
        client.close()
        client.get("/admin/status")
    proofs = [path for path, _ in daemon.requests if path.startswith("/identity")]
    assert len(proofs) == len(set(proofs)) == 2


def test_a_connection_the_daemon_closed_is_never_reopened_without_a_proof(tmp_path: Path) -> None:
    """D09: by then, somebody else may listen there."""
    with honest_daemon(tmp_path) as daemon, LocalClient(tmp_path) as client:
        client.get("/admin/status")
        daemon.close_after_answer = True
        client.get("/admin/status")
        daemon.close_after_answer = False
        client.get("/admin/status")
    asked = [path.partition("?")[0] for path, _ in daemon.requests]
    assert asked == ["/identity", "/admin/status", "/admin/status", "/identity", "/admin/status"]


def test_a_daemon_that_closes_right_after_the_proof_gets_no_key(tmp_path: Path) -> None:
    with honest_daemon(tmp_path) as daemon, LocalClient(tmp_path) as client:
        daemon.close_after_answer = True
        with pytest.raises(Unreachable, match="broke off"):
            client.get("/admin/status")
    assert not any(shown for _, shown in daemon.requests)


def lie(part: bytes) -> bytes:
    return http_answer({"proof": "A" * 43, "instance": "x", "port": 1})


STRANGERS = [
    pytest.param(lie, id="D09-false-proof"),
    pytest.param(lambda _: http_answer({}), id="D09-no-proof"),
    pytest.param(lambda _: http_answer({"proof": 5}), id="proof-of-another-type"),
    pytest.param(lambda _: http_answer([]), id="no-object"),
    pytest.param(lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", id="no-json"),
    pytest.param(lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"[" * 20000, id="deep-json"),
    pytest.param(lambda _: b"SSH-2.0-OpenSSH\r\n", id="another-protocol"),
    pytest.param(lambda _: b"", id="closes"),
    pytest.param(
        lambda _: http_answer({}, "401 Unauthorized", "WWW-Authenticate: Basic\r\n"), id="asks-for-a-password"
    ),
]


@pytest.mark.parametrize("answer", STRANGERS)
def test_a_stranger_on_the_recorded_port_hears_no_key(tmp_path: Path, answer: Callable[[bytes], bytes]) -> None:
    """D09."""
    key, token = new_local_key(tmp_path), new_token()
    FileStore(tmp_path, tmp_path / "vault").store(token)
    with Stranger(answer) as stranger:
        endpoint.write(tmp_path, endpoint.of_this_process(stranger.port, "real", "0.1.0"))
        with LocalClient(tmp_path) as client:
            for _ in range(2):
                with pytest.raises(Unreachable, match="is not this vault's daemon; nothing was sent to it") as refused:
                    client.post("/admin/stop")
                assert not isinstance(refused.value, NotRunning)
    assert stranger.connections == 2
    assert b"GET /identity?nonce=" in stranger.heard
    for secret in (key, token.encode(), b"Authorization", b"/admin"):
        assert secret not in stranger.heard


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """D09."""
    with honest_daemon(tmp_path) as daemon:
        where = f"Location: http://127.0.0.1:{daemon.port}/identity\r\n"
        with Stranger(lambda _: http_answer({}, "307 Temporary Redirect", where)) as stranger:
            daemon.publish(tmp_path, stranger.port)
            with pytest.raises(Unreachable), LocalClient(tmp_path) as client:
                client.get("/admin/status")
    assert daemon.requests == []


def test_d10_a_stranger_that_relays_the_question_fails(tmp_path: Path) -> None:
    """The real daemon answers for its own port."""
    with honest_daemon(tmp_path) as daemon, Stranger(relay_to(daemon.port)) as stranger:
        daemon.publish(tmp_path, stranger.port)
        with pytest.raises(Unreachable, match="is not this vault's daemon"), LocalClient(tmp_path) as client:
            client.get("/admin/status")
    assert len(daemon.requests) == 1, "the question did reach the real daemon"
    assert daemon.key not in stranger.heard


def test_d10_an_earlier_instance_that_still_answers_fails(tmp_path: Path) -> None:
    """The instance is part of the proof."""
    with honest_daemon(tmp_path) as daemon:
        endpoint.write(tmp_path, endpoint.of_this_process(daemon.port, "newer", "0.1.0"))
        with pytest.raises(Unreachable, match="is not this vault's daemon"), LocalClient(tmp_path) as client:
            client.get("/admin/status")


def test_without_the_check_the_stranger_would_get_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of D09."""
    key = new_local_key(tmp_path)
    monkeypatch.setattr(identity, "verify", lambda *_: True)
    with Stranger(lie) as stranger:
        endpoint.write(tmp_path, endpoint.of_this_process(stranger.port, "real", "0.1.0"))
        with LocalClient(tmp_path) as client:
            client.get("/admin/status")
    assert key in stranger.heard


def test_without_the_port_in_the_proof_the_relay_would_get_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of D10."""
    real = identity.verify
    with honest_daemon(tmp_path) as daemon, Stranger(relay_to(daemon.port)) as stranger:
        daemon.publish(tmp_path, stranger.port)
        monkeypatch.setattr(
            identity, "verify", lambda key, nonce, _, instance, proof: real(key, nonce, daemon.port, instance, proof)
        )
        with LocalClient(tmp_path) as client:
            client.get("/admin/status")
    assert daemon.key in stranger.heard


def test_proxy_settings_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stranger(lie) as proxy, honest_daemon(tmp_path):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        with LocalClient(tmp_path) as client:
            client.get("/admin/status")
    assert proxy.connections == 0


def test_only_the_loopback_address_is_called_whatever_the_file_says(tmp_path: Path) -> None:
    with honest_daemon(tmp_path) as daemon, LocalClient(tmp_path) as client:
        found = endpoint.Endpoint("http://evil.example/", daemon.port, 1, daemon.instance, "0", "now")
        endpoint.write(tmp_path, found)
        assert client.get("/admin/status") == {"echo": ""}


def test_with_nothing_published_no_daemon_runs(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="start one with 'vault-sidecar serve'"), LocalClient(tmp_path) as client:
        client.get("/admin/status")


def test_what_a_killed_daemon_left_is_no_running_daemon(tmp_path: Path) -> None:
    """D06."""
    daemon = Honest(tmp_path)
    daemon.publish(tmp_path)
    daemon.server.server_close()
    with pytest.raises(NotRunning), LocalClient(tmp_path) as client:
        client.get("/admin/status")


def test_an_endpoint_file_others_may_write_is_not_believed(tmp_path: Path) -> None:
    """D12."""
    with honest_daemon(tmp_path) as daemon:
        (tmp_path / "endpoint.json").chmod(0o666)
        with pytest.raises(Unreadable, match="may be written by other users"), LocalClient(tmp_path) as client:
            client.get("/admin/status")
        assert daemon.requests == []


def test_the_daemons_own_error_keeps_its_class_and_sentence(tmp_path: Path) -> None:
    with honest_daemon(tmp_path) as daemon, LocalClient(tmp_path) as client:
        daemon.answers["/a"] = (400, {"error": "bad_arguments", "message": "k: must be a whole number."})
        daemon.answers["/b"] = (500, {"error": "unheard of", "message": "Odd."})
        daemon.answers["/c"] = (404, {})
        with pytest.raises(BadArguments, match=r"^k: must be a whole number\.$"):
            client.get("/a")
        with pytest.raises(SidecarError, match=r"^Odd\.$"):
            client.get("/b")
        with pytest.raises(SidecarError, match="status 404"):
            client.get("/c")
        assert client.get("/d") == {"echo": ""}, "an error is no reason to hang up"
        assert len([path for path, _ in daemon.requests if path.startswith("/identity")]) == 1


def test_an_empty_key_file_is_no_key(tmp_path: Path) -> None:
    with honest_daemon(tmp_path):
        private_files.write(tmp_path / "local.key", b"\n")
        with pytest.raises(NotRunning), LocalClient(tmp_path) as client:
            client.get("/admin/status")
