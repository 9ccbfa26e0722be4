"""Every method and event of a real daemon that the plugin started, each message by the schema."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from sidecar import __version__
from sidecar.bridge import endpoint
from sidecar.bridge.client import LocalClient
from sidecar.bridge.settings import read_settings
from sidecar.cli.bridge import FEATURES
from tests import wire
from tests.editor import law
from tests.editor.conftest import Study
from tests.editor.plugin import PATIENCE_S, Plugin, Refused


def status_of(plugin: Plugin, token: str | None = None) -> int:
    """What a client with that token is answered."""
    port = plugin.ask("status")["port"]
    return wire.post(port, token or plugin.ask("token/get")["token"], wire.call("tools/list")).status


# before the start


def test_hello_is_answered_before_anything_heavy_is_loaded(study: Study) -> None:
    code = (
        "import sys, threading; sys.argv[0] = 'vault-sidecar'\n"
        "from sidecar.cli.main import main\n"
        "from sidecar.bridge.pipe import Pipe\n"
        "send = Pipe.send\n"
        "def told(self, line, **more):\n"
        "    heavy = {'aiohttp', 'mcp', 'pydantic', 'numpy', 'sidecar.daemon', 'keyring'} & set(sys.modules)\n"
        "    if b'features' in line and heavy: line = repr(sorted(heavy)).encode()\n"
        "    send(self, line, **more)\n"
        "Pipe.send = told\n"
        f"main(['bridge', '--state', {str(study.root)!r}])\n"
    )
    window = study.window(command=[sys.executable, "-c", code])
    hello = {"protocol": 1, "version": __version__, "pid": window.process.pid, "features": list(FEATURES)}
    assert window.hello() == hello
    assert window.close() == 0
    assert not study.root.exists(), "nothing was made yet"


def test_another_protocol_is_refused_with_who_has_to_be_updated(study: Study) -> None:
    window = study.window()
    for protocol, older in ((7, "sidecar"), (0, "plugin")):
        window.send(b'{"jsonrpc":"2.0","id":%d,"method":"hello","params":{"protocol":%d}}' % (protocol, protocol))
        with pytest.raises(Refused, match=f"The sidecar speaks protocol 1, this plugin {protocol}.") as refused:
            window.answer(protocol)
        assert refused.value.code == "protocol"
        assert refused.value.data["fix"] == f"Update the {older}."
    assert window.hello()["protocol"] == 1, "it lives"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocol": 1},
        {"protocol": "1", "plugin": "1", "vault": "/x"},
        {"protocol": 1, "plugin": 1, "vault": "/x"},
        {"protocol": 1, "plugin": "1", "vault": ""},
        {"protocol": 1, "plugin": "1", "vault": "/x", "plum": 1},
    ],
)
def test_a_hello_that_lacks_something_is_refused(study: Study, params: dict[str, object]) -> None:
    window = study.window()
    assert not law.fits("hello.params", params)
    window.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": params}).encode())
    with pytest.raises(Refused) as refused:
        window.answer(1)
    assert (refused.value.number, refused.value.code) == (-32602, "bad-params")


def test_methods_of_a_running_daemon_wait_for_the_start(study: Study) -> None:
    window = study.window()
    with pytest.raises(Refused) as refused:
        window.ask("start")
    assert refused.value.code == "protocol"
    window.hello()
    with pytest.raises(Refused) as refused:
        window.ask("token/get")
    assert refused.value.code == "not-started"
    state = window.ask("status")
    assert (state["phase"], state["port"], state["settings"], state["vault"]) == (
        "starting",
        None,
        None,
        str(study.vault),
    )
    assert window.ask("log/tail")["lines"] == []
    assert "phase: starting" in window.ask("diagnostics")["text"]
    assert window.ask("shutdown") == {}
    assert window.ended() == 0


def test_bad_lines_are_answered_and_end_nothing(study: Study) -> None:
    window = study.window()
    for bad in (b"plum", b"[]", b"\xff", b"[" * 50_000, b"x" * (1 << 20) + b"y", b'{"jsonrpc":"2.0","id":"y"}'):
        window.send(bad)
    window.send(b'{"jsonrpc":"2.0","method":"notifications/plum"}')
    window.send(b'{"jsonrpc":"2.0","id":"x","method":"plum"}')
    window.hello()
    with pytest.raises(Refused) as refused:
        window.answer("x")
    assert (refused.value.number, refused.value.code) == (-32601, "unknown-method")
    answers = [json.loads(line) for line in window.raw.splitlines()]
    assert [answer["id"] for answer in answers[:6]] == [None, None, None, None, None, "y"]
    assert [answer["error"]["code"] for answer in answers[:6]] == [-32700, -32600, -32700, -32700, -32600, -32600]


# a running daemon


def test_the_daemon_serves_tells_its_state_and_ends_with_the_pipe(study: Study) -> None:
    window = study.window()
    started = window.start(allowWrites=True)
    assert started["url"] == f"http://127.0.0.1:{started['port']}/mcp"
    assert started["settings"]["allowWrites"] is True
    state = window.settled()
    assert (state["notes"], state["indexed"], state["port"]) == (1, 1, started["port"])
    token = window.ask("token/get")
    assert wire.post(started["port"], token["token"], wire.call("tools/list")).status == 200
    assert wire.post(started["port"], "wrong", wire.call("tools/list")).status == 401
    refused = window.hear("state", lambda state: state["refused"])["refused"]
    assert refused["status"] == 401
    assert window.hear("state", lambda state: state["clients"])["clients"] == 1
    status = window.ask("status")
    assert status["seen"][0]["token"] == "local"
    with LocalClient(study.state) as client:
        facts = client.get("/admin/status")
    assert (facts["owner"], facts["pid"]) == ("bridge", window.process.pid)
    assert window.close() == 0
    assert endpoint.read(study.state) is None
    assert not [name for name, _ in window.events if name == "ending"], "the plugin asked for it"


def test_a_saved_note_and_a_rebuild_are_told(shared_study: Study, plugin: Plugin) -> None:
    before = plugin.ask("status")["indexed"]
    shared_study.write("Pear.md", "# Pear\n\nA pear tree too.\n")
    assert plugin.hear("state", lambda state: state["indexed"] == before + 1)
    (shared_study.vault / "Pear.md").unlink()
    plugin.hear("state", lambda state: state["indexed"] == before)
    before = plugin.ask("status")["generation"]
    assert plugin.ask("index/rebuild") == {}
    while plugin.ask("status")["generation"] == before:
        continue


def test_notes_that_can_not_be_indexed_are_a_problem_and_listed(shared_study: Study, plugin: Plugin) -> None:
    large, written = shared_study.vault / "Large.md", shared_study.vault.with_name("Large.md")
    written.write_bytes(b"x" * ((32 << 20) + 1))
    written.rename(large)  # in one step: a part of it would be a note like any other
    problem = plugin.hear("state", lambda state: state["problem"])["problem"]
    assert problem == {
        "code": "index",
        "reason": "Some notes could not be indexed: 1 of 2.",
        "fix": "Search works for the rest.",
    }
    status = plugin.ask("status")
    assert status["skippedInAll"] == 1
    [skipped] = status["skipped"]
    assert skipped["path"] == "Large.md" and "large" in skipped["reason"]
    plugin.forget()
    large.unlink()
    plugin.hear("state", lambda state: not state["problem"])


def test_a_vault_that_goes_away_is_a_problem_and_its_return_none(shared_study: Study, plugin: Plugin) -> None:
    away = shared_study.vault.with_name("away")
    shared_study.vault.rename(away)
    assert plugin.hear("state", lambda state: state["problem"])["problem"]["code"] == "vault"
    plugin.forget()
    away.rename(shared_study.vault)
    plugin.hear("state", lambda state: not state["problem"] and state["phase"] == "running")


def test_regenerating_kills_the_old_token_at_once(plugin: Plugin) -> None:
    old = plugin.ask("token/get")["token"]
    assert status_of(plugin, old) == 200
    rotated = plugin.ask("token/rotate")
    assert rotated["revoked"] == []
    assert "token" not in rotated
    assert status_of(plugin, old) == 401
    new = plugin.ask("token/get")["token"]
    assert status_of(plugin, new) == 200
    assert new.encode() not in plugin.raw.replace(f'"token":"{new}"'.encode(), b""), "only where it was asked for"
    assert not [name for name, _ in plugin.events if name == "notice"], "a notice is for what others did"


def test_what_a_command_changes_is_told(shared_study: Study, plugin: Plugin) -> None:
    with LocalClient(shared_study.state) as client:
        client.post("/admin/settings", allow_writes=True)
        assert plugin.hear("settings/changed")["settings"]["allowWrites"] is True
        client.post("/admin/port", port=25001)
        assert plugin.hear("settings/changed", lambda event: event["settings"]["port"] == 25001)
        client.post("/admin/token/rotate")
        assert plugin.hear("notice")["code"] == "token-replaced"
        client.post("/admin/settings", allow_writes=False)
        client.post("/admin/port", port=0)


def tools(plugin: Plugin) -> set[str]:
    status = plugin.ask("status")
    reply = wire.post(status["port"], plugin.ask("token/get")["token"], wire.call("tools/list"))
    return {tool["name"] for tool in reply.json()["result"]["tools"]}


def test_writes_are_switched_while_it_runs_and_stay_so(study: Study) -> None:
    plugin = study.window()
    plugin.start()
    assert "write_note" not in tools(plugin)
    changed = plugin.ask("settings/set", allowWrites=True)
    assert (changed["settings"]["allowWrites"], changed["restart"]) == (True, False)
    assert "write_note" in tools(plugin)
    plugin.close()
    window = study.window()
    assert window.start()["settings"]["allowWrites"] is True
    assert "write_note" in tools(window)
    window.ask("settings/set", allowWrites=False)
    assert "write_note" not in tools(window)


def test_what_start_says_wins_over_every_other_place_and_is_kept(study: Study) -> None:
    window = study.window(env={"VAULT_SIDECAR_NOTES_ALLOW_WRITES": "false", "VAULT_SIDECAR_HTTP_PORT": "1025"})
    started = window.start(allowWrites=True, agentsFolder="People/Agents")
    assert started["settings"]["allowWrites"] is True
    assert started["port"] != 1025
    window.ask("settings/set", allowWrites=False)
    assert window.ask("status")["settings"]["allowWrites"] is False
    window.close()
    assert read_settings(study.state) == {
        "http": {"port": 0},
        "notes": {"allow_writes": False},
        "agents": {"folder": "People/Agents"},
    }


def test_no_file_of_the_vault_can_set_anything(study: Study) -> None:
    for name in ("config.toml", "settings.json", ".obsidian/config.toml", ".kp/settings.json"):
        file = study.vault / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            '{"notes": {"allow_writes": true}}' if name.endswith("json") else "[notes]\nallow_writes = true\n"
        )
    plugins = study.vault / ".obsidian" / "plugins" / "vault-sidecar"
    plugins.mkdir(parents=True)
    (plugins / "data.json").write_text('{"allowWrites": true, "notes": {"allow_writes": true}}')
    window = study.window()
    assert window.start()["settings"]["allowWrites"] is False
    assert "write_note" not in tools(window)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"port": 80}, "config"),
        ({"agentsFolder": "../outside"}, "config"),
        ({"agentsFolder": ".hidden"}, "config"),
        ({"surfaces": {"plum": False}}, "bad-params"),
    ],
)
def test_a_setting_that_is_wrong_changes_nothing(
    shared_study: Study, plugin: Plugin, settings: dict[str, object], code: str
) -> None:
    before = plugin.ask("status")["settings"], read_settings(shared_study.state)
    plugin.send(
        json.dumps(
            {"jsonrpc": "2.0", "id": "s", "method": "settings/set", "params": {"allowWrites": True, **settings}}
        ).encode()
    )
    with pytest.raises(Refused) as refused:
        plugin.answer("s")
    assert refused.value.code == code, refused.value
    assert (plugin.ask("status")["settings"], read_settings(shared_study.state)) == before


def test_surfaces_and_port_hold_from_the_next_start_on(plugin: Plugin) -> None:
    changed = plugin.ask("settings/set", surfaces={"notes": False}, port=None)
    assert changed["restart"] is True
    assert changed["settings"]["surfaces"]["notes"] is False
    changed = plugin.ask("settings/set", surfaces={"notes": True})
    assert changed["settings"]["surfaces"]["notes"] is True
    port = plugin.ask("status")["port"]
    assert plugin.ask("settings/set", port=port)["restart"] is False, "it listens there already"
    assert plugin.ask("settings/set", port=port + 1)["restart"] is True
    assert plugin.ask("settings/set", port=0)["restart"] is False, "as it was started"


# connecting


async def test_l16_the_copied_command_works_in_a_stock_client_and_its_shown_form_holds_no_key(plugin: Plugin) -> None:
    token = plugin.ask("token/get")["token"]
    got = plugin.ask("connect/get", client="claude-code")
    first, *others = got["forms"]
    assert first["secret"] and token in first["text"]
    assert token not in first["masked"] and first["masked"].replace("<token>", token) == first["text"]
    assert others and not any(form["secret"] or token in form["text"] for form in others)
    assert any("VAULT_SIDECAR_TOKEN" in form["text"] for form in others), "a form by a variable of the environment"
    words = shlex.split(first["text"])
    url, header = words[-3], words[-1]
    assert words[:-3] == ["claude", "mcp", "add", "--transport", "http", "vault-sidecar"]
    name, _, value = header.partition(": ")
    async with (
        httpx2.AsyncClient(headers={name: value}, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http)) as session,
    ):
        assert {tool.name for tool in (await session.list_tools()).tools} >= {"list_notes", "read_note"}


def test_every_client_of_the_list_has_its_texts(plugin: Plugin) -> None:
    token = plugin.ask("token/get")["token"]
    port = plugin.ask("status")["port"]
    for row in plugin.ask("connect/list")["clients"]:
        for transport in row["transports"]:
            got = plugin.ask("connect/get", client=row["client"], transport=transport)
            for form in got["forms"]:
                assert form["secret"] == (token in form["text"])
                assert token not in form["masked"]
            assert (str(port) in got["forms"][0]["text"]) == (transport == "http")


def test_the_form_for_other_clients_is_json(shared_study: Study, plugin: Plugin) -> None:
    [form] = plugin.ask("connect/get", client="mcp-json")["forms"]
    entry = json.loads(form["text"])["mcpServers"]["vault-sidecar"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", entry["url"])
    [form] = plugin.ask("connect/get", client="stdio-json")["forms"]
    entry = json.loads(form["text"])["mcpServers"]["vault-sidecar"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == ["mcp", "--vault", str(shared_study.vault), "--state", str(shared_study.root)]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"client": "plum"}, "no-such"),
        ({"client": "claude-desktop", "transport": "http"}, "bad-params"),
        ({"client": "mcp-json", "transport": "stdio"}, "bad-params"),
    ],
)
def test_a_client_that_can_not_be_set_up_so_is_refused(plugin: Plugin, params: dict[str, str], code: str) -> None:
    with pytest.raises(Refused) as refused:
        plugin.ask("connect/get", **params)
    assert refused.value.code == code


# the log


def test_the_log_is_passed_on_and_holds_no_key(shared_study: Study, plugin: Plugin) -> None:
    token = plugin.ask("token/get")["token"]
    local = (shared_study.state / "local.key").read_text().strip()
    plugin.ask("token/rotate")
    lines = plugin.ask("log/tail", lines=1000)["lines"]
    assert any("the token was replaced" in line for line in lines)
    [last] = plugin.ask("log/tail", lines=1)["lines"]
    assert last in plugin.ask("log/tail", lines=1000)["lines"][len(lines) - 1 :], "the newest, or one that came since"
    text = plugin.ask("diagnostics")["text"]
    assert lines[-1] in text and f"vault-sidecar {__version__}" in text
    everything = "\n".join(lines) + text + plugin.stderr()
    assert token not in everything and local not in everything
    assert plugin.ask("token/get")["token"] not in everything


def test_features_are_the_parts_that_are_there_and_methods_of_others_say_so(plugin: Plugin) -> None:
    settings = plugin.ask("status")["settings"]
    assert {"databases", "knowledge"} & set(FEATURES) == {"databases", "knowledge"} & set(settings["surfaces"])
    for feature, method in (("proposals", "proposals/list"), ("agents", "agents/list"), ("agents", "runs/list")):
        if feature in FEATURES:
            plugin.ask(method)
            continue
        with pytest.raises(Refused) as refused:
            plugin.ask(method)
        assert (refused.value.number, refused.value.code) == (-32601, "unavailable")
