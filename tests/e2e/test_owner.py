"""What the owner changes from a terminal, with a real daemon and real commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.bridge.token import is_token
from tests.conftest import REPOSITORY
from tests.daemons import TOKEN_VARIABLE, environment
from tests.ports import free_port
from tests.security.owner import opens
from tests.security.starts import Ended, Site

Command = Callable[..., Ended]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        yield made


@pytest.fixture
def command(site: Site) -> Command:
    """Runs one command in a process of its own."""

    def run(*argv: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "sidecar", *argv, "--vault", str(site.vault), "--state", str(site.root)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(),
            cwd=REPOSITORY,
            timeout=60,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def test_tokens_are_changed_through_the_daemon_and_without_it_alike(site: Site, command: Command) -> None:
    daemon = site.start()
    for _ in range(2):
        is_running = daemon.process.poll() is None
        main = command("token", "show").out.strip()
        bob = command("token", "add", "bob", "--org", "home").out.strip()
        eve = command("token", "add", "eve").out.strip()
        assert command("token", "add", "bob").code == 1
        if not is_running:
            daemon = site.start()
        assert all(opens(daemon.port, token) for token in (main, bob, eve))
        if not is_running:
            daemon.stop()
        assert command("token", "remove", "eve").code == 0
        listed = json.loads(command("token", "list", "--json").out)["tokens"]
        assert [(row["agent"], row["org"]) for row in listed] == [("bob", "home")]
        facts = json.loads(command("token", "rotate", "--json").out)
        assert is_token(facts["token"]) and facts["revoked"] == ["bob"]
        if not is_running:
            daemon = site.start()
        assert [opens(daemon.port, token) for token in (facts["token"], main, bob, eve)] == [True, False, False, False]
        assert daemon.stop() == 0


def test_a_token_from_the_environment_is_shown_by_the_daemon_and_not_replaced(site: Site, command: Command) -> None:
    site.put("config.toml", f'[http]\nbearer_token_env = "{TOKEN_VARIABLE}"\n')
    daemon = site.start(**{TOKEN_VARIABLE: "x" * 40})
    assert command("token", "show").out == "x" * 40 + "\n", "the command's own environment has none"
    sentence = f"The token comes from the environment variable {TOKEN_VARIABLE}; change it there and restart."
    assert command("token", "rotate") == Ended(1, "", f"vault-sidecar: {sentence}\n")
    bob = command("token", "add", "bob").out.strip()
    assert opens(daemon.port, bob) and opens(daemon.port, "x" * 40)
    assert daemon.stop() == 0
    assert command("token", "rotate") == Ended(1, "", f"vault-sidecar: {sentence}\n")
    again = site.start(**{TOKEN_VARIABLE: "y" * 40})
    assert [opens(again.port, token) for token in (bob, "x" * 40, "y" * 40)] == [False, False, True]
    assert again.stop() == 0


def test_a_pinned_port_is_taken_at_the_next_start(site: Site, command: Command) -> None:
    port = free_port()
    daemon = site.start()
    assert command("endpoint").out == f"http://127.0.0.1:{daemon.port}\n"
    said = command("port", "set", str(port))
    assert said == Ended(
        0,
        f"restart needed: the daemon stays on port {daemon.port} until it is started again,"
        f" then listens on port {port}\n",
        "",
    )
    assert json.loads(command("endpoint", "--json").out) == {
        "url": f"http://127.0.0.1:{daemon.port}",
        "port": daemon.port,
        "pinned": port,
    }
    assert daemon.stop() == 0
    assert command("endpoint").code == 1
    again = site.start(port=None)
    assert again.port == port
    assert command("port", "set", str(port)).out.startswith(f"the daemon listens on port {port} already")
    assert command("port", "clear").code == 0
    assert again.stop() == 0
    free = site.start(port=None)
    assert free.port != port and free.port >= 10_000
    assert json.loads(command("endpoint", "--json").out)["pinned"] == 0
    assert free.stop() == 0


def test_a_port_that_the_daemons_environment_decides_is_not_pinned(site: Site, command: Command) -> None:
    port = free_port()
    daemon = site.start(port=None, VAULT_SIDECAR_HTTP_PORT=str(port))
    assert daemon.port == port
    said = command("port", "clear")
    assert (said.code, said.out) == (1, "")
    assert "comes from the environment variable VAULT_SIDECAR_HTTP_PORT; change it there and restart" in said.err
    assert daemon.stop() == 0
