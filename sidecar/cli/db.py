"""`db add|list|remove`: folders of documents that clients may search."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.bridge.places import check_vault
from sidecar.cli import changes, where
from sidecar.cli.databases import line_of
from sidecar.cli.where import Where
from sidecar.errors import BadArguments
from sidecar.services.database_registry import Entry, Registry, facts_of, no_database, remove_index
from sidecar.services.database_rules import Ground, name_of
from sidecar.vault.paths import printable


def run(args: Namespace) -> int:
    """List the databases, add one, or forget one."""
    place = where.find(args)
    match args.action:
        case "list":
            _list(place, as_json=args.json)
        case "add":
            _add(place, args.name, args.directory, as_json=args.json)
        case _:
            return _remove(place, args.name, sure=args.yes, as_json=args.json)
    return 0


def _facts(place: Where) -> changes.Facts:
    try:
        with LocalClient(place.state_dir) as client:
            return client.get("/admin/databases")
    except NotRunning:
        known = Registry(place.state_dir).entries()
        return {
            "databases": [{**facts_of(entry), "loaded": False, "problem": None} for entry in known],
            "databases_problem": None,
        }


def _list(place: Where, *, as_json: bool) -> None:
    facts = _facts(place)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    if facts["databases_problem"]:
        print(printable(facts["databases_problem"]), file=sys.stderr)
    if not facts["databases"]:
        print("no databases; 'vault-sidecar db add NAME FOLDER' adds one")
    for line in map(line_of, facts["databases"]):
        print(printable(line))


def _add(place: Where, name: str, folder: str, *, as_json: bool) -> None:
    if not place.state_dir.is_dir():
        check_vault(place.vault, home=Path.home())  # no state folder is made for a name that is misspelled
    private_files.make_folder(place.state_dir)
    full = _whole_path(folder)
    ground = Ground(place.state_dir, place.vault, Path.home())
    added = changes.make(
        place,
        lambda client: client.post("/admin/databases/add", name=name, folder=full),
        lambda: facts_of(Registry(place.state_dir).add(name, full, ground)),
    )
    if as_json:
        print(json.dumps(added, indent=2))
    else:
        print(f"'{added['db']}' was added; its files are made searchable while the daemon runs")


def _whole_path(folder: str) -> str:
    """As it was typed, but for where that is: the daemon has another present folder."""
    try:
        # nothing at all is a variable that is not set, and not the present folder
        return os.path.abspath(os.path.expanduser(folder)) if folder else ""
    except FileNotFoundError:  # the present folder was deleted
        return ""


def _remove(place: Where, name: str, *, sure: bool, as_json: bool) -> int:
    if not place.state_dir.is_dir():
        raise BadArguments(f"'{printable(name)}' does not exist; this vault has no databases.")
    if not sure:
        if name_of(name) not in {entry["db"] for entry in _facts(place)["databases"]}:
            raise no_database(name_of(name))
        if not _agreed(name_of(name)):
            print("nothing was changed", file=sys.stderr)
            return 1

    def alone() -> changes.Facts:
        entry: Entry = Registry(place.state_dir).remove(name)
        remove_index(place.state_dir, entry)
        return facts_of(entry)

    gone = changes.make(place, lambda client: client.post("/admin/databases/remove", name=name), alone)
    if as_json:
        print(json.dumps(gone, indent=2))
    else:
        print(f"'{gone['db']}' and its index were removed; its files are as they were")
    return 0


def _agreed(name: str) -> bool:
    if not sys.stdin.isatty():
        raise BadArguments("add --yes to remove a database where nobody can be asked.")
    print(f"Remove '{printable(name)}' and its index? Its files stay as they are. [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
