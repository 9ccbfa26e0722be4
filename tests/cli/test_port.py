"""`port` and `endpoint`, with a daemon's twin and without any daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

import pytest

from sidecar.bridge import settings
from tests.bridge.peers import Honest, honest_daemon
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]


@pytest.fixture
def daemon(place: Place) -> Generator[Honest]:
    with honest_daemon(place.state) as twin:
        yield twin


def test_a_port_is_pinned_while_no_daemon_runs(run: Run, place: Place) -> None:
    settings.set_setting(place.state, "log", "level", "debug")
    assert run("port", "set", "25000") == Said(0, "the next start listens on port 25000\n", "")
    assert settings.read_settings(place.state) == {"log": {"level": "debug"}, "http": {"port": 25000}}
    assert run("port", "clear") == Said(0, "the next start listens on another random port at each start\n", "")
    assert settings.read_settings(place.state)["http"] == {"port": 0}
    facts = json.loads(run("port", "set", "25001", "--json").out)
    assert facts == {"url": None, "port": None, "pinned": 25001}


def test_a_port_can_be_pinned_before_the_first_start(run: Run, place: Place) -> None:
    place.state.rmdir()
    assert run("port", "set", "25000").code == 0
    assert settings.read_settings(place.state) == {"http": {"port": 25000}}
    assert place.state.stat().st_mode & 0o777 == 0o700
    assert (place.state / "settings.json").stat().st_mode & 0o777 == 0o600


def test_for_a_vault_that_is_not_there_no_state_is_made(run: Run, place: Place) -> None:
    said = run("port", "set", "25000", "--vault", str(place.vault / "Misspelled"))
    assert said.code == 2
    assert "there is no folder" in said.err
    assert list(place.root.iterdir()) == [place.state]


def test_a_running_daemon_is_told_and_stays_where_it_is(run: Run, place: Place, daemon: Honest) -> None:
    daemon.answers["/admin/port"] = (200, {"url": "http://127.0.0.1:24783", "port": 24783, "pinned": 25000})
    said = run("port", "set", "25000")
    assert said == Said(
        0,
        "restart needed: the daemon stays on port 24783 until it is started again, then listens on port 25000\n",
        "",
    )
    daemon.answers["/admin/port"] = (200, {"url": "http://127.0.0.1:24783", "port": 24783, "pinned": 0})
    assert run("port", "clear").out.endswith("then listens on another random port at each start\n")
    daemon.answers["/admin/port"] = (200, {"url": "http://127.0.0.1:24783", "port": 24783, "pinned": 24783})
    assert run("port", "set", "24783").out == "the daemon listens on port 24783 already, and will at its next start\n"
    assert not (place.state / "settings.json").exists(), "the command itself wrote nothing"


def test_a_port_that_a_variable_decides_is_not_pinned(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_SIDECAR_HTTP_PORT", "25002")
    sentence = "The port comes from the environment variable VAULT_SIDECAR_HTTP_PORT; change it there and restart."
    for argv in (("set", "25000"), ("clear",)):
        assert run("port", *argv) == Said(1, "", f"vault-sidecar: {sentence}\n")
    assert not (place.state / "settings.json").exists()


def test_endpoint_prints_the_url_alone(run: Run, daemon: Honest) -> None:
    facts = {"url": "http://127.0.0.1:24783", "port": 24783, "pinned": 24783}
    daemon.answers["/admin/endpoint"] = (200, facts)
    assert run("endpoint") == Said(0, "http://127.0.0.1:24783\n", "")
    assert json.loads(run("endpoint", "--json").out) == facts


def test_without_a_daemon_there_is_no_endpoint(run: Run, place: Place) -> None:
    sentence = "no daemon serves this vault; start one with 'vault-sidecar serve'"
    assert run("endpoint") == Said(1, "", f"vault-sidecar: {sentence}\n")
    said = run("endpoint", "--json")
    assert (said.code, json.loads(said.out)) == (1, {"url": None, "port": None, "pinned": None})
    run("port", "set", "25000")
    assert json.loads(run("endpoint", "--json").out)["pinned"] == 25000
