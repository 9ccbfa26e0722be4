"""Rows D09 to D11, D14, S16, T28, X33 and X34: the relay, its daemon, and whoever is in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, identity, lock, private_files
from sidecar.bridge.token import new_local_key
from tests import wire
from tests.bridge.peers import Stranger, http_answer, relay_to
from tests.daemons import start_daemon
from tests.lab import wait_until
from tests.living import listening
from tests.security.starts import run_first
from tests.stdio import PATIENCE_S, Household, RelayProcess, command, relay_environment

MIB = 1 << 20


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Household]:
    with Household(tmp_path / "vault", tmp_path / "root") as made:
        (made.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
        yield made


def works(client: RelayProcess) -> bool:
    """Whether a call is answered out of the vault."""
    return client.text("read_note", path="Plum.md").startswith("# Plum")


def fields(published: endpoint.Endpoint) -> dict[str, object]:
    return {name: getattr(published, name) for name in endpoint.Endpoint.__slots__}


# who gets the key


def lie(_: bytes) -> bytes:
    """Answers any question with a proof of the right form."""
    return http_answer({"proof": "A" * 43, "instance": "real", "port": 1})


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lie, id="D09-lies"),
        pytest.param(lambda _: http_answer({}, "401 Unauthorized", "WWW-Authenticate: Bearer\r\n"), id="D09-asks"),
        pytest.param(lambda _: b"SSH-2.0-x\r\n", id="D09-other-protocol"),
        pytest.param(lambda _: b"", id="D09-hangs-up"),
    ],
)
def test_a_stranger_on_the_recorded_port_hears_no_key_and_no_message(home: Household, answer: object) -> None:
    private_files.make_folder(home.state)
    key = new_local_key(home.state)
    with Stranger(answer) as stranger:  # type: ignore[arg-type]
        endpoint.write(home.state, endpoint.of_this_process(stranger.port, "real", "0.1.0"))
        client = home.relay()
        client.shake_hands()
        assert works(client), "a daemon of our own was started instead"
        assert home.daemon().port != stranger.port
    assert b"GET /identity?nonce=" in stranger.heard
    for secret in (key, b"Authorization", b"vsl_", b"/admin", b"/mcp", b"initialize", b"Plum"):
        assert secret not in stranger.heard


def test_d10_a_stranger_that_passes_the_question_on_to_the_daemon_hears_no_key(home: Household) -> None:
    daemon = start_daemon(home.vault, home.root, token="t" * 40)
    try:
        real = home.daemon()
        with Stranger(relay_to(real.port)) as stranger:
            endpoint.write(home.state, endpoint.Endpoint(**{**fields(real), "port": stranger.port}))
            client = home.relay()
            client.begin("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
            wait_until(lambda: stranger.connections >= 3)
            endpoint.write(home.state, real)
            client.answer(1)
            assert works(client)
        assert b"GET /identity?nonce=" in stranger.heard
        for secret in (b"Authorization", b"vsl_", b"/admin", b"/mcp", b"initialize"):
            assert secret not in stranger.heard
    finally:
        daemon.stop()


def test_d11_a_nonce_is_answered_once_and_the_answer_says_nothing_of_the_key(home: Household) -> None:
    client = home.relay()
    client.shake_hands()
    port, key = home.daemon().port, (home.state / "local.key").read_bytes().strip()
    host = {"Host": f"127.0.0.1:{port}"}

    def asked(query: str) -> wire.Reply:
        return wire.raw(port, wire.request("GET", f"/identity{query}", host))

    nonce = identity.new_nonce()
    first = asked(f"?nonce={nonce}")
    assert first.status == 200
    assert identity.verify(key, nonce, port, home.daemon().instance, first.json()["proof"])
    for query in (
        "",
        "?nonce=",
        f"?nonce={nonce}",
        f"?nonce={nonce[:-1]}",
        f"?nonce={nonce}&nonce={nonce}",
        "?nonce=é",
    ):
        assert asked(query).status == 400, query
    for secret in (key, key[4:], home.token().encode()):
        assert secret not in first.body


CREDULOUS = "from sidecar.bridge import identity\nidentity.verify = lambda *_: True\n"


def test_without_the_proof_the_stranger_would_get_the_key(home: Household, tmp_path: Path) -> None:
    """Control of D09."""
    private_files.make_folder(home.state)
    key = new_local_key(home.state)
    with Stranger(lie) as stranger:
        endpoint.write(home.state, endpoint.of_this_process(stranger.port, "real", "0.1.0"))
        home.relay(**run_first(tmp_path, CREDULOUS))
        wait_until(lambda: key in stranger.heard)
        (home.state / "endpoint.json").unlink(missing_ok=True)


# lives

LONELY = "no client has been connected through a relay for 1 s"


def test_d14_a_daemon_whose_relays_were_killed_ends_by_itself_and_never_without_an_address(home: Household) -> None:
    clients = [home.relay(linger_s=1.0) for _ in range(2)]
    for client in clients:
        client.shake_hands()
    daemon = home.daemon()
    wait_until(lambda: home.status()["relays"] == 2)
    for client in clients:
        client.process.kill()
    while home.is_served():
        published = endpoint.read(home.state)
        assert published is None or published == daemon
        wait_until(lambda: True)
    assert endpoint.read(home.state) is None
    assert lock.holder(home.state) is None, "it ended cleanly"
    assert LONELY in (home.state / "daemon.log").read_text()


def test_d14_a_daemon_whose_relay_died_while_it_started_ends_by_itself_too(home: Household) -> None:
    client = home.relay(linger_s=1.0)
    log = home.state / "daemon.log"
    wait_until(lambda: log.exists() and log.read_text() != "")
    client.process.kill()
    client.process.wait()
    wait_until(lambda: LONELY in log.read_text())
    wait_until(lambda: not home.is_served())
    assert endpoint.read(home.state) is None


def test_d14_a_daemon_stays_while_one_relay_is_there(home: Household) -> None:
    """Control of D14: it is the relays that it goes by."""
    stays, leaves = home.relay(linger_s=1.0), home.relay(linger_s=1.0)
    for client in (stays, leaves):
        client.shake_hands()
    daemon = home.daemon()
    assert leaves.end() == 0
    wait_until(lambda: home.status()["relays"] == 1)
    over = time.monotonic() + 2.0
    while time.monotonic() < over:
        assert works(stays)
    assert home.daemon() == daemon
    assert stays.end() == 0
    wait_until(lambda: not home.is_served())


def test_d14_a_hang_up_of_the_terminal_ends_the_relay_and_not_the_daemon(home: Household) -> None:
    relay = subprocess.Popen(
        command(home.vault, home.root, linger_s=PATIENCE_S),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=relay_environment(),
        start_new_session=True,
        # these tests may themselves run under nohup, and what is ignored is inherited
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    with relay:
        wait_until(lambda: endpoint.read(home.state) is not None)
        daemon = home.daemon()
        os.killpg(relay.pid, signal.SIGHUP)
        assert relay.wait(PATIENCE_S) == -signal.SIGHUP
    assert home.status()["pid"] == daemon.pid


def test_s16_of_twenty_relays_at_once_one_daemon_comes_and_all_are_served(home: Household) -> None:
    clients = [home.relay(linger_s=PATIENCE_S) for _ in range(20)]
    for client in clients:
        client.shake_hands()
        assert works(client)
    wait_until(lambda: home.status()["relays"] == 20)
    log = (home.state / "daemon.log").read_text()
    assert log.count("sidecar.daemon: the token is kept") == 1, "one daemon went on after the lock"
    assert log.count("another daemon") == log.count("serves this vault already")
    assert [client.end() for client in clients] == [0] * 20


LOCKLESS = """
import atexit, os, pathlib, sys, time
from sidecar.bridge import lock
lock._try = lambda _: True
if "serve" in sys.orig_argv:
    lives = pathlib.Path({lives!r})
    life = lives / str(os.getpid())
    life.touch()
    atexit.register(life.unlink)
    give_up = time.monotonic() + {patience_s}
    while len(os.listdir(lives)) < 2 and time.monotonic() < give_up:
        time.sleep(0.01)
"""


def test_without_the_lock_there_would_be_more_than_one_daemon(home: Household, tmp_path: Path) -> None:
    """Control of S16. The daemons take each other's files away, so one may end before it serves."""
    lives = tmp_path / "lives"
    lives.mkdir()
    lockless = run_first(tmp_path, LOCKLESS.format(lives=str(lives), patience_s=PATIENCE_S))
    clients = [home.relay(linger_s=0.5, **lockless) for _ in range(3)]
    for client in clients:
        client.shake_hands()
    log = home.state / "daemon.log"
    wait_until(lambda: log.read_text().count("sidecar.daemon: the token is kept") > 1)
    for client in clients:
        assert client.end() == 0
    wait_until(lambda: not any(lives.iterdir()))


# the process


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_t28_it_asks_for_no_token_and_opens_no_port(home: Household) -> None:
    client = home.relay()
    client.shake_hands()
    assert works(client)
    assert listening(client.process.pid) == set()
    assert len(listening(home.daemon().pid)) == 1, "control: the daemon does"
    home.stop()
    home.vault.rename(home.vault.with_name("away"))
    assert client.tools()
    assert client.call("list_notes")["isError"]
    assert listening(client.process.pid) == set(), "nor while nothing but the catalogue is there"
    home.vault.with_name("away").rename(home.vault)


def rss_mib(pid: int) -> int:
    """The most memory a process has had."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) >> 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_x33_a_line_of_a_hundred_mib_is_an_error_and_costs_no_memory(home: Household) -> None:
    client = home.relay()
    client.shake_hands()
    piece = b"x" * MIB
    client._to.write(b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"')
    for _ in range(100):
        client._to.write(piece)
    client.send(b'"}}')
    answer = json.loads(client.next_line())
    assert answer == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": "A message is at most 16 MiB long."},
    }
    assert rss_mib(client.process.pid) < 100
    assert works(client)
    assert client.end() == 0


def test_x33_a_line_as_long_as_a_body_may_be_reaches_the_daemon(home: Household) -> None:
    """Control of the row above, and that the limit is the daemon's own."""
    client = home.relay(VAULT_SIDECAR_HTTP_MAX_BODY_MIB="1")
    client.shake_hands()
    call = wire.tool("read_note", path="")
    client.send(call.replace(b'"path": ""', b'"path": "' + b"x" * (MIB - len(call)) + b'"'))
    assert client.answer(1)["result"]["isError"], "the tool has seen it"
    client.send(call.replace(b'"path": ""', b'"path": "' + b"x" * (MIB - len(call) + 1) + b'"'))
    assert json.loads(client.next_line())["error"]["message"] == "A message is at most 1 MiB long."


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(b"{", -32700, id="X33-cut"),
        pytest.param(b"\x00\xff", -32700, id="X33-bytes"),
        pytest.param(b"[[]]", -32600, id="X33-batch"),
        pytest.param(b'"' + b"\\" * 100_000, -32700, id="X33-backslashes"),
        pytest.param(b"[" * 100_000, -32700, id="X33-deep"),
    ],
)
def test_what_is_no_json_is_an_error(home: Household, line: bytes, code: int) -> None:
    client = home.relay()
    client.send(line)
    assert json.loads(client.next_line())["error"]["code"] == code
    assert client.end() == 0
    assert [json.loads(said)["jsonrpc"] for said in client.rest().splitlines()] == ["2.0"]


TRUSTING = "import json\nfrom sidecar.protocol import json_body\njson_body.parse = json.loads\n"


@pytest.mark.parametrize("line", [pytest.param(b"{", id="cut"), pytest.param(b"[" * 100_000, id="deep")])
def test_to_a_parser_that_is_trusted_what_is_no_json_is_the_end(home: Household, tmp_path: Path, line: bytes) -> None:
    """Control of X33: one bad line takes the connection with it."""
    client = home.relay(**run_first(tmp_path, TRUSTING))
    client.send(line)
    client.process.wait(PATIENCE_S)
    assert client.process.returncode != 0
    assert client.rest() == b""


def test_x33_stdin_that_is_closed_from_the_start_is_code_0(home: Household) -> None:
    client = home.relay()
    assert client.end() == 0
    assert client.rest() == b""


NOISY = """
import os, subprocess, sys
from sidecar.bridge import client

def loud(published, key, *, real=client.connect):
    print("a greeting in Python")
    sys.stdout.flush()
    print("a greeting that stays in the buffer")
    os.write(1, b"a greeting out of C\\n")
    subprocess.run([sys.executable, "-S", "-c", "print('a greeting of a child')"])
    return real(published, key)

client.connect = loud
"""
GREETINGS = ("in Python", "that stays in the buffer", "out of C", "of a child")


def test_x34_what_libraries_print_goes_to_stderr(home: Household, tmp_path: Path) -> None:
    client = home.relay(**run_first(tmp_path, NOISY))
    client.shake_hands()
    assert works(client)
    assert client.end() == 0
    for line in client.rest().splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
    for greeting in GREETINGS:
        assert f"a greeting {greeting}\n" in client.stderr()


UNCLAIMED = "import os\nfrom sidecar.cli import stdout\nstdout.claim = lambda: os.dup(1)\n"


def test_without_the_claim_they_would_be_on_stdout(home: Household, tmp_path: Path) -> None:
    """Control of X34."""
    home.relay().shake_hands()
    client = home.relay(**run_first(tmp_path, NOISY + UNCLAIMED))
    client.send(wire.call("ping"))
    while client.next_line() != b"a greeting out of C":
        continue
