"""Agents on a real daemon, called by stock clients, with a scripted provider at the other end."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from sidecar.bridge.places import state_dir_of
from sidecar.services.agents.records import Records
from tests.agents import SCOUT, write_agent
from tests.conftest import REPOSITORY
from tests.daemons import START_S, Daemon, environment, start_daemon
from tests.e2e.served import PATIENCE_S, Served, serve, with_vectors
from tests.lab import wait_until
from tests.living import arguments, children, contents, environ
from tests.provider import Fail, Hang, Provider, Say, Use, provider
from tests.stdio import RelayProcess

KEY = "k-e2e-0123456789-private"
BUSY = "Busy: 2 agents are running already, at most 2 can. Try again later."
FREE = "---\nname: Scout\nmodel: m\n---\nLook.\n"


@dataclass
class Place:
    """A vault with an agent, and the daemon's settings beside it."""

    vault: Path
    root: Path
    provider: Provider

    @property
    def state(self) -> Path:
        return state_dir_of(self.vault, self.root)

    def command(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """One command of ours, as a person gives it."""
        line = [sys.executable, "-m", "sidecar", *argv, "--vault", str(self.vault), "--state", str(self.root)]
        return subprocess.run(line, capture_output=True, text=True, cwd=REPOSITORY, env=environment(), check=True)

    def allow(self) -> None:
        self.command("agents", "remote", "Scout", "on")

    @contextmanager
    def served(self, **env: str) -> Iterator[Served]:
        with serve(self.vault, self.root, env={"SCRIPTED_KEY": KEY, **env}) as served:
            yield served

    def records(self) -> list[dict[str, Any]]:
        return [record.facts() for record in Records(self.state).newest()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "House.md").write_text("# House\n\nWe take the heat pump for heating.\n")
    with provider() as played:
        made = Place(vault, tmp_path / "root", played)
        write_agent(vault, text=SCOUT)
        made.state.mkdir(parents=True, mode=0o700)
        table = f'[providers.scripted]\nkind = "openai"\nbase_url = "{played.url}"\nkey_env = "SCRIPTED_KEY"\n'
        (made.state / "config.toml").write_text(table)
        yield made


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_stock_client_lets_an_agent_search_and_read(place: Place, mode: Any) -> None:
    search = Use([("semantic_search", {"query": "heating"})])
    place.provider.plays(search, Use([("read_note", {"path": "House.md"})]), Say("House.md: a heat pump."))
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(done: float, total: float | None, line: str | None) -> None:
        heard.append((done, total, line))

    def ready() -> Served:
        served = stack.enter_context(place.served(**with_vectors("hash")))
        place.allow()
        return served

    with ExitStack() as stack:
        served = await asyncio.to_thread(ready)
        headers = {"Authorization": f"Bearer {served.daemon.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as web,
            Client(streamable_http_client(served.daemon.url, http_client=web), mode=mode) as client,
        ):
            listed = await client.call_tool("list_agents", {})
            task = {"name": "Scout", "task": "Which notes mention heating?"}
            answer = await client.call_tool("run_agent", task, progress_callback=hear)
        assert listed.content[0].text == (  # type: ignore[union-attr]
            "1 agent.\n- Scout 🔭 — Finds notes on a topic and lists them with a reason. · claude-sonnet-5-5"
        )
        [block] = answer.content
        assert (block.text, answer.is_error) == ("House.md: a heat pump.", False)  # type: ignore[union-attr]
        [record] = await asyncio.to_thread(place.records)
    assert heard == [(n, 8, f"Turn {n} of at most 8.") for n in (1, 2, 3)]
    [found, note] = [text for text, failed in place.provider.asked[2].results if not failed]
    assert "House.md (score" in found
    assert note == "# House\n\nWe take the heat pump for heating.\n"
    assert (record["outcome"], record["turns"]) == ("done", 3)
    assert record["tools"] == {"semantic_search": 1, "read_note": 1}
    assert (record["way"], record["caller"]) == ("mcp", "local")
    assert record["client"]  # what the client calls itself, else its user agent


def test_the_third_call_is_busy_at_once_and_who_leaves_makes_room(place: Place) -> None:
    place.provider.plays(Hang())
    with place.served() as served:
        place.allow()
        callers = [begin(served), begin(served)]
        wait_until(lambda: len(place.provider.asked) == 2, within_s=START_S)
        answer = served.call("run_agent", name="Scout", task="third")
        assert (answer.text, answer.is_error) == (BUSY, True)
        for caller in callers:
            caller.close()  # leaving is the only way to cancel over plain HTTP
        wait_until(lambda: [each["outcome"] for each in place.records()].count("cancelled") == 2)
        place.provider.plays(Say("room"))
        assert served.call("run_agent", name="Scout", task="fourth").text == "room"
        assert [each["outcome"] for each in place.records()] == ["done", "busy", "cancelled", "cancelled"]


def begin(served: Served, task: str = "long") -> http.client.HTTPConnection:
    """A call whose answer nobody reads yet."""
    connection = http.client.HTTPConnection("127.0.0.1", served.daemon.port, timeout=60)
    params = {"name": "run_agent", "arguments": {"name": "Scout", "task": task}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Authorization": f"Bearer {served.daemon.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    connection.request("POST", "/mcp/notes", body, headers)
    return connection


def test_s18_fifty_clients_at_once_are_two_runs_and_forty_eight_refusals(place: Place) -> None:
    place.provider.plays(Hang())
    with place.served() as served, ThreadPoolExecutor(50) as pool:
        place.allow()

        def call(number: int) -> str:
            connection = begin(served, f"task {number}")
            try:
                reply = json.loads(connection.getresponse().read())
                return reply["result"]["content"][0]["text"]
            finally:
                connection.close()

        calls = [pool.submit(call, number) for number in range(50)]
        wait_until(lambda: sum(each.done() for each in calls) == 48, within_s=START_S)
        wait_until(lambda: len(place.provider.asked) == 2, within_s=START_S)
        running = [each["id"] for each in place.records() if each["outcome"] == "running"]
        for run_id in running:
            place.command("agents", "cancel", run_id)
        texts = [each.result() for each in calls]
    assert (texts.count(BUSY), texts.count("'Scout' was cancelled.")) == (48, 2)
    records = place.records()
    assert len(records) == 50
    assert {each["task"] for each in records} == {f"task {number}" for number in range(50)}
    assert sorted(each["outcome"] for each in records) == ["busy"] * 48 + ["cancelled"] * 2


def test_a_run_that_the_daemons_death_cut_off_is_interrupted(place: Place) -> None:
    place.provider.plays(Hang())
    place.command("agents", "remote", "Scout", "on")
    daemon = start_daemon(place.vault, place.root, env={"SCRIPTED_KEY": KEY})
    served = Served(daemon, place.root)
    caller = begin(served)
    wait_until(lambda: bool(place.provider.asked), within_s=START_S)
    daemon.kill()
    caller.close()
    assert [each["outcome"] for each in place.records()] == ["running"]
    with place.served():
        [record] = place.records()
    assert (record["outcome"], record["reason"]) == ("interrupted", "'Scout' was interrupted: the daemon ended.")


def test_a_client_over_stdio_is_known_by_its_name(place: Place) -> None:
    with place.served():
        place.allow()
        with RelayProcess(place.vault, place.root) as relay:
            relay.shake_hands(clientInfo={"name": "pipe-client", "version": "0"})  # what follows repeats no name
            assert relay.text("run_agent", name="Scout", task="x") == "done"
            assert relay.end() == 0
    [record] = place.records()
    assert (record["way"], record["client"], record["outcome"]) == ("stdio", "pipe-client", "done")


# keys


def places_of_a_leak(place: Place, daemon: Daemon) -> dict[str, bytes]:
    """Everything that outlives a call or that others can look at."""
    found = {"log": daemon.stderr().encode()}
    for folder in (place.vault, place.root):
        found |= {str(path): held for path, held in contents(folder)}
    for process in [daemon.pid, *children(daemon.pid)]:
        found[f"arguments of {process}"] = arguments(process)
        if process != daemon.pid and (held := environ(process)):
            found[f"environment of {process}"] = held
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes by way of /proc")
def test_l03_d26_the_key_is_in_no_log_file_argument_answer_or_childs_environment(place: Place) -> None:
    place.provider.plays(Fail(401, f"Incorrect API key: {KEY}"), Say("fine"))
    quiet = {"VAULT_SIDECAR_LOG_LEVEL": "debug", "OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug"}
    with place.served(**quiet, **with_vectors("hash")) as served:
        place.allow()
        wait_until(lambda: bool(children(served.daemon.pid)))
        failed = served.call("run_agent", name="Scout", task=f"Use {KEY}.")
        assert failed.text == "'Scout' failed: the provider answered 401 (Incorrect API key: ***)."
        assert served.call("run_agent", name="Scout", task="again").text == "fine"
        assert place.provider.asked[0].headers["authorization"] == f"Bearer {KEY}"
        looked_at = places_of_a_leak(place, served.daemon)
    assert [name for name in looked_at if name.startswith("environment of")]
    assert [
        name for name, content in looked_at.items() if KEY.encode() in content or KEY[:12].encode() in content
    ] == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes by way of /proc")
def test_l03_control_a_variable_that_no_setting_names_is_seen_in_the_daemons_own_environment(place: Place) -> None:
    """The look is one that finds: at the start the variable is there, and every process shows what it was given."""
    with place.served() as served:
        assert KEY.encode() in Path(f"/proc/{served.daemon.pid}/environ").read_bytes()


# what is imported

WATCH = """
import os, sys
heavy = {{"pydantic_ai", "openai", "anthropic"}}
out = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
sys.addaudithook(lambda event, args: event == "import" and args[0] in heavy and os.write(out, args[0].encode() + b" "))
from sidecar.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_neither_a_start_nor_a_list_of_tools_imports_the_providers_libraries(place: Place) -> None:
    imports = place.root / "imports"
    place.command("agents", "remote", "Scout", "on")
    program = ("-c", WATCH.format(path=str(imports)))
    daemon = start_daemon(place.vault, place.root, env={"SCRIPTED_KEY": KEY}, program=program)
    served = Served(daemon, place.root)
    try:
        served.settled()
        assert "run_agent" in str(served.rpc("tools/list"))
        assert "Scout" in served.call("list_agents").text
        served.call("get_memory")
        served.call("run_agent", name="Nobody", task="x")
        assert imports.read_text() == ""
        assert served.call("run_agent", name="Scout", task="x").text == "done"
        assert set(imports.read_text().split()) == {"pydantic_ai", "openai"}  # and not what another protocol needs
    finally:
        served.close()
        daemon.stop()


def test_gates_switch_a_running_daemon_at_once_and_outlive_it(place: Place) -> None:
    with place.served() as served:
        assert "may not be run by clients" in served.call("run_agent", name="Scout", task="x").text
        place.allow()
        assert served.call("run_agent", name="Scout", task="x").text == "done"
    with place.served() as served:
        assert served.call("run_agent", name="Scout", task="x").text == "done"
        place.command("agents", "remote", "Scout", "off")
        assert "may not be run by clients" in served.call("run_agent", name="Scout", task="x").text
        os.rename(place.vault / "Agents" / "Scout.md", place.vault / "Agents" / "Other.md")
    assert [each["outcome"] for each in place.records()] == ["refused", "done", "done", "refused"]
