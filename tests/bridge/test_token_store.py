"""Where the token is kept, which place wins, and what a bad keyring can't break."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null

from sidecar.bridge import keyring_store
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.patient_keyring import LIMIT_S
from sidecar.bridge.token import is_token, new_token
from sidecar.bridge.token_store import FileStore, InjectedToken, find_token, open_token
from sidecar.errors import BadConfig, Overridden, Unreadable
from tests.bridge.keyrings import Broken, Crashing, Deaf, Hanging, Locked, Memory


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    return folder


@pytest.fixture
def file(tmp_path: Path, state: Path) -> FileStore:
    return FileStore(state, tmp_path / "vault")


@pytest.fixture
def hanging() -> Generator[Hanging]:
    backend = Hanging()
    yield backend
    backend.answered.set()
    for thread in threading.enumerate():
        if thread.name == "keyring":
            thread.join()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of the bridge; others may write into the log, too."""
    ours = [record for record in caplog.records if record.name.startswith("sidecar.bridge.")]
    return [record.getMessage() for record in ours if record.levelno >= logging.WARNING]


def test_a_new_vault_gets_a_token_in_the_keyring_and_keeps_it(
    state: Path, file: FileStore, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Memory()
    token, store = open_token(file, KeyringStore(state, backend))
    assert is_token(token)
    assert store.load() == token
    assert open_token(file, KeyringStore(state, backend))[0] == token
    assert find_token(file, KeyringStore(state, backend)) == token
    assert os.listdir(state) == ["token"]
    assert token not in (state / "token").read_text(), "the file only says which entry of the keyring it is"
    assert warnings(caplog) == []


def test_two_state_folders_have_two_tokens(tmp_path: Path, state: Path, file: FileStore) -> None:
    backend = Memory()
    other = tmp_path / "other"
    other.mkdir()
    token = open_token(file, KeyringStore(state, backend))[0]
    assert open_token(FileStore(other, tmp_path / "vault"), KeyringStore(other, backend))[0] != token


BAD = [
    pytest.param(fail.Keyring, "this system has none", id="D18-no-backend"),
    pytest.param(Locked, "it is locked", id="D19-locked"),
    pytest.param(Broken, "it could not be started", id="D19-init-fails"),
    pytest.param(null.Keyring, "it did not keep what was stored in it", id="D20-null"),
    pytest.param(Crashing, "ZeroDivisionError", id="D20-raises"),
    pytest.param(Deaf, "it is locked", id="reads-only"),
]


@pytest.mark.parametrize(("backend", "reason"), BAD)
def test_a_keyring_that_fails_is_replaced_by_a_private_file_with_one_warning(
    state: Path,
    file: FileStore,
    caplog: pytest.LogCaptureFixture,
    backend: Callable[[], KeyringBackend],
    reason: str,
) -> None:
    token, store = open_token(file, KeyringStore(state, backend()))
    assert is_token(token)
    assert store is file
    assert (state / "token").read_text().strip() == token
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert warnings(caplog) == [
        f"the system's keyring can't be used: {reason}; the token is kept in a file of mode 0600 in the state folder"
    ]
    assert "s3cr3t" not in caplog.text
    assert open_token(file, KeyringStore(state, backend()))[0] == token, "the file's token stays"


def test_a_keyring_that_hangs_is_given_up_and_leaves_no_waiting_process(
    state: Path, file: FileStore, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    """D19."""
    token, store = open_token(file, KeyringStore(state, hanging, limit_s=0.05))
    assert (store, file.load()) == (file, token)
    assert len(warnings(caplog)) == 1
    assert "did not answer in 0.05 s" in warnings(caplog)[0]
    waiting = [thread for thread in threading.enumerate() if thread.name == "keyring"]
    assert waiting, "it still waits"
    assert all(thread.daemon for thread in waiting), "the end of the process would wait for it"


def test_the_time_limit_leaves_a_start_within_five_seconds() -> None:
    """D19: one limited call is all that a start makes."""
    assert LIMIT_S < 5


def test_a_start_makes_one_limited_call_to_the_keyring(
    state: Path, file: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    real = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    open_token(file, KeyringStore(state, Memory()))
    assert started == ["keyring"]


def test_a_keyring_library_that_cannot_be_set_up_is_a_failed_keyring(
    state: Path, file: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D20: raises on load."""

    def raising() -> KeyringBackend:
        raise RuntimeError("PYTHON_KEYRING_BACKEND names nothing")

    monkeypatch.setattr(keyring, "get_keyring", raising)
    assert open_token(file, KeyringStore(state))[1] is file


def test_the_system_s_own_keyring_is_asked_where_none_is_given(
    state: Path, file: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Memory()
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
    token, _ = open_token(file, KeyringStore(state))
    assert backend.tokens() == [token]


def test_without_reading_back_a_forgetful_keyring_would_be_believed(state: Path) -> None:
    """Control of D20: storing in it raises nothing by itself."""
    backend = null.Keyring()
    backend.set_password("vault-sidecar", str(state), "x")
    with pytest.raises(Unreadable, match="did not keep"):
        KeyringStore(state, backend).store("x")
    assert os.listdir(state) == []


def test_d21_the_file_wins_over_the_keyring_which_is_then_repaired(state: Path, file: FileStore) -> None:
    """The keyring's token may have been rotated away while it could not be reached."""
    backend = Memory()
    old = open_token(file, KeyringStore(state, backend))[0]
    new = new_token()
    file.store(new)
    assert find_token(file, KeyringStore(state, backend)) == new
    token, store = open_token(file, KeyringStore(state, backend))
    assert token == new != old
    assert isinstance(store, KeyringStore)
    assert new in backend.tokens()
    assert new not in (state / "token").read_text(), "it left the file once the keyring was sure to hold it"
    assert open_token(file, KeyringStore(state, backend))[0] == new


def test_d21_what_else_a_keyring_holds_is_not_believed(
    state: Path, file: FileStore, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Memory()
    old = open_token(file, KeyringStore(state, backend))[0]
    foreign = new_token()
    backend.kept = dict.fromkeys(backend.kept, foreign)
    token = open_token(file, KeyringStore(state, backend))[0]
    assert token not in (old, foreign)
    assert warnings(caplog) == ["what the system's keyring holds is not what was stored there; it is not used"]
    assert open_token(file, KeyringStore(state, backend))[0] == token, "the keyring was repaired"


def test_without_the_fingerprint_a_foreign_token_would_be_believed(
    state: Path, file: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of D21."""
    monkeypatch.setattr(keyring_store, "fingerprint", lambda _: "0" * 32)
    backend = Memory()
    open_token(file, KeyringStore(state, backend))
    foreign = new_token()
    backend.kept = dict.fromkeys(backend.kept, foreign)
    assert open_token(file, KeyringStore(state, backend))[0] == foreign


def test_the_token_of_a_keyring_that_is_locked_later_is_replaced_by_one_in_the_file(
    state: Path, file: FileStore, caplog: pytest.LogCaptureFixture
) -> None:
    old = open_token(file, KeyringStore(state, Memory()))[0]
    token, store = open_token(file, KeyringStore(state, Locked()))
    assert (store, file.load()) == (file, token)
    assert token != old
    assert len(warnings(caplog)) == 1
    backend = Memory()
    assert open_token(file, KeyringStore(state, backend))[0] == token, "clients were told this one"
    assert backend.tokens() == [token]


@pytest.mark.parametrize("damaged", ["", "vsc_half", new_token()[:-1], "\x00"])
def test_a_damaged_token_is_replaced_with_a_warning_that_does_not_tell_it(
    state: Path, file: FileStore, caplog: pytest.LogCaptureFixture, damaged: str
) -> None:
    backend = Memory()
    for place in (KeyringStore(state, backend), file):
        place.store(damaged)
        assert find_token(file, KeyringStore(state, backend)) is None
        token, _ = open_token(file, KeyringStore(state, backend))
        assert is_token(token)
        assert open_token(file, KeyringStore(state, backend))[0] == token
        assert "damaged" in caplog.text
        assert not damaged or damaged not in caplog.text
        caplog.clear()


def test_a_token_file_that_is_a_link_is_refused(tmp_path: Path, state: Path, file: FileStore) -> None:
    """L07: neither believed nor overwritten."""
    target = tmp_path / "elsewhere"
    target.write_text(new_token())
    target.chmod(0o600)
    (state / "token").symlink_to(target)
    before = target.read_text()
    with pytest.raises(Unreadable, match="token is a link"):
        open_token(file, KeyringStore(state, Memory()))
    assert target.read_text() == before


def test_a_token_file_found_open_to_others_is_closed_with_a_warning(
    state: Path, file: FileStore, caplog: pytest.LogCaptureFixture
) -> None:
    """L06."""
    token = new_token()
    file.store(token)
    (state / "token").chmod(0o644)
    assert open_token(file, KeyringStore(state, fail.Keyring()))[0] == token
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert "could be read by other users" in caplog.text


@pytest.mark.parametrize("inside", ["", ".state", "deep/er/state"])
def test_a_token_file_inside_the_vault_is_refused(tmp_path: Path, inside: str) -> None:
    """L08."""
    vault = tmp_path / "vault"
    (vault / inside).mkdir(parents=True)
    with pytest.raises(BadConfig, match="must not lie in the vault"):
        FileStore(vault / inside, vault)
    (tmp_path / "link").symlink_to(vault, target_is_directory=True)
    with pytest.raises(BadConfig, match="must not lie in the vault"):
        FileStore(tmp_path / "link" / inside, vault)
    assert not (tmp_path / "link" / inside / "token").exists()


def test_a_neighbour_of_the_vault_with_a_longer_name_is_outside(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    FileStore(tmp_path / "vault-state", tmp_path / "vault")


def test_an_injected_token_comes_first_and_cannot_be_changed(state: Path, file: FileStore) -> None:
    file.store(new_token())
    injected = InjectedToken("MY_TOKEN", "x" * 40)
    backend = Memory()
    assert open_token(file, KeyringStore(state, backend), injected) == ("x" * 40, injected)
    assert find_token(file, KeyringStore(state, backend), injected) == "x" * 40
    assert backend.calls == [], "nothing is asked or stored"
    with pytest.raises(Overridden) as refused:
        injected.store(new_token())
    assert str(refused.value) == (
        "The token comes from the environment variable MY_TOKEN; change it there and restart."
    )


def test_looking_for_a_token_makes_none(state: Path, file: FileStore) -> None:
    backend = Memory()
    assert find_token(file, KeyringStore(state, backend)) is None
    assert backend.kept == {}
    assert os.listdir(state) == []
