"""`connect CLIENT --check` against a real daemon: each step that can fail, and what is never sent to whom."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from sidecar.bridge import endpoint
from sidecar.bridge.token import new_local_key
from sidecar.cli.clients import check_http, check_stdio
from sidecar.cli.clients.client import Http, Stdio
from sidecar.cli.clients.known import CLIENTS
from tests.bridge.peers import Stranger, http_answer
from tests.cli.conftest import Place, Said
from tests.cli.test_connect import file_of, put
from tests.daemons import TOKEN_VARIABLE, Daemon, start_daemon
from tests.e2e.served import tools_of

Run = Callable[..., Said]

HTTP_CLIENTS = [name for name, client in CLIENTS.items() if client.http is not None]
HTTP_STEPS = ["entry", "daemon", "port", "Host", "token", "tools"]
STDIO_STEPS = ["entry", "program", "daemon", "tools"]

# what a relay is, without the daemon behind it: enough of the protocol to be looked at from outside
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = {"tools": [{"name": "a"}, {"name": "b"}]} if asked["method"] == "tools/list" else {}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def daemon(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A real one. The commands know its token as the person would have set it: by the same variable."""
    (place.vault / "A.md").write_text("# A\n")
    token = secrets.token_urlsafe(40)
    running = start_daemon(place.vault, place.root, token=token)
    monkeypatch.setenv("VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV", TOKEN_VARIABLE)
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    yield running
    if running.process.poll() is None:
        running.stop()


def check(run: Run, client: str, *more: str, code: int) -> list[dict[str, Any]]:
    """The steps of a check whose exit code is known."""
    said = run("connect", client, "--check", "--json", *more)
    assert (said.code, said.err) == (code, "")
    facts = json.loads(said.out)
    assert facts["ok"] is (code == 0)
    assert all(step["ok"] for step in facts["steps"][:-1])
    return facts["steps"]


def failed(run: Run, client: str, *more: str) -> tuple[str, str]:
    """The step that failed, and what is said of it."""
    last = check(run, client, *more, code=1)[-1]
    assert last["ok"] is False
    return last["step"], last["says"]


def entry(place: Place, client: str, port: int, token: str | None, *, url: str = "", **more: Any) -> None:
    """Put an entry of our own making into a client's JSON file."""
    known = CLIENTS[client]
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    written = {known.url: url or f"http://127.0.0.1:{port}/mcp", known.headers: headers, **more}
    put(file_of(place, client), json.dumps({known.at[0]: {"vault-sidecar": written}}).encode())


@pytest.mark.parametrize("client", HTTP_CLIENTS)
def test_every_step_passes_without_an_entry_and_with_one(run: Run, place: Place, daemon: Daemon, client: str) -> None:
    steps = check(run, client, code=0)
    assert [step["step"] for step in steps] == HTTP_STEPS
    assert steps[0]["says"].startswith("none in ~/")
    assert steps[-1]["says"] == f"{len(tools_of())} offered"
    if CLIENTS[client].writes:
        said = run("connect", client, "--write", "--check")
        assert said.code == 0
        assert [line.split()[:2] for line in said.out.splitlines()][-6:] == [["ok", name] for name in HTTP_STEPS]
        assert "'vault-sidecar' in ~/" in said.out
        assert daemon.token not in said.out


def test_a_client_that_takes_the_token_from_a_variable_is_followed(
    run: Run, place: Place, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry(place, "cursor", daemon.port, "${env:MINE}")
    step, says = failed(run, "cursor")
    assert step == "token" and "variable MINE, which is not set here" in says
    monkeypatch.setenv("MINE", daemon.token)
    assert check(run, "cursor", code=0)[-2]["step"] == "token"
    put(file_of(place, "codex"), f'[mcp_servers.x]\nurl = "{daemon.url}"\nbearer_token_env_var = "MINE"\n'.encode())
    assert "'x' in" in check(run, "codex", code=0)[0]["says"]
    monkeypatch.setenv("MINE", "wrong")
    assert failed(run, "codex")[0] == "token"


def test_a_client_that_asks_for_the_token_is_tried_with_the_vaults(run: Run, place: Place, daemon: Daemon) -> None:
    entry(place, "vscode", daemon.port, "${input:vault-sidecar-token}")
    assert check(run, "vscode", code=0)[-2]["says"] == "the client asks for it; the vault's own is let in"


def test_no_daemon_is_the_step_daemon(run: Run, place: Place, daemon: Daemon) -> None:
    run("connect", "cursor", "--write")
    daemon.stop()
    step, says = failed(run, "cursor")
    assert step == "daemon" and "start one with 'vault-sidecar serve'" in says


def test_a_vault_that_was_never_served_is_the_step_daemon(run: Run, place: Place) -> None:
    step, says = failed(run, "cursor")
    assert step == "daemon" and "'vault-sidecar serve'" in says


def test_another_port_is_the_step_port(run: Run, place: Place, daemon: Daemon) -> None:
    entry(place, "cursor", 24783, daemon.token)
    step, says = failed(run, "cursor")
    assert step == "port"
    assert f"says port 24783, and the daemon listens on {daemon.port}" in says
    assert "'vault-sidecar connect cursor --write' sets it right" in says
    assert run("connect", "cursor", "--write", "--check").code == 0, "and so it does"


@pytest.mark.parametrize("url", ["https://127.0.0.1:{}/mcp", "http://127.0.0.1:99999999/mcp", "nonsense"])
def test_an_address_that_can_not_be_right_is_the_step_port(run: Run, place: Place, daemon: Daemon, url: str) -> None:
    entry(place, "cursor", 0, daemon.token, url=url.format(daemon.port))
    assert failed(run, "cursor")[0] == "port"


@pytest.mark.parametrize("host", ["my-computer.lan:{}", "192.0.2.1:{}", "evil.example:{}"])
def test_a_name_that_the_daemon_refuses_is_the_step_host(run: Run, place: Place, daemon: Daemon, host: str) -> None:
    """The real daemon refuses it; nothing but 127.0.0.1 is spoken to."""
    entry(place, "cursor", 0, daemon.token, url=f"http://{host.format(daemon.port)}/mcp")
    step, says = failed(run, "cursor")
    assert step == "Host" and "must be 127.0.0.1 or localhost" in says
    entry(place, "cursor", 0, daemon.token, url=f"http://localhost:{daemon.port}/mcp")
    assert check(run, "cursor", code=0)


@pytest.mark.parametrize(("token", "word"), [("x" * 40, "another token"), (None, "no Authorization header")])
def test_a_wrong_token_is_the_step_token(run: Run, place: Place, daemon: Daemon, token: str | None, word: str) -> None:
    entry(place, "cursor", daemon.port, token)
    step, says = failed(run, "cursor")
    assert step == "token" and word in says
    assert "x" * 40 not in says


def test_nothing_at_the_path_is_the_step_tools(run: Run, place: Place, daemon: Daemon) -> None:
    entry(place, "cursor", 0, daemon.token, url=daemon.url + "/nothing")
    step, says = failed(run, "cursor")
    assert step == "tools" and "nothing is served at /mcp/nothing" in says
    entry(place, "cursor", 0, daemon.token, url=daemon.url + "/notes")
    assert check(run, "cursor", code=0)


def test_a_broken_file_is_the_step_entry(run: Run, place: Place, daemon: Daemon) -> None:
    put(file_of(place, "cursor"), b'{"mcpServers": ')
    step, says = failed(run, "cursor")
    assert step == "entry" and "line 1, column 16" in says


def test_a_stranger_on_the_port_hears_no_key(place: Place, daemon: Daemon) -> None:
    """The proof is asked for again on the connection that will carry the token, under the client's Host."""
    heard = Http("http://127.0.0.1:{}/mcp", {"authorization": f"Bearer {daemon.token}"})
    with Stranger(lambda _: http_answer({"proof": "x", "jsonrpc": "2.0", "result": {"tools": [{}]}})) as stranger:
        published = endpoint.of_this_process(stranger.port, "x" * 16, "0")
        connection = check_http.http.client.HTTPConnection("127.0.0.1", stranger.port, timeout=30)
        url = check_http.urlsplit(f"http://127.0.0.1:{stranger.port}/mcp")
        steps = list(check_http._talk(connection, heard, url, published, new_local_key(place.state), "", None))
        connection.close()
        [step] = steps
        assert (step.name, step.ok) == ("Host", False)
        assert "is not this vault's daemon" in step.says
        assert stranger.heard and daemon.token.encode() not in stranger.heard
        # the control: whoever sends without asking for the proof gives the token away
        connection.connect()
        check_http._Session(connection, "/mcp", heard.headers).ask("initialize", {})
        connection.close()
        assert daemon.token.encode() in stranger.heard


def test_a_stock_client_connects_by_the_printed_command(run: Run, place: Place, daemon: Daemon) -> None:
    words = shlex.split(run("connect", "claude-code").out.splitlines()[0])
    url, header = words[words.index("vault-sidecar") + 1], words[words.index("--header") + 1]
    name, _, value = header.partition(": ")

    async def tools() -> int:
        async with (
            httpx2.AsyncClient(headers={name: value}, timeout=30) as client,
            Client(streamable_http_client(url, http_client=client)) as session,
        ):
            return len((await session.list_tools()).tools)

    assert asyncio.run(tools()) == len(tools_of())


# stdio


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], list[str]]:
    """Makes a program out of Python text; a path with a blank, as many have."""

    def make(text: str) -> list[str]:
        script = tmp_path / "a server.py"
        script.write_text(text)
        return [sys.executable, str(script)]

    return make


def stdio_entry(place: Place, client: str, command: list[str]) -> None:
    known = CLIENTS[client]
    words = known.stdio_entry([*command, "mcp", "--vault", str(place.vault)])
    put(file_of(place, client), json.dumps({known.at[0]: {"vault-sidecar": words}}).encode())


@pytest.mark.parametrize("client", ["claude-desktop", "claude-code", "cursor"])
def test_a_program_that_answers_passes(
    run: Run, place: Place, daemon: Daemon, program: Callable[[str], list[str]], client: str
) -> None:
    stdio_entry(place, client, program(SERVER))
    steps = check(run, client, code=0)
    assert [step["step"] for step in steps] == STDIO_STEPS
    assert steps[-1]["says"] == "2 offered"


def test_a_program_without_a_daemon_behind_it_is_the_step_daemon(
    run: Run, place: Place, program: Callable[[str], list[str]]
) -> None:
    stdio_entry(place, "claude-desktop", program(SERVER))
    assert failed(run, "claude-desktop")[0] == "daemon"


def test_a_program_that_is_not_there_is_the_step_program(run: Run, place: Place, tmp_path: Path) -> None:
    stdio_entry(place, "claude-desktop", [str(tmp_path / "gone" / "vault-sidecar")])
    step, says = failed(run, "claude-desktop")
    assert step == "program"
    assert says == (
        "vault-sidecar is not there, or may not be run; 'vault-sidecar connect claude-desktop --write' sets it right"
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("import sys; sys.exit('no such vault')", "ended before it had answered (no such vault)"),
        ("print('Welcome!')\ninput()", "writes to stdout what is not the protocol"),
        ("import os; os.close(1)", "ended before it had answered"),
    ],
    ids=["ends", "prints", "closes"],
)
def test_a_program_that_does_not_answer_is_the_step_program(
    run: Run, place: Place, program: Callable[[str], list[str]], text: str, word: str
) -> None:
    stdio_entry(place, "claude-desktop", program(text))
    step, says = failed(run, "claude-desktop")
    assert step == "program" and word in says


def test_a_program_that_keeps_silent_is_ended(
    place: Place, program: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            begun.append(self.pid)

    monkeypatch.setattr(check_stdio.subprocess, "Popen", Noted)
    command = tuple(program("import sys\nsys.stdin.read()"))
    [step] = check_stdio.steps(Stdio(command, {}), place.state, os.environ, "", patience_s=1.0)
    assert (step.name, step.ok) == ("program", False)
    assert "does not answer" in step.says
    [pid] = begun
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_entrys_environment_reaches_the_program(
    place: Place, daemon: Daemon, program: Callable[[str], list[str]]
) -> None:
    command = tuple(program("import os\nassert os.environ.get('MINE') == '1', 'not set'\n" + SERVER))
    assert [s.ok for s in check_stdio.steps(Stdio(command, {"MINE": "1"}), place.state, os.environ, "")] == [True] * 3
    [step] = check_stdio.steps(Stdio(command, {}), place.state, os.environ, "")
    assert "not set" in step.says


def test_the_other_transport_can_be_tried_beside_the_entry(run: Run, place: Place, daemon: Daemon) -> None:
    run("connect", "cursor", "--write", "--stdio")
    assert [step["step"] for step in check(run, "cursor", "--http", code=0)] == HTTP_STEPS


def test_a_command_is_looked_for_in_the_path(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(sys.executable, folder / "a-server")
    entry = Stdio(("a-server", "-c", "import sys; sys.exit('here')"), {})
    [step] = check_stdio.steps(entry, place.state, os.environ, "")
    assert "not there" in step.says
    [step] = check_stdio.steps(entry, place.state, {**os.environ, "PATH": str(folder)}, "")
    assert "ended before it had answered" in step.says
