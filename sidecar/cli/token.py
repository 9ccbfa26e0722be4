"""`token`: the key that clients must send, and keys with a name for single clients."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import check_injected
from sidecar.bridge.token_book import TokenBook
from sidecar.bridge.token_store import FileStore, InjectedToken, find_store, find_token, injected_by
from sidecar.cli import changes, where
from sidecar.cli.where import Where
from sidecar.errors import NotFound
from sidecar.vault.paths import printable

_NONE_YET = "this vault has no token yet; 'vault-sidecar serve' makes one at its first start"

Facts = dict[str, Any]


def run(args: Namespace) -> int:
    """Do `args.action`. A token is alone on stdout; what there is to say about it goes to stderr."""
    place = where.find(args)
    actions: dict[str, Callable[[Where, Namespace], tuple[Facts, list[str], str]]] = {
        "show": _show,
        "list": _list,
        "rotate": _rotate,
        "add": _add,
        "remove": _remove,
    }
    facts, lines, remark = actions[args.action](place, args)
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    for line in lines:
        print(printable(line))
    if remark:
        sys.stdout.flush()  # the remark belongs below
        print(printable(remark), file=sys.stderr)
    return 0


def read(place: Where) -> str:
    """The token that clients of this vault must send. Blocks.

    Raises:
        NotFound: the vault was never served, so there is none yet.
        BadConfig, Unreadable: it is kept where it can't be read.
    """
    return str(_facts(place)["token"])


def _facts(place: Where) -> Facts:
    """The token and its place, from that place itself.

    A variable is the exception: its value in the daemon's environment counts,
    and this command's may have another one or none.
    """
    variable = where.token_variable(place)
    if variable:
        try:
            with LocalClient(place.state_dir) as client:
                return client.get("/admin/token")
        except NotRunning:
            pass
    file, keyring, injected = _places(place, variable)
    token = find_token(file, keyring, injected)
    found = find_store(place.state_dir, file, keyring, injected)
    if token is None or found is None:
        raise NotFound(_NONE_YET)
    return {"token": token, "kept_in": found[0].place}


def _places(place: Where, variable: str | None) -> tuple[FileStore, KeyringStore, InjectedToken | None]:
    injected = InjectedToken(variable, check_injected(variable, os.environ.get(variable))) if variable else None
    return FileStore(place.state_dir, place.vault), KeyringStore(place.state_dir), injected


def _show(place: Where, args: Namespace) -> tuple[Facts, list[str], str]:
    facts = _facts(place)
    return facts, [facts["token"]], ""


def _list(place: Where, args: Namespace) -> tuple[Facts, list[str], str]:
    try:
        with LocalClient(place.state_dir) as client:
            facts = client.get("/admin/tokens")
    except NotRunning:
        facts = _book(place).listed()
    rows = [("AGENT", "ORG", "MADE"), *((row["agent"], row["org"], row["made"]) for row in facts["tokens"])]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"{agent:<{widths[0]}}  {org:<{widths[1]}}  {made}" for agent, org, made in rows]
    return facts, lines if facts["tokens"] else [], f"the main token is kept in {facts['kept_in']}"


def _rotate(place: Where, args: Namespace) -> tuple[Facts, list[str], str]:
    facts = _change(place, "/admin/token/rotate", lambda: _rotate_alone(place))
    revoked = f" Revoked as well: {', '.join(facts['revoked'])}." if facts["revoked"] else ""
    return facts, [facts["token"]], f"The old token is dead; every client needs this one.{revoked}"


def _add(place: Where, args: Namespace) -> tuple[Facts, list[str], str]:
    names = {"agent": args.agent, "org": args.org}
    facts = _change(place, "/admin/token/add", lambda: _book(place).add(**names), **names)
    return facts, [facts["token"]], f"This token of '{args.agent}' is kept nowhere and can't be shown again."


def _remove(place: Where, args: Namespace) -> tuple[Facts, list[str], str]:
    facts = _change(place, "/admin/token/remove", lambda: _book(place).remove(args.agent), agent=args.agent)
    return facts, [], f"the token of '{args.agent}' is dead"


def _rotate_alone(place: Where) -> Facts:
    variable = where.token_variable(place)
    if variable:
        raise injected_by(variable)  # whether or not this command's own environment has it
    return _book(place).rotate()


def _change(place: Where, path: str, alone: Callable[[], Facts], **body: str) -> Facts:
    if not place.state_dir.is_dir():
        raise NotFound(_NONE_YET)
    return changes.make(place, lambda client: client.post(path, **body), alone)


def _book(place: Where) -> TokenBook:
    """The tokens on disk.

    Raises:
        NotFound: the vault was never served, so there are none yet.
    """
    file, keyring, injected = _places(place, where.token_variable(place))
    found = find_store(place.state_dir, file, keyring, injected)
    if found is None:
        raise NotFound(_NONE_YET)
    store, main = found
    return TokenBook(place.state_dir, store, main)
