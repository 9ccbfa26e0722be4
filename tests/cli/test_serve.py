"""`serve` as a process of its own: what it prints, how it ends, what stops it from starting."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, lock, private_files
from sidecar.bridge.token_store import FileStore
from tests.cli.conftest import Place, Said
from tests.conftest import REPOSITORY
from tests.living import contents

Run = Callable[..., Said]


def process(place: Place, *argv: str, **environment: str) -> subprocess.Popen[str]:
    """`serve` for the place's vault, with no keyring, so that the token lies in the file, and without vectors."""
    return subprocess.Popen(
        [sys.executable, "-m", "sidecar", "serve", "--vault", str(place.vault), *argv],
        cwd=REPOSITORY,
        env=os.environ
        | {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring", "VAULT_SIDECAR_INDEX_RAG": "false"}
        | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def url_of(daemon: subprocess.Popen[str]) -> str:
    assert daemon.stdout is not None
    return daemon.stdout.readline()


@contextmanager
def serving(place: Place, *argv: str, **environment: str) -> Generator[subprocess.Popen[str]]:
    """A daemon that listens; ended by force if the test did not end it."""
    with process(place, *(argv or ("--port", "0")), **environment) as daemon:
        try:
            url = url_of(daemon)
            assert url, daemon.communicate()[1]
            yield daemon
        finally:
            daemon.kill()


def refusal(place: Place, *argv: str, **environment: str) -> Said:
    """A start that is expected to end by itself."""
    with process(place, *argv, **environment) as daemon:
        out, err = daemon.communicate()
        return Said(daemon.returncode, out, err)


def answer(port: int, authorization: str | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", body, headers | ({"Authorization": authorization} if authorization else {}))
    try:
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_stdout_is_one_line_and_a_signal_is_a_clean_end(place: Place, ending: signal.Signals) -> None:
    with process(place, "--port", "0") as daemon:
        url = url_of(daemon)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d{5}/mcp\n", url)
        published = endpoint.read(place.state)
        assert published is not None, "the address is published before the line is printed"
        assert (published.url, published.pid) == (url.strip(), daemon.pid)
        daemon.send_signal(ending)
        out, err = daemon.communicate()
    assert (daemon.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert endpoint.read(place.state) is None
    assert lock.holder(place.state) is None


def test_the_token_it_made_opens_it_and_nothing_else_does(place: Place, run: Run) -> None:
    with serving(place):
        published = endpoint.read(place.state)
        token = FileStore(place.state, place.vault).load()
        assert published and token
        assert run("token", "show").out == f"{token}\n"
        assert answer(published.port, f"Bearer {token}") == 200
        assert answer(published.port, f"Bearer {token}x") == 401
        assert answer(published.port, None) == 401


def test_no_key_is_in_argv_or_on_stderr(place: Place) -> None:
    """L01, L02."""
    with process(place, "--port", "0", VAULT_SIDECAR_LOG_LEVEL="debug") as daemon:
        url_of(daemon)
        published, token = endpoint.read(place.state), FileStore(place.state, place.vault).load()
        key = (place.state / "local.key").read_text().strip()
        assert published and token and key
        if sys.platform == "linux":
            assert token.encode() not in Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
        answer(published.port, f"Bearer {token}")
        answer(published.port, f"Bearer {key}")
        daemon.terminate()
        err = daemon.communicate()[1]
    assert token not in err
    assert key not in err


def test_every_file_of_the_state_folder_is_private(place: Place) -> None:
    """L04, L05."""
    with serving(place):
        found = {path.name: path.stat().st_mode & 0o777 for path in place.state.iterdir() if path.is_file()}
        assert {"endpoint.json", "local.key", "lock", "token"} <= set(found)
        assert set(found.values()) == {0o600}
        assert place.state.stat().st_mode & 0o777 == 0o700


def test_status_search_and_rebuild_reach_it(place: Place, run: Run) -> None:
    (place.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n", encoding="utf-8")
    with serving(place):
        assert run("index", "rebuild").code == 0
        facts = json.loads(run("status", "--json").out)
        assert facts["phase"] == "ready"
        assert facts["notes"]["keyword"] == 1
        assert set(facts) >= {"url", "port", "pid", "version", "vault", "generation", "chunks", "skipped", "embedder"}
        assert set(facts) >= {"backend", "clients", "last_refused", "last_problem"}
        assert "vault-sidecar is ready" in run("status").out
        assert "Plum.md:" in run("search", "plum tree").out
        assert run("search", "zzzz").out == "no note matches\n"
        said = run("search", " ")
        assert (said.code, said.out) == (1, "")


def test_a_registry_that_can_not_be_used_stops_nothing_and_is_told(place: Place, run: Run) -> None:
    private_files.write(place.state / "knowledge.db", b"no database" * 1000)
    with serving(place):
        said = "knowledge.db in the state folder can't be used: it is damaged."
        assert json.loads(run("status", "--json").out)["knowledge_problem"].startswith(said)
        assert f"  knowledge   {said}" in run("status").out
        assert f"WRONG  knowledge    {said}" in run("doctor").out


def test_a_second_one_is_refused_with_the_first_ones_address(place: Place) -> None:
    """D08."""
    with serving(place):
        published = endpoint.read(place.state)
        assert published
        said = refusal(place, "--port", "0")
        assert (said.code, said.out) == (3, "")
        assert published.url in said.err
        assert endpoint.read(place.state) == published, "the first one's endpoint file stays"


def test_stop_returns_when_the_next_start_can_succeed(place: Place, run: Run) -> None:
    for _ in range(3):
        with serving(place) as daemon:
            assert run("stop") == Said(0, "", "stopped\n")
            assert lock.holder(place.state) is None
            assert daemon.wait() == 0
    assert run("status").code == 1


def test_what_a_killed_one_left_stops_nothing(place: Place, run: Run) -> None:
    """D06."""
    with serving(place) as daemon:
        daemon.kill()
        daemon.wait()
        left = endpoint.read(place.state)
        assert left is not None
        assert run("status").out.startswith("vault-sidecar is stopped\n")
    with serving(place):
        fresh = endpoint.read(place.state)
        assert fresh and fresh.instance != left.instance
        assert run("status").code == 0


def test_a_new_vault_keeps_the_port_it_got(place: Place) -> None:
    """D05; the next start of the same vault gets the same port, or fails."""
    ports: list[int] = []
    for _ in range(2):
        with serving(place, "--state", str(place.root)) as daemon:
            found = endpoint.read(place.state)
            assert found
            ports.append(found.port)
            daemon.terminate()
            assert daemon.wait() == 0
    assert ports[0] == ports[1] >= 24783
    assert json.loads((place.state / "settings.json").read_text()) == {"http": {"port": ports[0]}}
    with socket.create_server(("127.0.0.1", ports[0])):
        said = refusal(place)
        assert (said.code, said.out) == (1, "")
        assert f"port {ports[0]} is in use" in said.err
        assert endpoint.read(place.state) is None
        with serving(place, "--port", "0"):
            assert json.loads((place.state / "settings.json").read_text()) == {"http": {"port": ports[0]}}


def test_a_port_from_the_settings_that_is_taken_is_never_swapped(place: Place) -> None:
    """D04."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refusal(place, VAULT_SIDECAR_HTTP_PORT=str(port))
    assert (said.code, said.out) == (1, "")
    assert f"port {port} is in use by another program" in said.err
    assert endpoint.read(place.state) is None
    assert lock.holder(place.state) is None


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        pytest.param('[http]\nhost = "0.0.0.0"', "[http] host", id="D01"),
        pytest.param('[http]\nhost = "::"', "[http] host", id="D01-v6"),
        pytest.param("[http]\nprot = 1", "did you mean [http] port?", id="D17-unknown"),
        pytest.param('[http]\nport = "1"', "[http] port must be", id="D17-type"),
        pytest.param('[http]\nallowed_origins = ["*"]', "[http] allowed_origins", id="O30-star"),
        pytest.param('[http]\nallowed_origins = ["null"]', "[http] allowed_origins", id="O30-null"),
        pytest.param('[surfaces]\nenabled = ["notez"]', "[surfaces] enabled", id="surface"),
        pytest.param('[http]\nbearer_token_env = "MY_TOKEN"', "MY_TOKEN", id="T20"),
        pytest.param("[http", "config.toml", id="no-toml"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(place: Place, toml: str, named: str) -> None:
    (place.state / "config.toml").write_text(toml)
    said = refusal(place, "--port", "0")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("vault-sidecar: ")
    assert named in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in place.state.iterdir()) == ["config.toml"], "nothing was opened yet"


@pytest.mark.parametrize(
    "value", [pytest.param("", id="T18-empty"), pytest.param("  ", id="T18-blank"), pytest.param("s3cr3t", id="T19")]
)
def test_an_injected_token_that_guards_nothing_stops_the_start(place: Place, value: str) -> None:
    said = refusal(place, VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV="MY_TOKEN", MY_TOKEN=value)
    assert said.code == 2
    assert "MY_TOKEN" in said.err
    assert "s3cr3t" not in said.err


def test_an_injected_token_opens_it_and_is_kept_nowhere(place: Place) -> None:
    own = "a-persons-own-token-of-enough-letters"
    with serving(place, VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV="MY_TOKEN", MY_TOKEN=own):
        published = endpoint.read(place.state)
        assert published
        assert answer(published.port, f"Bearer {own}") == 200
        for path, held in contents(place.state):
            assert own.encode() not in held, path


def test_what_cannot_be_a_vault_is_refused(place: Place, tmp_path: Path) -> None:
    """D15."""
    (tmp_path / "file").write_bytes(b"")
    for vault, reason in (("missing", "there is no folder"), ("file", "not a folder"), ("home", "home folder")):
        if vault == "home":
            (tmp_path / "home").mkdir()
        said = refusal(place, "--vault", str(tmp_path / vault), HOME=str(tmp_path / "home"))
        assert (said.code, said.out) == (2, "")
        assert reason in said.err
        assert not list(place.root.glob(f"{vault}-*"))


def test_what_a_library_prints_does_not_get_between_the_url_and_its_reader() -> None:
    noisy = """
import os
from sidecar.cli import stdout
own = stdout.claim()
print("a greeting")
os.write(1, b"from a C library\\n")
os.write(own, b"http://127.0.0.1:1/mcp\\n")
"""
    done = subprocess.run([sys.executable, "-c", noisy], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "http://127.0.0.1:1/mcp\n"
    assert "a greeting" in done.stderr
    assert "from a C library" in done.stderr


def test_the_variable_with_the_token_is_gone_before_the_daemon_begins(place: Place) -> None:
    """L03: no child process can inherit it."""
    watched = """
import os, sys, types
daemon = types.ModuleType("sidecar.daemon")
async def run_daemon(options, on_listening, report):
    on_listening(f"{'MY_TOKEN' in os.environ} {options.injected_token} {options.injected_token.value == 'x' * 40}")
daemon.run_daemon = run_daemon
sys.modules["sidecar.daemon"] = daemon
from sidecar.cli.main import main
sys.exit(main(["serve"]))
"""
    environment = os.environ | {"VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV": "MY_TOKEN", "MY_TOKEN": "x" * 40}
    done = subprocess.run(
        [sys.executable, "-c", watched],
        cwd=place.vault,
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False *** True\n"
