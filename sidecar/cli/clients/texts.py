"""The set-up of a client as texts for another program to show and copy: the same words that `connect` prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from sidecar.cli.clients.client import Client
from sidecar.cli.clients.known import CLIENTS
from sidecar.cli.clients.places import Machine
from sidecar.cli.clients.setup import Setup, Transport, transport_of
from sidecar.cli.where import Where
from sidecar.config import Secret
from sidecar.errors import BadArguments, BadConfig, NotFound
from sidecar.vault.paths import echo

_MASK: Final = "<token>"

_OTHERS: Final[Mapping[str, tuple[Client, Transport]]] = {
    "mcp-json": (Client("mcp-json", "Other clients, by HTTP", lambda _: Path()), "http"),
    "stdio-json": (Client("stdio-json", "Other clients, as a program that they start", lambda _: Path()), "stdio"),
}
"""The form that most clients' files have."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Of one running daemon."""

    place: Where
    root: str | None
    """The state root, if one was named."""
    port: int
    variable: str | None
    """The environment variable that the daemon takes its token from, if there is one."""

    def clients(self) -> list[dict[str, Any]]:
        """Each client's name, its title, and how it can be connected."""
        known = [
            {
                "client": client.name,
                "title": client.title,
                "transports": ["stdio"] if client.http is None else ["http", "stdio"],
            }
            for client in CLIENTS.values()
        ]
        others = [
            {"client": name, "title": client.title, "transports": [transport]}
            for name, (client, transport) in _OTHERS.items()
        ]
        return [*known, *others]

    def texts(self, name: str, wanted: str | None, token: str) -> dict[str, Any]:
        """The forms for one client, each as it is and with the token masked. Blocks.

        Raises:
            NotFound: there is no such client.
            BadArguments: it can't be connected that way.
        """
        client, transport = self._chosen(name, cast("Transport | None", wanted))
        setup = Setup(
            client=client,
            place=self.place,
            machine=Machine(sys.platform, Path.home(), os.environ),
            root=self.root,
            name=None,
            transport=transport,
            port=self.port,
            key=Secret(token),
            variable=self.variable,
        )
        file = None if name in _OTHERS else client.file(setup.machine)
        called = setup.name_for_printing(file)
        forms = [
            {
                "title": form.title,
                # without the last line end, which would run a command as soon as it is pasted
                "text": form.text.rstrip("\n"),
                "masked": form.text.rstrip("\n").replace(token, _MASK),
                "secret": form.secret,
            }
            for form in setup.forms(called)
        ]
        goes_into = None if client.name == "claude-code" else file  # its form is a command for a terminal
        return {
            "client": name,
            "title": client.title,
            "transport": transport,
            "name": called,
            "file": setup.machine.shown(goes_into) if goes_into else None,
            "forms": forms,
        }

    def _chosen(self, name: str, wanted: Transport | None) -> tuple[Client, Transport]:
        if name in _OTHERS:
            client, transport = _OTHERS[name]
            if wanted not in (None, transport):
                raise BadArguments(f"transport: must be {transport} for {name}")
            return client, transport
        client = CLIENTS.get(name)
        if client is None:
            raise NotFound(f"there is no client '{echo(name)}'; there are {', '.join([*CLIENTS, *_OTHERS])}")
        try:
            return client, transport_of(client, wanted)
        except BadConfig as error:
            raise BadArguments(f"transport: {error}") from None
