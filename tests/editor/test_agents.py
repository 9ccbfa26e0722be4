"""Agents over the pipe: gates, runs, records and keys, with a scripted provider behind a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.bridge.settings import read_settings
from tests.editor.conftest import Study
from tests.editor.plugin import PATIENCE_S, Plugin, Refused
from tests.lab import wait_until
from tests.living import contents
from tests.provider import Hang, Provider, Say, Use, provider

KEY = "sk-plum-0123456789-0123456789"


@dataclass(frozen=True)
class Staff:
    """A window whose server runs, and the provider that its agents ask."""

    study: Study
    plugin: Plugin
    played: Provider

    def write(self, name: str, more: str = "") -> None:
        folder = self.study.vault / "Agents"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\nname: {name}\n{more}---\nYou look through a vault.\n")

    def allow(self, name: str, on: bool = True) -> None:
        self.plugin.ask("agents/setRemote", name=name, on=on)


@pytest.fixture(scope="module")
def shared_staff(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staff]:
    with ExitStack() as stack:
        played = stack.enter_context(provider())
        study = Study(tmp_path_factory.mktemp("agents"), stack)
        window = study.window()
        window.start(provider="openai", baseUrl=played.url, model="scripted")
        window.settled()
        yield Staff(study, window, played)


@pytest.fixture
def staff(shared_staff: Staff) -> Staff:
    shared_staff.plugin.forget()
    shared_staff.played.plays(Say("done"))
    return shared_staff


def test_agents_are_listed_with_what_is_wrong_and_gates_are_switched(staff: Staff) -> None:
    staff.write("Gates")
    (staff.study.vault / "Agents" / "Empty.md").write_text("---\nname: Empty\n---\n")
    listed = staff.plugin.ask("agents/list")
    rows = {row["name"]: row for row in listed["agents"]}
    assert (rows["Gates"]["remote"], rows["Gates"]["problem"], rows["Gates"]["model"]) == (False, None, "scripted")
    assert rows["Empty"]["problem"]
    assert listed["folder"] == "Agents"
    assert listed["provider"] == {
        "name": "openai",
        "kind": "openai",
        "baseUrl": staff.played.url,
        "hasKey": False,
        "problem": None,
    }
    switched = staff.plugin.ask("agents/setRemote", name="Gates", on=True)
    assert {row["name"]: row["remote"] for row in switched["agents"]}["Gates"] is True
    staff.plugin.hear("agents/changed")
    staff.write("Gates", "description: New words.\n")
    [row] = [row for row in staff.plugin.ask("agents/list")["agents"] if row["name"] == "Gates"]
    assert (row["remote"], row["changed"]) == (True, True)
    for name, code in (("Empty", "agent"), ("Nobody", "no-such")):
        with pytest.raises(Refused) as refused:
            staff.plugin.ask("agents/setRemote", name=name, on=True)
        assert refused.value.code == code


def test_a_run_goes_through_the_gate_and_is_told_and_recorded(staff: Staff) -> None:
    staff.write("Scout", "tools: read_note\n")
    with pytest.raises(Refused, match='Switch on "Remote invocation" for it in the plugin') as refused:
        staff.plugin.ask("agents/run", name="Scout", task="Which notes mention plums?")
    assert refused.value.code == "agent"
    assert staff.played.asked == []
    staff.allow("Scout")
    staff.played.plays(Use([("read_note", {"path": "Plum.md"})]), Say("Plum.md does."))
    ran = staff.plugin.ask("agents/run", name="Scout", task="Which notes mention plums?", client="dataview")
    assert ran["text"] == "Plum.md does."
    record = staff.plugin.hear("run/finished", lambda event: event["run"]["id"] == ran["id"])["run"]
    assert (record["outcome"], record["way"], record["client"], record["tools"]) == (
        "done",
        "plugin",
        "dataview",
        {"read_note": 1},
    )
    runs = staff.plugin.ask("runs/list", limit=2)["runs"]
    assert runs[0] == record
    assert (runs[1]["outcome"], runs[1]["agent"]) == ("refused", "Scout")


def test_a_run_is_cancelled_and_a_third_is_refused(staff: Staff) -> None:
    staff.write("Slow")
    staff.allow("Slow")
    staff.played.plays(Hang())
    begun = [staff.plugin.begin("agents/run", name="Slow", task="Wait.") for _ in range(2)]
    wait_until(lambda: len(staff.played.asked) == 2, within_s=PATIENCE_S)
    with pytest.raises(Refused) as refused:
        staff.plugin.ask("agents/run", name="Slow", task="Wait.")
    assert refused.value.code == "busy"
    assert staff.plugin.ask("status")["phase"] == "running", "others are answered meanwhile"
    running = [run for run in staff.plugin.ask("runs/list")["runs"] if run["outcome"] == "running"]
    assert len(running) == 2
    for run in running:
        staff.plugin.ask("runs/cancel", id=run["id"][-8:])
    for message_id in begun:
        with pytest.raises(Refused, match="'Slow' was cancelled") as refused:
            staff.plugin.answer(message_id)
        assert refused.value.code == "agent"
    with pytest.raises(Refused) as refused:
        staff.plugin.ask("runs/cancel", id=running[0]["id"])
    assert refused.value.code == "no-such"


def test_a_key_is_sent_to_its_provider_and_is_nowhere_else(staff: Staff) -> None:
    staff.write("Keyed")
    staff.allow("Keyed")
    assert staff.plugin.ask("provider/setKey", provider="openai", key=KEY) == {}
    assert staff.plugin.ask("agents/list")["provider"]["hasKey"] is True
    staff.plugin.ask("agents/run", name="Keyed", task=f"Say {KEY}.")
    assert staff.played.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    staff.plugin.ask("provider/setKey", provider="openai", key=None)
    staff.plugin.ask("agents/run", name="Keyed", task="Again.")
    assert KEY not in str(staff.played.asked[-1].headers)
    with pytest.raises(Refused) as refused:
        staff.plugin.ask("provider/setKey", provider="anthropic", key=KEY)
    assert refused.value.code == "no-such"
    told = staff.plugin.stderr() + staff.plugin.raw.decode() + json.dumps(staff.plugin.ask("log/tail", lines=1000))
    assert KEY not in told
    for folder in (staff.study.vault, staff.study.root):
        assert not [path for path, held in contents(folder) if KEY.encode() in held]
    process = Path(f"/proc/{staff.plugin.process.pid}")
    if process.exists():
        assert KEY.encode() not in (process / "environ").read_bytes() + (process / "cmdline").read_bytes()


def test_the_provider_is_set_among_the_settings_and_keeps_what_the_person_wrote(study: Study) -> None:
    study.state.mkdir(parents=True, mode=0o700)
    (study.state / "config.toml").write_text('[providers.anthropic]\nkind = "anthropic"\nkey_env = "PLUM_KEY"\n')
    window = study.window(env={"PLUM_KEY": KEY})
    started = window.start(baseUrl="http://127.0.0.1:9/v1")
    assert (started["settings"]["provider"], started["settings"]["baseUrl"]) == ("anthropic", "http://127.0.0.1:9/v1")
    assert window.ask("agents/list")["provider"]["hasKey"] is True, "by the variable that config.toml names"
    changed = window.ask("settings/set", provider="openai", baseUrl="http://127.0.0.1:9/v2", model="plum")
    assert changed["restart"] is True
    assert [changed["settings"][name] for name in ("provider", "baseUrl", "model")] == [
        "openai",
        "http://127.0.0.1:9/v2",
        "plum",
    ]
    for wrong in ("http://example.com/v1", "ftp://x", "plum"):
        before = read_settings(study.state)
        with pytest.raises(Refused) as refused:
            window.ask("settings/set", baseUrl=wrong)
        assert refused.value.code == "config"
        assert read_settings(study.state) == before
    back = window.ask("settings/set", provider="anthropic", baseUrl="http://127.0.0.1:9/v1", model=None)
    assert back["settings"]["model"] is None
    assert window.close() == 0
    assert KEY not in window.stderr()


def test_an_address_without_a_provider_is_refused(study: Study) -> None:
    window = study.window()
    with pytest.raises(Refused, match="choose a provider first") as refused:
        window.start(baseUrl="http://127.0.0.1:9/v1")
    assert refused.value.code == "bad-params"


def test_closing_stdin_in_the_middle_of_a_run_ends_it_and_records_that(study: Study) -> None:
    with provider(Hang()) as played:
        window = study.window()
        window.start(provider="openai", baseUrl=played.url, model="scripted")
        staff = Staff(study, window, played)
        staff.write("Slow")
        staff.allow("Slow")
        window.begin("agents/run", name="Slow", task="Wait.")
        wait_until(lambda: len(played.asked) == 1, within_s=PATIENCE_S)
        assert window.close() == 0
    again = study.window()
    again.start()
    [run] = again.ask("runs/list")["runs"]
    assert run["outcome"] == "cancelled"
