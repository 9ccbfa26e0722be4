"""Keyrings of every temper, each a real backend of the keyring library."""

from __future__ import annotations

import threading

from keyring.backend import KeyringBackend
from keyring.errors import InitError, KeyringLocked


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


class Locked(Memory):
    """The person dismissed the prompt."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("user said no to s3cr3t prompt")

    set_password = get_password  # type: ignore[assignment] - it raises before it could differ


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
