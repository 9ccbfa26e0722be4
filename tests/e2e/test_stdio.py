"""stdio end to end: real relays, real daemons, the stock client of the Python SDK."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, cast

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests import wire
from tests.conftest import REPOSITORY
from tests.daemons import start_daemon
from tests.e2e.served import tools_of
from tests.eras import ENVELOPE, MODERN
from tests.lab import wait_until
from tests.ports import free_port
from tests.security.starts import run_first
from tests.services.knowledge.examples import SKILL, trace
from tests.stdio import PATIENCE_S, Household, Pipes, RelayProcess, command, relay_environment

TOOLS = tools_of()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Household]:
    with Household(tmp_path / "vault", tmp_path / "root") as made:
        (made.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n", encoding="utf-8")
        (made.vault / "Zürich 潮音.md").write_text('Ein Wort.\u2028Zwei \\ "Wörter".\n', encoding="utf-8")
        yield made


@asynccontextmanager
async def connected(home: Household, log: IO[str], mode: str, *args: str) -> AsyncIterator[Client]:
    program, *rest = command(home.vault, home.root, *args)
    server = StdioServerParameters(command=program, args=rest, env=relay_environment(), cwd=REPOSITORY)
    async with Client(stdio_client(server, log), mode=mode) as client:
        yield client


def text(result: Any) -> str:
    [block] = result.content
    return block.text


# the stock client


@pytest.mark.parametrize("surface", [(), ("--surface", "notes")], ids=["all", "notes"])
@pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", MODERN)])
async def test_the_python_client_lists_reads_and_searches(
    home: Household, tmp_path: Path, mode: str, revision: str, surface: tuple[str, ...]
) -> None:
    with (tmp_path / "log").open("w+") as log:
        async with connected(home, log, mode, *surface) as client:
            assert client.protocol_version == revision
            assert client.server_info is not None and client.server_info.name == "vault-sidecar"
            assert [tool.name for tool in (await client.list_tools()).tools] == tools_of(*surface[1:])
            assert text(await client.call_tool("read_note", {"path": "Plum.md"})).startswith("# Plum")
            await asyncio.to_thread(wait_until, lambda: home.status()["settled"])
            assert "Plum.md" in text(await client.call_tool("search_notes", {"query": "plum tree"}))
            assert (await client.call_tool("read_note", {"path": "../x.md"})).is_error
        log.seek(0)
        assert "Traceback" not in log.read()


async def test_the_python_client_goes_on_after_its_daemon_was_killed(home: Household, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        async with connected(home, log, "auto") as client:
            assert text(await client.call_tool("list_notes", {})).startswith("2 of 2 notes")
            daemon = await asyncio.to_thread(home.daemon)
            os.kill(daemon.pid, signal.SIGKILL)
            assert text(await client.call_tool("list_notes", {})).startswith("2 of 2 notes")


# the same as over HTTP


GOOD: dict[str, Any] = {
    **{"path": "Plum.md", "query": "plum", "folder": "", "limit": 1, "offset": 1, "max_chars": 200, "top_k": 1},
    **{"k": 1, "id": "path:Plum.md", "days": 7, "kind": "path", "kp_search mode": "fts"},
    **{"db": "none", "q": "plum", "search_rag mode": "keyword"},
    **{"domain": "debugging", "tags": [], "min_quality": 0.5, "types": [], "schema_version": "1"},
    **{"skill_md_content": SKILL, "unit": trace(), "visibility": "org", "unit_id": "ku-x", "valid": True},
    **{"feedback": "", "agent_id": "local", "name": "Nobody", "task": "Say plum.", "max_turns": 1},
}
"""By argument, or by tool and argument."""
NEVER_EQUAL = ("kp_propose",)
"""Tools whose good answers hold a new id each time."""


def calls_of_each_tool(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Each tool without arguments, with one it does not have, with each of a wrong type, and with good ones."""
    calls: list[dict[str, Any]] = []
    for tool in tools:
        name, properties = tool["name"], tool["inputSchema"]["properties"]
        arguments: list[dict[str, Any]] = [{}, {"colour": "red"}]
        if name not in NEVER_EQUAL:
            good = {argument: GOOD.get(f"{name} {argument}", GOOD.get(argument)) for argument in properties}
            assert None not in good.values(), "give this test an argument for the new tool"
            arguments.append(good)
            arguments += [{**good, each: wrong} for each in good for wrong in ([], "", -1, "Zürich 潮音.md")]
        calls += [{"name": name, "arguments": each} for each in arguments]
    return [("tools/list", {}), *(("tools/call", call) for call in calls)]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/notes"])
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", MODERN])
def test_answers_are_equal_to_http_byte_for_byte_over_all_tools(home: Household, path: str, modern: bool) -> None:
    client = home.relay(*(["--surface", path.removeprefix("/mcp/")] if path != "/mcp" else []))
    client.ask("server/discover", modern=True) if modern else client.shake_hands()
    wait_until(lambda: home.status()["settled"])
    found = client.ask("tools/list", modern=modern)["result"]["tools"]
    calls = calls_of_each_tool(found)
    assert len(calls) > 30
    for number, (method, params) in enumerate(calls):
        params = {**params, "_meta": ENVELOPE} if modern else params
        line = wire.call(method, params, message_id=f"call-{number}")
        client.send(line)
        headers = {"MCP_Protocol_Version": "2025-11-25"}
        if modern:
            headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
            headers |= {"Mcp_Name": params["name"]} if "name" in params else {}
        reply = wire.post(home.daemon().port, home.token(), line, path, **headers)
        assert reply.status == 200
        assert client.answer_line(f"call-{number}") == reply.body


# many clients, one daemon


def over_http(home: Household, tool: str, **arguments: Any) -> str:
    reply = wire.post(home.daemon().port, home.token(), wire.tool(tool, **arguments))
    return cast("str", reply.json()["result"]["content"][0]["text"])


def all_see(home: Household, clients: list[RelayProcess], word: str) -> None:
    """A note saved now is found by every client, over stdio and over HTTP."""
    (home.vault / f"{word}.md").write_text(f"the word is {word}")
    looks: list[Callable[[], str]] = [lambda c=client: c.text("search_notes", query=word) for client in clients]
    for look in [*looks, lambda: over_http(home, "search_notes", query=word)]:
        wait_until(lambda look=look: f"{word}.md" in look(), within_s=PATIENCE_S)


def test_three_clients_and_one_over_http_see_a_save_and_go_on_when_the_daemon_is_killed(home: Household) -> None:
    clients = [home.relay(), home.relay("--surface", "notes"), home.relay()]
    for client in clients:
        client.shake_hands()
    all_see(home, clients, "first")
    killed = home.daemon()
    wait_until(lambda: home.status()["relays"] == 3)
    os.kill(killed.pid, signal.SIGKILL)
    all_see(home, clients, "second")
    again = home.daemon()
    assert again.instance != killed.instance
    wait_until(lambda: home.status()["relays"] == 3)
    assert home.status()["owner"] == "auto"
    assert [client.end() for client in clients] == [0, 0, 0]
    for client in clients:
        assert "Traceback" not in client.stderr()


def test_a_listener_of_each_era_hears_of_the_tools_after_the_daemon_was_killed(home: Household) -> None:
    old, new = home.relay(), home.relay()
    old.shake_hands()
    new.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, modern=True)
    new.hear("notifications/subscriptions/acknowledged")
    os.kill(home.daemon().pid, signal.SIGKILL)
    assert old.tools() == TOOLS
    for client in (old, new):
        client.hear("notifications/tools/list_changed")


# whose daemon it is


def test_serve_takes_over_and_the_clients_go_on_with_it(home: Household) -> None:
    client = home.relay()
    client.shake_hands()
    first = home.daemon()
    served = start_daemon(home.vault, home.root, token="t" * 40)
    try:
        assert home.daemon().pid == served.pid != first.pid
        assert client.text("list_notes").startswith("2 of 2 notes")
        wait_until(lambda: home.status()["relays"] == 1)
        assert home.status()["owner"] == "serve"
        assert "handing over to a daemon started as 'serve'" in (home.state / "daemon.log").read_text()
        assert client.end() == 0
        assert served.process.poll() is None, "a daemon that a person started does not end with the last relay"
    finally:
        served.stop()
    assert "Traceback" not in client.stderr()


def test_serve_takes_over_from_one_that_is_still_starting(home: Household) -> None:
    client = home.relay()
    wait_until((home.state / "lock").exists)
    served = start_daemon(home.vault, home.root, token="t" * 40)
    try:
        client.shake_hands()
        assert client.text("list_notes").startswith("2 of 2 notes")
        assert home.status()["owner"] == "serve"
    finally:
        served.stop()


def test_with_clients_that_call_all_the_time_serve_still_gets_its_turn(home: Household) -> None:
    """A relay starts a daemon as soon as it needs one, so it may be quicker than the newcomer."""
    client = home.relay()
    client.shake_hands()
    end = threading.Event()
    counted = [0]

    def go_on() -> None:
        while not end.is_set():
            assert client.text("list_notes").startswith("2 of 2 notes")
            counted[0] += 1

    def another() -> None:
        """A call that begins now is answered; one under way may have got its answer before."""
        seen = counted[0]
        wait_until(lambda: counted[0] > seen + 1, within_s=PATIENCE_S)

    calling = threading.Thread(target=go_on)
    calling.start()
    try:
        for _ in range(3):
            served = start_daemon(home.vault, home.root, token="t" * 40)
            assert home.status()["owner"] == "serve"
            another()
            served.stop()
            another()
            assert home.status()["owner"] == "auto"
    finally:
        end.set()
        calling.join(PATIENCE_S)
    assert not calling.is_alive()


def test_a_daemon_that_a_person_started_is_used_and_left_running(home: Household) -> None:
    served = start_daemon(home.vault, home.root, token="t" * 40)
    try:
        client = home.relay()
        client.shake_hands()
        assert home.daemon().pid == served.pid
        assert client.end() == 0
        wait_until(lambda: home.status()["relays"] == 0)
        assert not (home.state / "daemon.log").exists(), "none was started beside it"
    finally:
        served.stop()


def test_stopped_on_purpose_it_stays_away_until_it_is_needed(home: Household) -> None:
    client = home.relay()
    client.shake_hands()
    client.tools()
    home.stop()
    assert not home.is_served()
    assert client.tools() == TOOLS
    assert home.status()["owner"] == "auto"


# without a daemon


def unable_port(home: Household) -> tuple[dict[str, str], str, Callable[[], None]]:
    taken = socket.create_server(("127.0.0.1", free_port()))  # no connection takes it, either, once it is given back
    port = str(taken.getsockname()[1])
    return {"VAULT_SIDECAR_HTTP_PORT": port}, f"port {port} is in use by another program", taken.close


def unable_setting(home: Household) -> tuple[dict[str, str], str, Callable[[], None]]:
    home.state.mkdir(mode=0o700, parents=True)
    file = home.state / "config.toml"
    file.write_text("[http]\nprot = 1\n")
    return {}, "config.toml: [http] prot is not a known setting; did you mean [http] port?", file.unlink


def unable_vault(home: Household) -> tuple[dict[str, str], str, Callable[[], None]]:
    home.vault.rename(home.vault.with_name("away"))
    return {}, "there is no folder", lambda: home.vault.with_name("away").rename(home.vault)


@pytest.mark.parametrize("unable", [unable_port, unable_setting, unable_vault])
def test_while_no_daemon_can_be_started_tools_are_listed_and_calls_say_why(
    home: Household, unable: Callable[[Household], tuple[dict[str, str], str, Callable[[], None]]]
) -> None:
    env, reason, mend = unable(home)
    client = home.relay(**env)
    assert client.shake_hands()["serverInfo"]["name"] == "vault-sidecar"
    assert client.tools() == tools_of(without=("write_note",)), "what the settings allow is not known"
    failed = client.call("list_notes")
    assert failed["isError"]
    assert failed["content"][0]["text"].startswith(f"No daemon can be started: {reason}")
    wait_until(lambda: not home.is_served(), within_s=PATIENCE_S)
    mend()
    wait_until(lambda: not client.call("list_notes").get("isError"), within_s=PATIENCE_S)
    client.hear("notifications/tools/list_changed")
    assert client.tools() == TOOLS
    assert client.end() == 0


# the process


def test_it_ends_with_code_0_when_stdin_closes_whatever_it_is_doing(home: Household) -> None:
    assert home.relay().end() == 0, "as it starts a daemon"
    client = home.relay()
    client.shake_hands()
    client.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, modern=True)
    client.hear("notifications/subscriptions/acknowledged")
    assert client.end() == 0, "with a subscription open"


PATIENT = "from sidecar.protocol.stdio import relay\nrelay._LAST_CALLS_S = 60.0\n"


def test_what_was_asked_before_stdin_closed_is_answered(home: Household, tmp_path: Path) -> None:
    home.relay().shake_hands()
    client = home.relay(**run_first(tmp_path, PATIENT))
    last = client.begin("tools/call", {"name": "list_notes", "arguments": {}})
    assert client.end() == 0
    assert json.loads(client.rest().splitlines()[-1])["id"] == last


def test_a_client_that_reads_no_more_is_no_mistake(home: Household) -> None:
    client = subprocess.Popen(
        command(home.vault, home.root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=relay_environment(),
        cwd=REPOSITORY,
    )
    assert client.stdin is not None and client.stdout is not None and client.stderr is not None
    with client:
        client.stdout.close()
        client.stdin.write((wire.call("ping") + b"\n") * 3 + b"nonsense\n")
        client.stdin.close()
        assert client.wait(PATIENCE_S) == 0
        assert b"Traceback" not in client.stderr.read()


def test_it_imports_neither_the_sdk_nor_an_index(home: Household) -> None:
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", *command(home.vault, home.root)[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=relay_environment(),
        cwd=REPOSITORY,
        timeout=PATIENCE_S,
    )
    assert traced.returncode == 0
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in traced.stderr.splitlines() if "|" in line}
    assert "sidecar" in imported
    heavy = {"mcp", "mcp_types", "pydantic", "aiohttp", "anyio", "asyncio", "chromadb", "onnxruntime", "numpy"}
    assert imported & heavy == set()


def test_a_surface_that_does_not_exist_is_named_when_the_client_connects(home: Household) -> None:
    client: Pipes = home.relay("--surface", "nope")
    answer = client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
    assert answer["error"]["message"] == "There is no such surface, or it is switched off in the settings."
