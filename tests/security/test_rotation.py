"""Rows R01 to R07 and R09 to R13, and T27's sessions aside: what a rotation ends, and when."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.bridge.token import is_token
from sidecar.web.app import App
from tests import wire
from tests.daemons import Daemon
from tests.eras import ENVELOPE, MODERN
from tests.lab import in_thread, wait_until
from tests.security import owner
from tests.security.owner import opens
from tests.security.starts import Site


def made(folder: Path) -> Site:
    """A site with a note in its vault."""
    site = Site(folder)
    (site.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
    return site


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Site]:
    """For a daemon of the test's own."""
    with closing(made(tmp_path)) as site:
        yield site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """That of `daemon`."""
    with closing(made(tmp_path_factory.mktemp("rotation"))) as site:
        yield site


@pytest.fixture(scope="module")
def served(site: Site) -> Iterator[Daemon]:
    """Its token lies in the file. It logs at debug, so that a leak shows."""
    started = site.start(VAULT_SIDECAR_LOG_LEVEL="debug")
    yield started
    assert started.stop() == 0


@pytest.fixture
def daemon(site: Site, served: Daemon) -> Daemon:
    """With a token of this test's own, and none with a name."""
    served.token = owner.rotate(served.port, site.state)
    return served


def listen(port: int, token: str) -> wire.Wire:
    """An open stream: it waits for changes of the list of tools. Its first event has come."""
    headers = wire.mcp_headers(port, token)
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    body = wire.call("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE})
    stream = wire.Wire(port)
    stream.send(wire.request("POST", "/mcp", headers, body))
    begin = b""
    while b"\n\n" not in begin.partition(b"\r\n\r\n")[2]:
        part = stream.socket.recv(1 << 16)
        assert part, begin
        begin += part
    assert begin.startswith(b"HTTP/1.1 200"), begin
    return stream


def rest_of(stream: wire.Wire) -> bytes:
    """What still comes until the server ends the stream."""
    rest = b""
    while True:
        try:
            part = stream.socket.recv(1 << 16)
        except ConnectionResetError:
            return rest
        if not part:
            return rest
        rest += part


def test_r01_r02_the_old_token_is_dead_and_the_new_one_opens(site: Site, daemon: Daemon) -> None:
    new = owner.rotate(daemon.port, site.state)
    assert not opens(daemon.port, daemon.token)
    assert opens(daemon.port, new)
    assert is_token(new) and new == site.token


UNPUBLISHED = "from sidecar.bridge import token\ntoken.Keys.replace = lambda *_: None"


def test_r01_without_the_assignment_the_old_token_lives_on(fresh: Site) -> None:
    """Control of R01 and R02."""
    daemon = fresh.start(**fresh.run_first(UNPUBLISHED))
    new = owner.rotate(daemon.port, fresh.state)
    assert opens(daemon.port, daemon.token)
    assert not opens(daemon.port, new)
    assert daemon.stop() == 0


def test_r03_open_streams_of_the_old_token_are_ended(site: Site, daemon: Daemon) -> None:
    bob = owner.ask(daemon.port, site.state, "POST", "/admin/token/add", agent="bob").json()["token"]
    with listen(daemon.port, daemon.token) as old, listen(daemon.port, bob) as named:
        new = owner.rotate(daemon.port, site.state)
        assert b"data:" not in rest_of(old), "and nothing more is told on them"
        assert b"data:" not in rest_of(named)
    with listen(daemon.port, new) as kept:
        kept.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            kept.socket.recv(1)


def test_a_removed_token_loses_its_streams_and_no_others(site: Site, daemon: Daemon) -> None:
    tokens = {
        agent: owner.ask(daemon.port, site.state, "POST", "/admin/token/add", agent=agent).json()["token"]
        for agent in ("bob", "eve")
    }
    with listen(daemon.port, tokens["bob"]) as bob, listen(daemon.port, tokens["eve"]) as eve:
        assert owner.ask(daemon.port, site.state, "POST", "/admin/token/remove", agent="bob").status == 200
        rest_of(bob)
        eve.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            eve.socket.recv(1)
    assert [opens(daemon.port, tokens[agent]) for agent in ("bob", "eve")] == [False, True]


def test_r03_without_the_call_that_ends_them_streams_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of R03."""
    monkeypatch.setattr(App, "token_changed", lambda _: None)
    with in_thread() as lab, listen(lab.port, lab.token) as stream:
        lab.on_loop(lab.rotate)
        assert not opens(lab.port, lab.token)
        stream.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            stream.socket.recv(1)


def test_r04_a_call_that_has_begun_is_finished() -> None:
    """The rule: what runs without a stream ends as it would have. What has not begun does not begin: R13."""
    with in_thread() as lab, wire.Wire(lab.port) as client:
        client.send(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.tool("slow")))
        wait_until(lab.lab.entered.is_set)
        lab.on_loop(lab.rotate)
        assert not opens(lab.port, lab.token)
        lab.on_loop(lab.lab.leave.set)
        assert client.reply().json()["result"]["content"][0]["text"] == "done"
        client.send(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.INITIALIZE))
        assert client.reply().status == 401


def test_r05_of_rotations_at_once_each_answer_is_a_valid_token_or_a_refusal(site: Site, daemon: Daemon) -> None:
    """One that comes while another is under way is refused; nobody is handed a token that died meanwhile."""
    replies: list[wire.Reply] = []
    begin = threading.Barrier(8)

    def one() -> None:
        begin.wait()
        replies.append(owner.ask(daemon.port, site.state, "POST", "/admin/token/rotate"))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {reply.status for reply in replies} <= {200, 429}
    tokens = [reply.json()["token"] for reply in replies if reply.status == 200]
    assert [token for token in tokens if opens(daemon.port, token)] == [site.token]


@pytest.mark.parametrize("path", ["/admin/token/rotate", "/admin/token/add", "/admin/token/remove", "/admin/port"])
def test_r06_only_the_owners_programs_rotate(site: Site, daemon: Daemon, path: str) -> None:
    port, key = daemon.port, owner.local_key(site.state)
    body = {"agent": "bob"} if path.startswith("/admin/token/") else {"port": 25000}
    before = owner.kept(site.state)

    def status(key: str | None, *more: str) -> int:
        head, _, rest = owner.request(port, key, "POST", path, body).partition(b"\r\n\r\n")
        return wire.raw(port, b"\r\n".join([head, *(line.encode() for line in more)]) + b"\r\n\r\n" + rest).status

    assert status(None) == 401
    assert status("wrong") == 401
    assert status(daemon.token) == 404, "for a client's token it does not exist"
    assert status(key, "Origin: https://evil.example") == 403
    assert status(key, "Sec-Fetch-Site: cross-site") == 403
    assert wire.raw(port, owner.request(port, key, "GET", path)).status == 405
    assert owner.kept(site.state) == before
    assert opens(port, daemon.token)
    if path != "/admin/token/rotate":
        return
    assert wire.raw(port, owner.request(port, key, "POST", path)).status == 200, "control: it does rotate"
    assert not opens(port, daemon.token)


def test_r07_a_keyring_that_fails_during_rotation_leaves_all_as_it_was(fresh: Site) -> None:
    keyring = fresh.folder / "keyring.json"
    failing = """
from tests.bridge import keyrings
from keyring.errors import KeyringLocked

real = keyrings.OnDisk.set_password
calls = []

def once(self, *args):
    calls.append(1)
    if len(calls) == 2:
        real(self, *args[:2], "half")
        raise KeyringLocked("s3cr3t")
    real(self, *args)

keyrings.OnDisk.set_password = once
"""
    daemon = fresh.start(**fresh.run_first(failing), **owner.keyring_at(keyring))
    [token] = json.loads(keyring.read_text()).values()
    before = owner.kept(fresh.state)
    reply = owner.ask(daemon.port, fresh.state, "POST", "/admin/token/rotate")
    assert (reply.status, reply.json()) == (
        409,
        {"error": "keyring_away", "message": "the system's keyring can't be used: it is locked"},
    )
    assert opens(daemon.port, token)
    assert owner.kept(fresh.state) == before
    new = owner.rotate(daemon.port, fresh.state)
    assert (opens(daemon.port, token), opens(daemon.port, new)) == (False, True)
    assert daemon.stop() == 0
    again = fresh.start(**owner.keyring_at(keyring))
    assert opens(again.port, new)
    assert again.stop() == 0


def test_r09_a_connection_is_let_in_by_each_request_anew(site: Site, daemon: Daemon) -> None:
    headers = wire.mcp_headers(daemon.port, daemon.token)
    with wire.Wire(daemon.port) as client:
        client.send(wire.request("POST", "/mcp", headers, wire.INITIALIZE))
        assert client.reply().status == 200
        owner.rotate(daemon.port, site.state)
        client.send(wire.request("POST", "/mcp", headers, wire.INITIALIZE))
        assert client.reply().status == 401


REMEMBERING = """
import functools
from sidecar.bridge import token
token.Keys.check = functools.cache(token.Keys.check)
"""


def test_r09_without_a_check_of_each_request_the_old_token_goes_on(fresh: Site) -> None:
    """Control of R09."""
    daemon = fresh.start(**fresh.run_first(REMEMBERING))
    assert opens(daemon.port, daemon.token)
    owner.rotate(daemon.port, fresh.state)
    assert opens(daemon.port, daemon.token)
    assert daemon.stop() == 0


def test_r10_the_new_token_is_in_its_answer_and_nowhere_else(site: Site, daemon: Daemon) -> None:
    reply = owner.ask(daemon.port, site.state, "POST", "/admin/token/rotate")
    new = reply.json()["token"].encode()
    assert reply.header("Cache-Control") == "no-store"
    assert not [value for _, value in reply.headers if new in value.encode()]
    bob = owner.ask(daemon.port, site.state, "POST", "/admin/token/add", agent="bob").json()["token"].encode()
    assert opens(daemon.port, new.decode()) and opens(daemon.port, bob.decode())
    log = daemon.stderr().encode()
    assert b"the token was replaced" in log
    assert new not in log and bob not in log
    for path in ("/admin/status", "/admin/tokens", "/admin/endpoint"):
        answer = owner.ask(daemon.port, site.state, "GET", path).body
        assert new not in answer and bob not in answer, path
    assert [name for name, content in site.left().items() if new in content] == ["token"]
    assert [name for name, content in site.left().items() if bob in content] == []


TELLING = """
import logging
from sidecar.bridge import token
from sidecar.cli import log
real = token.Keys.replace

def tell(self, new):
    logging.getLogger("sidecar").info("now it is %s", new)
    real(self, new)

token.Keys.replace = tell
"""


def test_r10_a_token_in_the_log_would_be_found(fresh: Site) -> None:
    """Control of R10; the log's own last defence, which cuts keys out, is taken away too."""
    code = TELLING + 'log._KEYS = "nothing"\n'
    daemon = fresh.start(**fresh.run_first(code))
    assert owner.rotate(daemon.port, fresh.state) in daemon.stderr()
    assert daemon.stop() == 0
    kept = fresh.start(**fresh.run_first(TELLING))
    assert owner.rotate(kept.port, fresh.state) not in kept.stderr()
    assert "now it is ***" in kept.stderr()
    assert kept.stop() == 0


def test_r11_after_twenty_rotations_one_token_is_valid(site: Site, daemon: Daemon) -> None:
    tokens = [daemon.token]
    for _ in range(20):
        tokens.append(owner.rotate(daemon.port, site.state))
        assert [opens(daemon.port, token) for token in tokens[-2:]] == [False, True]
    assert len(set(tokens)) == 21
    assert [token for token in tokens if opens(daemon.port, token)] == [tokens[-1]]


@pytest.mark.parametrize("in_keyring", [pytest.param(False, id="R12-file"), pytest.param(True, id="R12-keyring")])
def test_the_token_outlasts_a_restart_and_named_ones_do_too(fresh: Site, in_keyring: bool) -> None:
    env = owner.keyring_at(fresh.folder / "keyring.json") if in_keyring else {}
    daemon = fresh.start(**env)
    new = owner.rotate(daemon.port, fresh.state)
    bob = owner.ask(daemon.port, fresh.state, "POST", "/admin/token/add", agent="bob").json()["token"]
    assert daemon.stop() == 0
    again = fresh.start(**env)
    assert opens(again.port, new) and opens(again.port, bob)
    assert again.stop() == 0
    assert (fresh.state / "token").read_text().startswith("keyring " if in_keyring else "vsc_")


def test_r13_a_body_that_arrives_after_the_rotation_begins_nothing(site: Site, daemon: Daemon) -> None:
    body = wire.tool("read_note", path="Plum.md")
    headers = wire.mcp_headers(daemon.port, daemon.token) | {"Content-Length": str(len(body)), "User-Agent": "late"}
    with wire.Wire(daemon.port) as client:
        client.send(wire.request("POST", "/mcp", headers) + body[:10])
        wait_until(lambda: "late" in str(owner.ask(daemon.port, site.state, "GET", "/admin/status").json()["clients"]))
        owner.rotate(daemon.port, site.state)
        client.send(body[10:])
        reply = client.reply()
    assert reply.status == 401
    assert b"plum tree" not in reply.body


def test_status_tells_whose_token_a_client_has_and_who_was_refused(site: Site, daemon: Daemon) -> None:
    bob = owner.ask(daemon.port, site.state, "POST", "/admin/token/add", agent="bob").json()["token"]
    wire.post(daemon.port, daemon.token, wire.INITIALIZE, User_Agent="one/1")
    wire.post(daemon.port, bob, wire.INITIALIZE, User_Agent="two/2")
    owner.rotate(daemon.port, site.state)
    wire.post(daemon.port, bob, wire.INITIALIZE, User_Agent="two/2")
    facts = owner.ask(daemon.port, site.state, "GET", "/admin/status").json()
    clients = [(client["agent"], client["token"]) for client in facts["clients"]]
    assert clients[:2] == [("two/2", "bob"), ("one/1", "local")]
    refused = facts["last_refused"]
    assert (refused["reason"], refused["status"], refused["agent"]) == ("wrong_token", 401, "two/2")
    wire.post(daemon.port, "", wire.INITIALIZE, User_Agent="three/3", Authorization="")
    assert owner.ask(daemon.port, site.state, "GET", "/admin/status").json()["last_refused"]["agent"] == "three/3"


def test_a_named_token_is_checked_like_the_main_one_and_opens_no_admin_route(site: Site, daemon: Daemon) -> None:
    bob = owner.ask(daemon.port, site.state, "POST", "/admin/token/add", agent="bob").json()["token"]
    for presented in (f"Bearer {bob}x", f"Bearer {bob[:-1]}", f"Basic {bob}", bob):
        assert wire.post(daemon.port, "", wire.INITIALIZE, Authorization=presented).status == 401
    assert wire.post(daemon.port, bob, wire.INITIALIZE, Host="evil.example").status == 403
    assert wire.post(daemon.port, bob, wire.INITIALIZE, Origin="https://evil.example").status == 403
    assert wire.raw(daemon.port, owner.request(daemon.port, bob, "GET", "/admin/tokens")).status == 404
    assert opens(daemon.port, bob)
