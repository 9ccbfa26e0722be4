"""`agents list|remote|runs|cancel|key`, with and without a daemon."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator

import pytest

from sidecar.bridge.patient_keyring import SERVICE
from sidecar.services.agents.gates import Gates
from sidecar.services.agents.records import Records
from tests.agents import write_agent
from tests.bridge.peers import Honest, honest_daemon
from tests.cli.conftest import Place, Said
from tests.services.agents.test_records import record

Run = Callable[..., Said]
TABLES = '[providers.local]\nkind = "openai"\n\n[providers.other]\nkind = "anthropic"\nkey_env = "OTHER_KEY"\n'


@pytest.fixture
def daemon(place: Place) -> Generator[Honest]:
    with honest_daemon(place.state) as twin:
        yield twin


def test_the_list_without_a_daemon(run: Run, place: Place) -> None:
    assert run("agents", "list").out == "no agents; an agent is a note in the folder 'Agents'\n"
    write_agent(place.vault)
    write_agent(place.vault, "Empty.md", "---\ntools: bash\n---\n")
    assert run("agents", "list").out == (
        "Empty · can't run: no persona · Agents/Empty.md\n"
        "    unknown tools are ignored: bash\n"
        "Scout 🔭 · claude-sonnet-5-5 · remote invocation off · Agents/Scout.md\n"
    )
    facts = json.loads(run("agents", "list", "--json").out)
    assert (facts["folder"], [agent["name"] for agent in facts["agents"]]) == ("Agents", ["Empty", "Scout"])
    (place.vault / ".kpignore").write_text("Empty.md\n")
    assert "Empty" not in run("agents", "list").out


def test_the_list_of_a_daemon(run: Run, daemon: Honest) -> None:
    agent = {"name": "A\x1b", "emoji": None, "model": None, "remote": True, "changed": True, "problem": None}
    facts = {"folder": "Agents", "agents": [{**agent, "path": "Agents/A.md", "hints": []}]}
    daemon.answers["/admin/agents"] = (200, facts)
    assert run("agents", "list").out == ("A\\u001b · clients may run it, changed since you allowed it · Agents/A.md\n")


def test_remote_without_a_daemon_counts_from_the_next_start_on(run: Run, place: Place) -> None:
    write_agent(place.vault)
    said = run("agents", "remote", "scout", "on")
    assert (said.code, said.err) == (0, "scout: clients may run it\n")
    assert [gate.name for gate in Gates(place.state).read().values()] == ["Scout"]
    facts = json.loads(run("agents", "remote", "Scout", "off", "--json").out)
    assert [agent["remote"] for agent in facts["agents"]] == [False]
    assert Gates(place.state).read() == {}


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("x", "Nobody", "There is no agent 'Nobody'. 'vault-sidecar agents list' names them."),
        ("", "Scout", "'Scout' can't run: no persona."),
    ],
)
def test_remote_refuses_what_cannot_be_run(run: Run, place: Place, text: str, name: str, sentence: str) -> None:
    write_agent(place.vault, text=text)
    said = run("agents", "remote", name, "on")
    assert (said.code, said.err) == (1, f"vault-sidecar: {sentence}\n")
    assert Gates(place.state).read() == {}


def test_off_holds_where_another_file_took_the_name_or_the_file_is_away(run: Run, place: Place) -> None:
    file = write_agent(place.vault)
    for meanwhile in (lambda: write_agent(place.vault, "A.md"), file.unlink):
        write_agent(place.vault)
        (place.vault / "Agents" / "A.md").unlink(missing_ok=True)
        run("agents", "remote", "Scout", "on")
        meanwhile()
        said = run("agents", "remote", "Scout", "off")
        assert (said.code, said.err) == (0, "Scout: clients can't run it\n")
        assert Gates(place.state).read() == {}
    assert "There is no agent" in run("agents", "remote", "Scout", "off").err


def test_remote_asks_the_daemon(run: Run, place: Place, daemon: Honest) -> None:
    write_agent(place.vault)
    daemon.answers["/admin/agents/remote"] = (200, {"folder": "Agents", "agents": []})
    assert run("agents", "remote", "Scout", "on").code == 0
    assert daemon.requests[-1] == ("/admin/agents/remote", True)
    assert Gates(place.state).read() == {}  # the daemon keeps it


def test_the_runs_without_a_daemon(run: Run, place: Place) -> None:
    assert run("agents", "runs").out == "no agent has been run by a client yet\n"
    records = Records(place.state)
    for number in range(25):
        records.add(record(f"task {number}", "done"))
    lines = run("agents", "runs").out.splitlines()
    assert len(lines) == 20
    assert lines[0].endswith("2026-11-30T11:12:00Z  Scout  done  for local: task 24")
    assert len(run("agents", "runs", "--limit", "3").out.splitlines()) == 3
    assert [each["task"] for each in json.loads(run("agents", "runs", "--limit", "1", "--json").out)["runs"]] == [
        "task 24"
    ]


@pytest.mark.parametrize("limit", ["0", "501", "x", "-1"])
def test_a_limit_out_of_range_is_a_usage_error(run: Run, place: Place, limit: str) -> None:
    said = run("agents", "runs", "--limit", limit)
    assert said.code == 2
    assert "must be a whole number from 1 to 500" in said.err


def test_cancel_needs_the_daemon(run: Run, place: Place) -> None:
    said = run("agents", "cancel", "01KB")
    assert (said.code, said.err) == (1, "vault-sidecar: no daemon serves this vault, so no agent is running\n")


def test_cancel_asks_the_daemon(run: Run, daemon: Honest) -> None:
    daemon.answers["/admin/agents/cancel"] = (200, {"id": "01KBX"})
    said = run("agents", "cancel", "kbx")
    assert (said.code, said.err) == (0, "cancelled 01KBX\n")


# keys


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_key_goes_from_stdin_into_the_keyring_and_nowhere_else(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.state / "config.toml").write_text(TABLES)
    type_in(monkeypatch, "sk-typed-123\n")
    said = run("agents", "key", "local")
    assert (said.code, said.out, said.err) == (0, "", "the key of 'local' is in the system's keyring\n")
    assert place.keyring.kept == {(SERVICE, "provider:local"): "sk-typed-123"}
    assert all(b"sk-typed" not in path.read_bytes() for path in place.root.rglob("*") if path.is_file())


def test_a_key_is_asked_for_without_echo(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.state / "config.toml").write_text(TABLES)
    asked: list[str] = []

    def unseen(prompt: str) -> str:
        asked.append(prompt)
        return "sk-unseen"

    monkeypatch.setattr("getpass.getpass", unseen)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run("agents", "key", "other").code == 0
    assert asked == ["key of 'other': "]
    assert place.keyring.tokens() == ["sk-unseen"]


def test_no_key_at_the_prompt_is_said_in_a_sentence(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.state / "config.toml").write_text(TABLES)

    def ended(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", ended)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    said = run("agents", "key", "other")
    assert (said.code, said.err) == (1, "vault-sidecar: no key was given\n")


def test_bytes_that_are_no_text_are_no_key_and_are_not_shown(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.state / "config.toml").write_text(TABLES)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"sk-\xff-secret\n"), "utf-8"))
    said = run("agents", "key", "other")
    assert (said.code, said.err) == (1, "vault-sidecar: a key has visible ASCII characters only\n")


def test_a_key_that_a_variable_hides_is_told(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.state / "config.toml").write_text(TABLES)
    type_in(monkeypatch, "sk-x\n")
    assert "the settings name the variable OTHER_KEY, and that one is used" in run("agents", "key", "other").err


def test_a_key_can_be_removed(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.state / "config.toml").write_text(TABLES)
    type_in(monkeypatch, "sk-x\n")
    run("agents", "key", "local")
    assert run("agents", "key", "local", "--remove").err == "removed key of 'local'\n"
    assert run("agents", "key", "local", "--remove").err == "there was no key of 'local'\n"
    assert place.keyring.kept == {}


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("locl", "sk-x\n", "no provider 'locl' is set in config.toml; there are local, other"),
        ("local", "", "no key was given"),
        ("local", "a b\n", "a key has 1 to 1,000 visible ASCII characters and no blanks"),
    ],
)
def test_mistakes_with_keys(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch, name: str, typed: str, sentence: str
) -> None:
    (place.state / "config.toml").write_text(TABLES)
    type_in(monkeypatch, typed)
    said = run("agents", "key", name)
    assert (said.code, said.err) == (1, f"vault-sidecar: {sentence}\n")
    assert place.keyring.kept == {}
