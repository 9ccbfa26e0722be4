"""What the product knows of one client: where its entry stands, and how an entry is spelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from sidecar.cli.clients.places import Machine

Entry = dict[str, Any]

AUTHORIZATION = "Authorization"


@dataclass(frozen=True, slots=True)
class Http:
    """What an entry says of a server that is reached by HTTP. Header names are lower case, values as they are sent."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    missing: str | None = None
    """A variable that a header needs and that isn't set here."""
    asks: bool = False
    """The client asks the person for the token."""


@dataclass(frozen=True, slots=True)
class Stdio:
    """What an entry says of a server that the client starts."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Client:
    """One client. The texts are from its maker's documentation; README says which clients were run."""

    name: str
    title: str
    file: Callable[[Machine], Path]
    at: tuple[str, ...] = ("mcpServers",)
    """The way to the object whose members are the servers."""
    syntax: Literal["json", "toml"] = "json"
    http: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    """What every HTTP entry holds besides address and headers; None: it can't send a header to this computer."""
    stdio: Mapping[str, Any] = field(default_factory=dict[str, Any])
    url: str = "url"
    headers: str = "headers"
    in_one_list: bool = False
    """A command and its arguments are one list."""
    environment: str = "env"
    variable: str | None = None
    """How a header refers to the environment variable NAME."""
    variable_key: str | None = None
    """The key that names the variable, where that isn't done in a header."""
    asks: str | None = None
    """How a header refers to a text that the client asks the person for."""
    writes: bool = False
    """Does `connect --write` know its file well enough to change it?"""
    locks: bool = False
    """It locks its file while it writes, by a folder beside it."""

    def http_entry(self, url: str, token: str) -> Entry:
        """With the key in it."""
        assert self.http is not None
        return {**self.http, self.url: url, self.headers: {AUTHORIZATION: f"Bearer {token}"}}

    def secretless_entry(self, url: str, variable: str) -> Entry | None:
        """With the token left in an environment variable, or to a question; None where the client knows neither."""
        assert self.http is not None
        if self.variable_key:
            return {**self.http, self.url: url, self.variable_key: variable}
        reference = self.asks or (self.variable and self.variable.replace("NAME", variable))
        return self.http_entry(url, reference) if reference else None

    def stdio_entry(self, command: Sequence[str]) -> Entry:
        """A server that the client starts; it needs no key."""
        words = {"command": list(command)} if self.in_one_list else {"command": command[0], "args": list(command[1:])}
        return {**self.stdio, **words}

    def keys_of_transports(self) -> set[str]:
        """The keys by which an entry is of one transport or of the other."""
        own = {self.url, self.headers, *(self.http or {}), *self.stdio}
        return (
            own
            | {"type", "command", "args", "cwd", self.environment}
            | ({self.variable_key} if self.variable_key else set())
        )

    def refers(self, entry: Mapping[str, Any]) -> bool:
        """Does the entry leave the token somewhere else?"""
        bearer = _headers(entry.get(self.headers)).get(AUTHORIZATION.lower(), "")
        return bool(self.variable_key and entry.get(self.variable_key)) or bool(
            self._references().search(bearer) or (self.asks and self.asks in bearer)
        )

    def understood(self, entry: Mapping[str, Any], environ: Mapping[str, str]) -> Http | Stdio | None:
        """The entry as the client takes it, variables filled in; None if it is neither kind."""
        url, command = entry.get(self.url), entry.get("command")
        if isinstance(url, str):
            return self._http(url, entry, environ)
        words: list[Any] = cast("list[Any]", command) if isinstance(command, list) else [command]
        words += cast("list[Any]", entry.get("args") or [])
        if words and words[0] and all(isinstance(word, str) for word in words):
            return Stdio(tuple(words), _texts(entry.get(self.environment)))
        return None

    def _http(self, url: str, entry: Mapping[str, Any], environ: Mapping[str, str]) -> Http:
        headers = _headers(entry.get(self.headers))
        variable = entry.get(self.variable_key) if self.variable_key else None
        if isinstance(variable, str):
            headers[AUTHORIZATION.lower()] = f"Bearer {environ.get(variable, '')}"
            return Http(url, headers, None if environ.get(variable) else variable)
        missing: list[str] = []

        def value(found: re.Match[str]) -> str:
            name = found["name"]
            if not environ.get(name):
                missing.append(name)
            return environ.get(name, "")

        asks = self.asks is not None and any("${input:" in text for text in headers.values())
        filled = {name: self._references().sub(value, text) for name, text in headers.items()}
        return Http(url, filled, missing[0] if missing else None, asks)

    def _references(self) -> re.Pattern[str]:
        if self.variable is None:
            return re.compile(r"(?!)")
        return re.compile(re.escape(self.variable).replace("NAME", r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"))


def _headers(found: Any) -> dict[str, str]:
    return {name.lower(): text for name, text in _texts(found).items()}


def _texts(found: Any) -> dict[str, str]:
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return {name: text for name, text in members.items() if isinstance(text, str)}
