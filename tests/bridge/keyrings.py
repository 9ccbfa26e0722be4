"""Keyrings of every temper, each a real backend of the keyring library."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import InitError, KeyringLocked, PasswordDeleteError


class Memory(KeyringBackend):
    """Works; `calls` says what was asked of it."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.calls: list[str] = []

    def get_password(self, service: str, username: str) -> str | None:
        self.calls.append("get")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.calls.append("set")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self.calls.append("delete")
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("no such entry")

    def tokens(self) -> list[str]:
        """What is kept, whatever it is kept under."""
        return list(self.kept.values())


class Locked(Memory):
    """The person dismissed the prompt."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("user said no to s3cr3t prompt")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked("user said no to s3cr3t prompt")


class Broken(Memory):
    """Fails to start."""

    def get_password(self, service: str, username: str) -> str | None:
        raise InitError("no bus")


class Crashing(Memory):
    """Raises what no keyring should."""

    def get_password(self, service: str, username: str) -> str | None:
        raise ZeroDivisionError("s3cr3t")


class Deaf(Memory):
    """Reads, but refuses to store."""

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked("read only")


class Hanging(Memory):
    """Waits at a prompt that nobody answers, until the test ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.answered.wait()
        return super().get_password(service, username)


class Late(Memory):
    """While `slow`, each write waits for the test, and is done after nobody waits for it any more."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.answered = threading.Event()

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.slow:
            self.answered.wait()
        super().set_password(service, username, password)


class Refusing(Memory):
    """While `refuses`, each write fails half-way: what was there is gone or spoiled."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = False

    def set_password(self, service: str, username: str, password: str) -> None:
        super().set_password(service, username, password[: 10 if self.refuses else None])
        if self.refuses:
            raise KeyringLocked("half-way")


class OnDisk(KeyringBackend):
    """Keeps its entries in a file, the one that `TEST_KEYRING` names by default, for tests with several processes."""

    priority = 1.0

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self._given = path

    @property
    def _path(self) -> Path:
        return self._given or Path(os.environ["TEST_KEYRING"])

    def get_password(self, service: str, username: str) -> str | None:
        return self._entries().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._keep(self._entries() | {f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        entries = self._entries()
        del entries[f"{service} {username}"]
        self._keep(entries)

    def _entries(self) -> dict[str, str]:
        return json.loads(self._path.read_text()) if self._path.exists() else {}

    def _keep(self, entries: dict[str, str]) -> None:
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(entries))
        temporary.rename(self._path)
