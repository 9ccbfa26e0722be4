"""`token`, with a daemon's twin and without any daemon."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator

import pytest

from sidecar.bridge import identity, lock
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import is_token, new_token
from sidecar.bridge.token_store import FileStore
from sidecar.cli import changes
from tests.bridge.keyrings import Refusing
from tests.bridge.peers import Honest, honest_daemon
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]


@pytest.fixture
def daemon(place: Place) -> Generator[Honest]:
    with honest_daemon(place.state) as twin:
        yield twin


@pytest.fixture
def token(place: Place) -> str:
    """The vault was served once; its token is in the keyring."""
    token = new_token()
    KeyringStore(place.state, place.keyring).store(token)
    return token


# without a daemon


def test_rotate_alone_replaces_the_token_where_it_is_kept(run: Run, place: Place, token: str) -> None:
    said = run("token", "rotate")
    assert said.code == 0
    new = said.out.strip()
    assert is_token(new) and new != token
    assert said.out == f"{new}\n"
    assert said.err == "The old token is dead; every client needs this one.\n"
    assert place.keyring.tokens() == [new]
    assert run("token", "show").out == f"{new}\n"
    assert lock.holder(place.state) is None


def test_rotate_alone_stays_in_the_file_where_the_token_is(run: Run, place: Place) -> None:
    FileStore(place.state, place.vault).store(new_token())
    facts = json.loads(run("token", "rotate", "--json").out)
    assert facts == {"token": facts["token"], "kept_in": "a file of mode 0600 in the state folder", "revoked": []}
    assert (place.state / "token").read_text() == f"{facts['token']}\n"
    assert (place.state / "token").stat().st_mode & 0o777 == 0o600
    assert place.keyring.tokens() == []


def test_r07_rotate_alone_with_a_keyring_that_fails_changes_nothing(
    run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Refusing()
    monkeypatch.setattr("keyring.get_keyring", lambda: backend)
    token = new_token()
    KeyringStore(place.state, backend).store(token)
    backend.refuses = True
    said = run("token", "rotate")
    assert said == Said(1, "", "vault-sidecar: the system's keyring can't be used: it is locked\n")
    assert run("token", "show").out == f"{token}\n"


def test_named_tokens_are_added_listed_and_removed(run: Run, place: Place, token: str) -> None:
    bob = run("token", "add", "bob")
    assert is_token(bob.out.strip())
    assert bob.err == "This token of 'bob' is kept nowhere and can't be shown again.\n"
    eve = json.loads(run("token", "add", "eve", "--org", "home", "--json").out)
    assert (eve["agent"], eve["org"], is_token(eve["token"])) == ("eve", "home", True)
    listed = json.loads(run("token", "list", "--json").out)
    assert listed["kept_in"] == "the system's keyring"
    assert [(row["agent"], row["org"]) for row in listed["tokens"]] == [("bob", "local"), ("eve", "home")]
    said = run("token", "list")
    assert [line.split()[:2] for line in said.out.splitlines()] == [["AGENT", "ORG"], ["bob", "local"], ["eve", "home"]]
    assert said.err == "the main token is kept in the system's keyring\n"
    assert run("token", "remove", "bob") == Said(0, "", "the token of 'bob' is dead\n")
    assert json.loads(run("token", "remove", "eve", "--json").out) == {"removed": "eve"}
    assert run("token", "list").out == ""
    for secret in (bob.out.strip(), eve["token"]):
        assert not any(secret.encode() in path.read_bytes() for path in place.state.iterdir() if path.is_file())


def test_rotate_says_whose_tokens_died_as_well(run: Run, token: str) -> None:
    run("token", "add", "bob")
    run("token", "add", "eve")
    assert run("token", "rotate").err.endswith(" Revoked as well: bob, eve.\n")
    assert json.loads(run("token", "list", "--json").out)["tokens"] == []


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (("add", "local"), "AGENT: 'local' is the name of the main token; choose another"),
        (("add", "a b"), "AGENT: must be 1 to 64 of letters a to z, digits and _ . -"),
        (("add", "a", "--org", ""), "ORG: must be 1 to 64 of letters a to z, digits and _ . -"),
        (("remove", "a"), "no token has that name; 'vault-sidecar token list' shows which there are"),
    ],
)
def test_what_is_refused_is_one_sentence(run: Run, token: str, argv: tuple[str, ...], sentence: str) -> None:
    assert run("token", *argv) == Said(1, "", f"vault-sidecar: {sentence}\n")


def test_before_the_first_start_there_is_nothing_to_change(run: Run, place: Place) -> None:
    for argv in (("rotate",), ("add", "bob"), ("list",), ("remove", "bob")):
        said = run("token", *argv)
        assert (said.code, said.out) == (1, "")
        assert "has no token yet; 'vault-sidecar serve' makes one" in said.err
    (place.state / "lock").unlink()
    place.state.rmdir()
    assert run("token", "rotate").code == 1
    assert not place.state.exists()


@pytest.mark.parametrize("is_set", [True, False])
def test_a_token_from_the_environment_is_not_replaced(
    run: Run, place: Place, token: str, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    (place.state / "config.toml").write_text('[http]\nbearer_token_env = "MY_TOKEN"\n')
    if is_set:
        monkeypatch.setenv("MY_TOKEN", "x" * 40)
    sentence = "The token comes from the environment variable MY_TOKEN; change it there and restart."
    assert run("token", "rotate") == Said(1, "", f"vault-sidecar: {sentence}\n")
    assert place.keyring.tokens() == [token]


# with a daemon


def test_a_running_daemon_makes_every_change(run: Run, place: Place, token: str, daemon: Honest) -> None:
    daemon.answers["/admin/token/rotate"] = (200, {"token": "new", "kept_in": "x", "revoked": ["bob"]})
    daemon.answers["/admin/token/add"] = (200, {"token": "his", "agent": "bob", "org": "home"})
    daemon.answers["/admin/token/remove"] = (200, {"removed": "bob"})
    daemon.answers["/admin/tokens"] = (200, {"kept_in": "the variable", "tokens": []})
    assert run("token", "rotate").out == "new\n"
    assert run("token", "add", "bob", "--org", "home").out == "his\n"
    assert run("token", "remove", "bob").code == 0
    assert run("token", "list").err == "the main token is kept in the variable\n"
    asked = [path for path, _ in daemon.requests if not path.startswith("/identity")]
    assert asked == ["/admin/token/rotate", "/admin/token/add", "/admin/token/remove", "/admin/tokens"]
    assert place.keyring.tokens() == [token], "the command itself changed nothing"


def test_the_daemons_refusal_is_the_commands(run: Run, daemon: Honest) -> None:
    sentence = "The token comes from the environment variable MY_TOKEN; change it there and restart."
    daemon.answers["/admin/token/rotate"] = (409, {"error": "overridden", "message": sentence})
    assert run("token", "rotate") == Said(1, "", f"vault-sidecar: {sentence}\n")


def test_where_a_variable_holds_it_the_daemons_own_value_counts(
    run: Run, place: Place, daemon: Honest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.state / "config.toml").write_text('[http]\nbearer_token_env = "MY_TOKEN"\n')
    monkeypatch.setenv("MY_TOKEN", "another value, that the daemon was not started with")
    daemon.answers["/admin/token"] = (200, {"token": "x" * 40, "kept_in": "the environment variable MY_TOKEN"})
    assert run("token", "show").out == "x" * 40 + "\n"


def test_a_daemon_that_is_just_starting_is_waited_for(
    run: Run, place: Place, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the lock, and nothing answers yet."""
    monkeypatch.setattr(changes, "_PATIENCE_S", 60.0)
    said: list[Said] = []
    with lock.hold(place.state, "serve", identity.new_instance()):
        command = threading.Thread(target=lambda: said.append(run("token", "rotate")))
        command.start()
        with honest_daemon(place.state) as daemon:
            daemon.answers["/admin/token/rotate"] = (200, {"token": "new", "kept_in": "x", "revoked": []})
            command.join(60)
    assert [one.out for one in said] == ["new\n"]
    assert place.keyring.tokens() == [token]


def test_a_start_waits_for_a_command_that_holds_the_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_COMMAND_S", 60.0)
    held, go_on = threading.Event(), threading.Event()

    def command() -> None:
        with lock.hold(place.state, "command", identity.new_instance()):
            held.set()
            go_on.wait(60)

    thread = threading.Thread(target=command)
    thread.start()
    assert held.wait(60)
    threading.Timer(0.2, go_on.set).start()
    with lock.hold(place.state, "serve", "mine"):
        assert go_on.is_set()
    thread.join(60)
