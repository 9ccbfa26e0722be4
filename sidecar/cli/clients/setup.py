"""How one client is set up for one vault: the facts that every form of it is made from."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sidecar.bridge import former_tokens
from sidecar.cli.clients import entries, settings_file, snippets
from sidecar.cli.clients.client import Client, Entry
from sidecar.cli.clients.entries import Mine
from sidecar.cli.clients.places import Machine
from sidecar.cli.clients.snippets import Form
from sidecar.cli.where import Where
from sidecar.config import Secret
from sidecar.errors import BadConfig, Unreadable

Transport = Literal["http", "stdio"]

_TOKEN_VARIABLE = "VAULT_SIDECAR_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class Setup:
    """Which client, for which vault, and how. `port` and `key` are None where the vault has none yet."""

    client: Client
    place: Where
    machine: Machine
    root: str | None
    """The state root, if one was named."""
    name: str | None
    """What the client should call the vault, if somebody said so."""
    transport: Transport
    port: int | None
    key: Secret | None
    variable: str | None = None
    """The environment variable that the daemon takes its token from, if there is one."""

    @property
    def mine(self) -> Mine:
        """By what an entry of ours is known. Blocks for a moment."""
        token = self.key.value if self.key else None
        former = former_tokens.read(self.place.state_dir)
        return Mine(self.place.vault, self.place.state_dir.name, self.port, token, former)

    @property
    def url(self) -> str:
        """Of the daemon, for MCP."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def command(self) -> list[str]:
        """What a client starts. Whole paths: programs with windows don't have the PATH of a terminal."""
        return [*_program(), "mcp", "--vault", str(self.place.vault), *self._state()]

    @property
    def show(self) -> str:
        """The command that prints the token, wherever it is pasted."""
        return shlex.join(["vault-sidecar", "token", "show", "--vault", str(self.place.vault), *self._state()])

    @property
    def secret_variable(self) -> str:
        """The variable that a form without the key takes it from."""
        return self.variable or _TOKEN_VARIABLE

    def token(self) -> str:
        """The key, where there is one."""
        assert self.key is not None
        return self.key.value

    def entry(self) -> Entry:
        """With the key in it, where one is needed."""
        if self.transport == "stdio":
            return self.client.stdio_entry(self.command)
        return self.client.http_entry(self.url, self.token())

    def name_for_printing(self, file: Path | None) -> str:
        """What the client will call the vault: not the name of another server in its file. Blocks."""
        if file is None:
            return self.name or entries.DEFAULT_NAME
        try:
            servers = entries.servers_in(self.client, settings_file.load(file).text)
            return entries.choose_name(servers, self.mine, self.name)
        except Unreadable:  # printing needs no file
            return self.name or entries.DEFAULT_NAME

    def forms(self, name: str) -> Sequence[Form]:
        """What a person pastes: the form that is ready first."""
        if self.transport == "stdio":
            return snippets.stdio_forms(self.client, name, self.command)
        return snippets.http_forms(self.client, name, self.url, self.token(), self.secret_variable, self.show)

    def _state(self) -> list[str]:
        return ["--state", self.root] if self.root else []


def transport_of(client: Client, wanted: Transport | None) -> Transport:
    """How the client is connected: as wanted, else by HTTP where it can.

    Raises:
        BadConfig: it can't, as wanted.
    """
    if client.http is None and wanted == "http":
        raise BadConfig(f"{client.title} can't send a header to this computer; it is set up with --stdio")
    return wanted or ("stdio" if client.http is None else "http")


def _program() -> list[str]:
    """The command `vault-sidecar` of this installation, else this Python with our package."""
    name = "vault-sidecar.exe" if sys.platform == "win32" else "vault-sidecar"
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which("vault-sidecar")
    return [found] if found else [sys.executable, "-m", "sidecar"]
