"""A token in a keyring, and a keyring that fails while it is replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend

from sidecar.bridge import keyring_store, private_files
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import new_token
from sidecar.bridge.token_store import FileStore, open_token
from sidecar.errors import Unreadable
from tests.bridge.keyrings import Late, Memory, Refusing
from tests.lab import wait_until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    return folder


def started(state: Path, backend: KeyringBackend) -> str:
    """The token that a start with this keyring takes."""
    return open_token(FileStore(state, state.parent / "vault"), KeyringStore(state, backend))[0]


def settled() -> None:
    """Wait for the threads that were left behind."""
    for thread in threading.enumerate():
        if thread.name == "keyring":
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def late() -> Generator[Late]:
    backend = Late()
    yield backend
    backend.answered.set()
    settled()


def test_a_replaced_token_takes_an_entry_of_its_own_and_the_old_one_goes(state: Path) -> None:
    backend = Memory()
    old, new = started(state, backend), new_token()
    store = KeyringStore(state, backend)
    store.store(new)
    assert sorted(backend.tokens()) == sorted([old, new]), "the old one stays until the new one counts"
    assert store.load() == new
    store.tidy()
    assert backend.tokens() == [new]
    assert started(state, backend) == new


def test_an_entry_that_is_replaced_between_two_looks_is_found(state: Path) -> None:
    new = new_token()

    class Replaced(Memory):
        def get_password(self, service: str, username: str) -> str | None:
            if self.calls[-2:] == ["get", "delete"]:  # somebody else was quicker
                return super().get_password(service, username)
            other = KeyringStore(state, self.twin)
            other.store(new)
            other.tidy()
            return self.twin.get_password(service, username)

        twin = Memory()

    started(state, Replaced.twin)
    found = KeyringStore(state, Replaced()).load()
    assert found == new


def test_r07_a_write_that_fails_leaves_the_old_token(state: Path) -> None:
    backend = Refusing()
    old = started(state, backend)
    store = KeyringStore(state, backend)
    backend.refuses = True
    with pytest.raises(Unreadable, match="it is locked"):
        store.store(new_token())
    assert store.load() == old
    backend.refuses = False
    assert started(state, backend) == old


def test_r07_a_disk_that_refuses_leaves_the_old_token(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Memory()
    old = started(state, backend)

    def full(*_: object) -> None:
        raise Unreadable("token can't be written: No space left on device")

    monkeypatch.setattr(private_files, "write", full)
    with pytest.raises(Unreadable, match="No space left"):
        KeyringStore(state, backend).store(new_token())
    assert backend.tokens() == [old], "nothing is half-stored"
    assert started(state, backend) == old


def test_a_disk_that_fails_after_the_file_was_replaced_has_replaced_it(
    state: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what will be read next time counts: a token called refused must not be the valid one."""
    backend, new = Memory(), new_token()
    started(state, backend)

    def failing(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(private_files, "_sync_folder", failing)
    KeyringStore(state, backend).store(new)
    assert "a power cut now may bring the old one back" in caplog.text
    monkeypatch.undo()
    assert started(state, backend) == new


def test_r07_a_write_that_ends_after_its_time_is_taken_back(state: Path, late: Late) -> None:
    old = started(state, late)
    late.slow = True
    store = KeyringStore(state, late, limit_s=0.05)
    with pytest.raises(Unreadable, match=r"did not answer in 0.05 s"):
        store.store(new_token())
    assert started_while_slow(state, late) == old, "a start before it ends"
    late.answered.set()
    settled()
    assert late.tokens() == [old]
    assert started(state, late) == old, "a start after it ended"


def started_while_slow(state: Path, late: Late) -> str:
    """A start by another process, which only needs to read."""
    twin = Memory()
    twin.kept = dict(late.kept)
    return started(state, twin)


class NeverTakenBack(Late):
    """As if the process that asked had ended meanwhile."""

    def delete_password(self, service: str, username: str) -> None:
        pass


def end_late(state: Path, backend: Late) -> tuple[str, str]:
    """Store a token, wait in vain, and let the keyring do it afterwards: the token before, and the late one."""
    old, new = started(state, backend), new_token()
    backend.slow = True
    with pytest.raises(Unreadable, match="did not answer"):
        KeyringStore(state, backend, limit_s=0.05).store(new)
    backend.answered.set()
    settled()
    assert new in backend.tokens()
    return old, new


def test_r07_a_late_write_that_nobody_takes_back_wins_nothing(state: Path) -> None:
    backend = NeverTakenBack()
    old, _ = end_late(state, backend)
    assert started(state, backend) == old


def test_without_an_entry_of_its_own_a_late_write_would_win(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of R07."""
    monkeypatch.setattr(keyring_store, "fingerprint", lambda _: "0" * 32)
    backend = NeverTakenBack()
    _, new = end_late(state, backend)
    assert started(state, backend) == new


def test_a_first_start_that_waits_in_vain_takes_the_write_back_too(state: Path, late: Late) -> None:
    late.slow = True
    file = FileStore(state, state.parent / "vault")
    token, store = open_token(file, KeyringStore(state, late, limit_s=0.05))
    assert store is file
    late.answered.set()
    settled()
    assert late.tokens() == []
    assert started(state, late) == token


def test_while_one_question_is_unanswered_no_other_is_asked(state: Path, late: Late) -> None:
    """Else each try would leave one more thread behind."""
    started(state, late)
    settled()  # its thread may still be ending
    late.slow = True
    store = KeyringStore(state, late, limit_s=0.05)
    calls: list[Callable[[], object]] = [lambda: store.store(new_token()), store.load]
    for call, reason in zip(
        (calls[0], *calls * 3), ("did not answer", *["has not answered an earlier question yet"] * 6), strict=True
    ):
        with pytest.raises(Unreadable, match=reason):
            call()
    wait_until(lambda: sum(thread.name == "keyring" for thread in threading.enumerate()) == 1)
    late.answered.set()
    settled()
    store.store(new_token())
