"""Rows D04 to D08, D13, D15, D18 and the disabled surfaces: how a real daemon starts, meets others, and ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, lock
from sidecar.bridge.token import is_token
from tests import wire
from tests.conftest import REPOSITORY
from tests.daemons import START_S, STOP_S, Daemon, environment
from tests.lab import wait_until
from tests.security import owner
from tests.security.conftest import Guarded
from tests.security.starts import Site

DEAD_PID = 2**22 + 1  # above the largest process id there can be


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        (made.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
        yield made


def serves(daemon: Daemon, path: str = "/mcp") -> bool:
    """Whether a client with the token is served."""
    return wire.post(daemon.port, daemon.token, wire.call("tools/list"), path).status == 200


def published_at(site: Site) -> endpoint.Endpoint:
    found = endpoint.read(site.state)
    assert found is not None
    return found


def left_cleanly(site: Site) -> bool:
    """Neither address nor holder is on record any more."""
    return endpoint.read(site.state) is None and lock.holder(site.state) is None


# the port


@contextmanager
def taken(host: str = "127.0.0.1") -> Iterator[tuple[int, Callable[[], bool]]]:
    """A port that another program listens on, and whether anybody has connected to it."""
    with socket.create_server((host, 0)) as server:
        server.setblocking(False)

        def met() -> bool:
            try:
                server.accept()
            except BlockingIOError:
                return False
            return True

        yield server.getsockname()[1], met


@pytest.mark.parametrize(
    ("source", "host"),
    [
        pytest.param("config.toml", "127.0.0.1", id="D04-config"),
        pytest.param("settings.json", "127.0.0.1", id="D04-pinned"),
        pytest.param("the environment", "127.0.0.1", id="D04-environment"),
        pytest.param("--port", "127.0.0.1", id="D04-argument"),
        pytest.param("--port", "0.0.0.0", id="D04-wildcard"),
    ],
)
def test_a_taken_port_ends_the_start_and_no_other_is_tried(site: Site, source: str, host: str) -> None:
    with taken(host) as (port, met):
        env = site.write_down()
        if source == "config.toml":
            site.put(source, f"[http]\nport = {port}\n")
        elif source == "settings.json":
            site.put(source, json.dumps({"http": {"port": port}}))
        elif source == "the environment":
            env["VAULT_SIDECAR_HTTP_PORT"] = str(port)
        ended = site.refused(port=str(port) if source == "--port" else None, **env)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.splitlines()[-1] == (
            f"vault-sidecar: port {port} is in use by another program, and clients of this vault know it by that port;"
            " stop that program, or serve on another port with --port N"
        )
        assert "Traceback" not in ended.err
        assert site.events("socket.bind") == [f"socket.bind ('127.0.0.1', {port})"]
        assert not met(), "nothing was sent to it"
    assert left_cleanly(site)


def test_d05_the_address_appears_whole_and_only_once_it_answers(site: Site) -> None:
    daemon = site.begin(**site.write_down())
    file = site.state / endpoint.FILE_NAME
    wait_until(file.exists)
    found = json.loads(file.read_bytes())
    with socket.create_connection(("127.0.0.1", found["port"]), timeout=30):
        pass
    assert found["pid"] == daemon.pid
    daemon.wait_ready()
    assert daemon.url == found["url"] == f"http://127.0.0.1:{found['port']}/mcp"
    assert daemon.stop() == 0
    bound = f"socket.bind ('127.0.0.1', {found['port']})"
    steps = site.events("socket.bind", "os.rename")
    renamed = [step for step in steps if step.endswith(f"/{endpoint.FILE_NAME}")]
    assert len(renamed) == 1, "it was put in its place whole, once"
    assert steps.index(bound) < steps.index(renamed[0])


# what others have left


DEAD_HOLDER = json.dumps({"pid": DEAD_PID, "owner": "serve", "instance": "old"})
DEAD_ENDPOINT = json.dumps(
    {"url": "http://127.0.0.1:9/mcp", "port": 9, "pid": DEAD_PID, "instance": "old", "version": "0", "started": "then"}
)


@pytest.mark.parametrize(
    "stale",
    [
        pytest.param({"endpoint.json": DEAD_ENDPOINT, "lock": DEAD_HOLDER}, id="D06-dead"),
        pytest.param({"endpoint.json": DEAD_ENDPOINT[:40], "lock": "\x00" * 100, "local.key": "vsl_"}, id="D06-torn"),
        pytest.param({"endpoint.json": "", "lock": "", "local.key": ""}, id="D06-empty"),
    ],
)
def test_stale_files_are_replaced(site: Site, stale: dict[str, str]) -> None:
    for name, content in stale.items():
        site.put(name, content)
    daemon = site.start()
    assert published_at(site).pid == daemon.pid
    assert lock.holder(site.state) == lock.Holder(daemon.pid, "serve", published_at(site).instance)
    assert serves(daemon)
    assert daemon.stop() == 0
    assert left_cleanly(site)


def test_d06_what_a_killed_daemon_left_stops_nothing(site: Site) -> None:
    first = site.start()
    old, key = published_at(site), (site.state / "local.key").read_bytes()
    first.kill()
    assert published_at(site) == old, "it had no time to take it back"
    second = site.start()
    assert published_at(site).instance != old.instance
    assert (site.state / "local.key").read_bytes() != key
    assert second.token == first.token
    assert serves(second)
    assert second.stop() == 0


def test_d07_a_live_stranger_on_record_is_neither_killed_nor_asked(site: Site) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        site.put("lock", json.dumps({"pid": stranger.pid, "owner": "serve", "instance": "old"}))
        endpoint.write(site.state, endpoint.Endpoint("http://127.0.0.1:9/mcp", 9, stranger.pid, "old", "0", "then"))
        daemon = site.start(**site.write_down())
        assert serves(daemon)
        assert published_at(site).pid == daemon.pid
        assert daemon.stop() == 0
        assert stranger.poll() is None
        assert site.events("os.kill") == []
        stranger.communicate(b"\n")
        assert stranger.returncode == 0


def test_a_signal_to_another_process_would_be_written_down(site: Site) -> None:
    """Control of D07."""
    kill = [sys.executable, "-c", "import os; os.kill(os.getppid(), 0)"]
    subprocess.run(kill, env=os.environ | site.write_down(), check=True)
    assert site.events("os.kill") == [f"os.kill {os.getpid()} 0"]


# two of them


def test_d08_a_second_daemon_is_refused_with_the_firsts_address(site: Site) -> None:
    first = site.start()
    before = {name: site.left()[name] for name in ("endpoint.json", "local.key", "lock", "token")}
    link = site.folder / "link"
    link.symlink_to(site.vault, target_is_directory=True)
    for vault in (site.vault, link):
        second = site.refused("--vault", str(vault), **site.write_down())
        assert (second.code, second.out, second.err) == (
            3,
            "",
            f"vault-sidecar: another daemon (pid {first.pid}, started as 'serve') serves this vault already,"
            f" at {first.url}\n",
        )
        assert site.events("socket.bind", "os.rename", "os.kill") == []
        assert {name: site.left()[name] for name in before} == before
    assert serves(first)
    assert first.stop() == 0


def test_d08_the_kernel_frees_the_lock_of_a_killed_daemon(site: Site) -> None:
    first = site.start()
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(STOP_S)
    assert lock.holder(site.state) is not None, "the file still names it"
    second = site.start()
    assert serves(second)
    first.kill()
    assert second.stop() == 0


def test_d08_of_eight_that_start_at_once_exactly_one_serves(site: Site) -> None:
    """S16, smaller."""
    # who took the lock may be held up before it has written down who it is
    patient = site.run_first("from sidecar.bridge import lock\nlock._GRACE_S = 60.0")
    daemons = [site.begin(**patient) for _ in range(8)]
    wait_until(lambda: sum(daemon.process.poll() is None for daemon in daemons) == 1, within_s=START_S)
    [one] = [daemon for daemon in daemons if daemon.process.poll() is None]
    others = [daemon for daemon in daemons if daemon is not one]
    one.wait_ready()
    one.token = site.token
    assert [daemon.process.returncode for daemon in others] == [3] * 7
    for daemon in others:
        assert daemon.stdout() == ""
        assert daemon.stderr().startswith(f"vault-sidecar: another daemon (pid {one.pid}, started as 'serve') ")
        assert daemon.stderr().count("\n") == 1
    assert published_at(site).pid == one.pid
    assert serves(one)
    assert one.stop() == 0
    assert left_cleanly(site)


def test_without_the_kernels_lock_two_would_serve(site: Site) -> None:
    """Control of D08."""
    lockless = site.run_first("from sidecar.bridge import lock\nlock._try = lambda _: True")
    first = site.start(**lockless)
    second = site.start(**lockless)
    assert serves(first)
    assert serves(second)
    second.stop()
    first.stop()


# the end


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, id="D13-SIGTERM"), pytest.param(signal.SIGINT, id="D13-SIGINT")]
)
def test_a_signal_ends_it_cleanly_whatever_its_clients_do(site: Site, number: signal.Signals) -> None:
    daemon = site.start()
    headers = wire.mcp_headers(daemon.port, daemon.token)
    with wire.Wire(daemon.port) as idle, wire.Wire(daemon.port) as half, wire.Wire(daemon.port) as silent:
        idle.send(wire.request("POST", "/mcp", headers, wire.INITIALIZE))
        assert idle.reply().status == 200
        half.send(wire.request("POST", "/mcp", headers | {"Content-Length": "100"}) + b"{")
        daemon.process.send_signal(number)
        assert daemon.process.wait(STOP_S) == 0
        for client in (idle, half, silent):
            assert client.at_end()
    assert daemon.stop() == 0
    assert daemon.stdout() == f"{daemon.url}\n"
    assert "sidecar.daemon: stopping\n" in daemon.stderr()
    assert "Traceback" not in daemon.stderr()
    assert left_cleanly(site)


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param("lock", id="D13-while-it-opens"),
        pytest.param("local.key", id="D13-while-it-reads"),
        pytest.param("endpoint.json", id="D13-as-it-listens"),
    ],
)
def test_a_signal_during_the_start_is_a_clean_end_too(site: Site, sign: str) -> None:
    for number in range(300):
        (site.vault / f"{number}.md").write_text(f"# Note {number}\n\n" + "Words of a note.\n" * 20)
    daemon = site.begin()
    wait_until((site.state / sign).exists)
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.stderr()
    assert left_cleanly(site)


# A signal is met while a callback runs, in which nothing can be raised.
ENDED_WHILE_IMPORTING = """
import os, signal, sys, weakref

class Ending:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            sys.meta_path.remove(self)
            thing = Ending()
            held = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
            del thing

sys.meta_path.insert(0, Ending())
"""


@pytest.mark.parametrize("module", ["sidecar.config", "sidecar.daemon"])
def test_a_signal_in_the_middle_of_an_import_is_not_lost(site: Site, module: str) -> None:
    daemon = site.begin(**site.run_first(ENDED_WHILE_IMPORTING.format(module=module)))
    assert daemon.process.wait(STOP_S) == 0
    assert (daemon.stdout(), daemon.stderr()) == ("", "")
    assert left_cleanly(site)


def test_d14_a_daemon_outlives_the_program_that_started_it_and_stays_on_record(site: Site) -> None:
    """What `serve` starts belongs to nobody; what the editor starts is another kind."""
    launch = "import subprocess, sys\nsubprocess.Popen(sys.argv[1:])\ninput()"
    serve = [sys.executable, "-m", "sidecar", "serve", "--vault", str(site.vault), "--state", str(site.root)]
    with subprocess.Popen(
        [sys.executable, "-c", launch, *serve, "--port", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd=REPOSITORY,
    ) as launcher:
        wait_until((site.state / endpoint.FILE_NAME).exists, within_s=START_S)
        launcher.kill()
    found = published_at(site)
    assert wire.post(found.port, site.token, wire.call("tools/list")).status == 200
    assert owner.ask(found.port, site.state, "POST", "/admin/stop").status == 200
    wait_until(lambda: left_cleanly(site))


# what is no vault


def test_d15_what_can_not_be_a_vault_is_refused(site: Site) -> None:
    home = site.folder / "users" / "me"
    (home / "notes").mkdir(parents=True)
    (site.folder / "file").write_bytes(b"")
    (site.folder / "home-link").symlink_to(home, target_is_directory=True)
    (site.folder / "loop").symlink_to("loop")
    at_home = "your home folder can't be a vault, nor a folder around it; name the one that holds your notes"
    rows = {
        site.folder / "missing": f"there is no folder {str(site.folder / 'missing')!r} to serve;"
        " check the path, or whether its disk is mounted",
        site.folder / "file": f"{str(site.folder / 'file')!r} is not a folder;"
        " name the folder that your editor opens as the vault",
        Path("/"): "the root of the file system can't be a vault; name the folder that holds your notes",
        home: at_home,
        home.parent: at_home,
        site.folder / "home-link": at_home,
    }
    for vault, sentence in rows.items():
        # the state folder is the system's own, which in a home folder lies inside
        ended = site.refused("--vault", str(vault), "--state", str(home / "state"), HOME=str(home))
        assert (ended.code, ended.out, ended.err) == (2, "", f"vault-sidecar: {sentence}\n"), vault
    looping = site.refused("--vault", str(site.folder / "loop"), HOME=str(home))
    assert (looping.code, looping.out) == (2, "")
    assert looping.err.count("\n") == 1
    assert sorted(path.name for path in home.iterdir()) == ["notes"]
    served = site.start("--vault", str(home / "notes"), HOME=str(home))
    assert served.stop() == 0, "a folder in it is fine"


# the keyring


def test_d18_without_a_keyring_the_token_lies_in_a_private_file(site: Site) -> None:
    # a busy machine may take longer to load the library than the product waits for an answer
    patient = site.run_first("from sidecar.bridge import patient_keyring\npatient_keyring.LIMIT_S = 60.0")
    daemon = site.start(PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring", **patient)
    assert serves(daemon)
    assert daemon.stop() == 0
    assert (site.state / "token").stat().st_mode & 0o777 == 0o600
    assert is_token(site.token)
    warnings = [line for line in daemon.stderr().splitlines() if " WARNING " in line]
    assert [line.partition("WARNING ")[2] for line in warnings] == [
        "sidecar.bridge.token_store: the system's keyring can't be used: this system has none;"
        " the token is kept in a file of mode 0600 in the state folder"
    ]
    for name in ("NoKeyringError", "Traceback", site.token):
        assert name not in daemon.stderr()


# surfaces


def test_a_disabled_surface_is_away_with_the_token_and_silent_without(site: Site, another: Guarded) -> None:
    site.put("config.toml", "[surfaces]\nenabled = []\n")
    daemon = site.start()
    disabled = wire.post(daemon.port, daemon.token, wire.call("tools/list"), "/mcp/notes")
    nowhere = wire.post(daemon.port, daemon.token, wire.call("tools/list"), "/mcp/nope")
    assert disabled.status == 404
    assert (nowhere.status, nowhere.body) == (404, disabled.body)
    assert wire.post(daemon.port, "wrong", wire.call("tools/list"), "/mcp/notes").status == 401
    composite = wire.post(daemon.port, daemon.token, wire.call("tools/list"))
    assert (composite.status, composite.json()["result"]["tools"]) == (200, [])
    assert daemon.stop() == 0
    assert serves(another.daemon, "/mcp/notes"), "control: where it is enabled, it is there"
