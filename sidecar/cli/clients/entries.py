"""The one entry that is ours in a client's file: found, named, and brought up to date.

Other entries are never changed. An entry is ours if it leads to this vault:
by the daemon's address, by the vault's token or one that it had, or by the vault's path in a command.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from sidecar.bridge.token import fingerprint, tokens_in
from sidecar.cli.clients import settings_file
from sidecar.cli.clients.broken import Broken
from sidecar.cli.clients.client import AUTHORIZATION, Client, Entry
from sidecar.errors import BadConfig

DEFAULT_NAME = "vault-sidecar"


@dataclass(frozen=True, slots=True)
class Mine:
    """What makes an entry this vault's."""

    vault: Path
    state_name: str
    """The name of the vault's state folder; its end tells vaults of one name apart."""
    port: int | None
    token: str | None
    former: Collection[str] = ()
    """Fingerprints of tokens that it had."""

    def __repr__(self) -> str:
        return f"Mine({self.vault.name})"

    def owns(self, entry: Any) -> bool:
        """Does the entry lead to this vault?"""
        texts = list(_texts(entry))
        bases = tuple(f"http://{host}:{self.port}/mcp" for host in ("127.0.0.1", "localhost"))
        by_address = self.port is not None and any(
            text == b or text.startswith(b + "/") for text in texts for b in bases
        )
        by_token = self.token is not None and any(self.token in text for text in texts)
        # once the port has changed as well, only the old token tells whose the entry was
        by_former = any(fingerprint(found) in self.former for text in texts for found in tokens_in(text))
        by_path = any(pair == ("--vault", str(self.vault)) for pair in pairwise(texts))
        return by_address or by_token or by_former or by_path


@dataclass(frozen=True, slots=True)
class Written:
    """What was done to a file. `backup` is None where nothing was there, or nothing changed."""

    name: str
    path: Path
    changed: bool
    backup: Path | None
    secret: bool
    """Does the file hold the key?"""


def servers_in(client: Client, text: str) -> dict[str, Any]:
    """The servers that the client's file names.

    Raises:
        Broken: the file can't be read, or something on the way to them is no object.
    """
    found: Any = editor(client).read(text)
    for key in client.at:
        if not isinstance(found, dict):
            raise Broken(f'"{key}" is expected in an object')
        found = cast("dict[str, Any]", found).get(key, {})
    if not isinstance(found, dict):
        raise Broken(f'"{client.at[-1]}" must be an object')
    return cast("dict[str, Any]", found)


def find(servers: Mapping[str, Any], mine: Mine, name: str | None) -> str | None:
    """The name of our entry, if there is one; `name` looks at that one alone."""
    names = [name] if name else [*_own_names(mine), *servers]
    return next((found for found in names if found in servers and mine.owns(servers[found])), None)


def choose_name(servers: Mapping[str, Any], mine: Mine, wanted: str | None) -> str:
    """What our entry is, or will be, called.

    Raises:
        BadConfig: all names that may be taken belong to other entries.
    """
    names = [wanted] if wanted else _own_names(mine)
    for name in names:
        if name in servers and mine.owns(servers[name]):
            return name
    for name in names:
        if name not in servers:
            return name
    taken = " and ".join(f"'{name}'" for name in names)
    raise BadConfig(f"{taken} is taken by an entry that doesn't lead to this vault; choose another with --name")


def brought_up_to_date(client: Client, old: Any, new: Entry) -> Entry:
    """`new`, with what the person added to our entry.

    What belongs to the other transport falls away. A token that the person
    keeps outside the file stays there.
    """
    if not isinstance(old, dict):
        return new
    kept = cast("Entry", old)
    if (client.url in kept) != (client.url in new):
        return {key: value for key, value in kept.items() if key not in client.keys_of_transports()} | new
    updated = kept | new
    if client.url in new and client.refers(kept):
        updated.pop(client.headers, None)
        return updated | {key: kept[key] for key in (client.headers, client.variable_key) if key and key in kept}
    if client.url in new:
        updated[client.headers] = _headers(kept.get(client.headers), new[client.headers])
    return updated


def write(client: Client, path: Path, mine: Mine, wanted: str | None, new: Entry) -> Written:
    """Enter `new` into the client's file, if it isn't there already. Blocks.

    Raises:
        BadConfig, Broken, Busy, Unreadable, TooLarge: nothing was written.
    """
    if client.locks:
        with settings_file.locked(path):
            return _write(client, path, mine, wanted, new)
    return _write(client, path, mine, wanted, new)


def editor(client: Client) -> ModuleType:
    """The module that reads and edits the client's syntax."""
    if client.syntax == "toml":
        from sidecar.cli.clients import toml_text  # its library is needed for one client only

        return toml_text
    from sidecar.cli.clients import jsonc

    return jsonc


def _write(client: Client, path: Path, mine: Mine, wanted: str | None, new: Entry) -> Written:
    file = settings_file.load(path)
    servers = servers_in(client, file.text)
    name = choose_name(servers, mine, wanted)
    entry = brought_up_to_date(client, servers.get(name), new)
    text: str = editor(client).put(file.text, (*client.at, name), entry)
    if servers_in(client, text) != servers | {name: entry}:
        raise Broken("the entry can't be made without changing others; add it by hand")
    secret = mine.token is not None and mine.token in text
    if text == file.text and file.content is not None:
        return Written(name, file.path, False, None, secret)
    if secret and file.path.is_relative_to(mine.vault):
        raise BadConfig(f"{file.path.name} lies in the vault, where the key would be synchronised; use --stdio")
    return Written(name, file.path, True, settings_file.save(file, text, secret=secret), secret)


def _headers(old: Any, new: Mapping[str, str]) -> dict[str, Any]:
    """The person's other headers, and ours."""
    others = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
    same = AUTHORIZATION.lower()
    return {name: text for name, text in others.items() if name == AUTHORIZATION or name.lower() != same} | {**new}


def _own_names(mine: Mine) -> Sequence[str]:
    plain = unicodedata.normalize("NFKD", mine.vault.name).encode("ascii", "ignore").decode()
    word = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-").lower()[:40]
    return [DEFAULT_NAME, f"{DEFAULT_NAME}-{word or mine.state_name.rpartition('-')[2]}"]


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)
