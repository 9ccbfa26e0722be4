"""`knowledge list|show|remove|release|export`: the registry of skills and knowledge units, as its owner sees it."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sidecar.bridge.client import LocalClient
from sidecar.cli import changes, where
from sidecar.cli.changes import Facts
from sidecar.cli.where import Where
from sidecar.errors import NotFound
from sidecar.vault.paths import echo, printable

if TYPE_CHECKING:
    from sidecar.services.knowledge.store import Store

_ROOT = "/admin/knowledge"


def run(args: Namespace) -> int:
    """Do `args.action`."""
    place = where.find(args)
    match args.action:
        case "list":
            _list(place, as_json=args.json)
        case "show":
            _show(place, args.id, as_json=args.json)
        case "export":
            _export(place)
        case _:
            _change(place, args.action, args.id, as_json=args.json)
    return 0


def _list(place: Where, *, as_json: bool) -> None:
    facts: Facts = {"items": []}
    if place.state_dir.is_dir():
        facts = _ask(place, lambda client: client.get(_ROOT), lambda store: _owner().listed(store))
    if as_json:
        print(json.dumps(facts))
        return
    if not facts["items"]:
        print("the registry is empty")
    for item in facts["items"]:
        kept_out = "".join(
            f", {word}" for word, holds in (("held back", item["held"]), ("quarantined", item["quarantined"])) if holds
        )
        print(
            f"{item['id']}  {item['quality']:.2f}  {item['kind']:<15}  {item['visibility']:<7}"
            f"  {printable(item['contributor'])}  {printable(item['name'])} ({printable(item['domain'])}{kept_out})"
        )


def _show(place: Where, item_id: str, *, as_json: bool) -> None:
    """The content alone, as it is, on stdout, so that it can be sent to a file; the rest goes to stderr."""
    _refuse_if_new(place, item_id)
    facts = _ask(
        place, lambda client: client.post(f"{_ROOT}/show", id=item_id), lambda store: _owner().shown(store, item_id)
    )
    if as_json:
        print(json.dumps(facts))
        return
    content = facts["content"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode() + (b"" if text.endswith("\n") else b"\n"))
    sys.stdout.buffer.flush()
    for warning in facts["warnings"]:
        print(f"warning: {printable(warning)}", file=sys.stderr)
    for said in facts["judgments"]:
        verdict = "valid" if said["valid"] else "invalid"
        why = f": {printable(said['feedback'])}" if said["feedback"] else ""
        print(f"{printable(said['agent'])} finds it {verdict}{why}", file=sys.stderr)


def _change(place: Where, action: str, item_id: str, *, as_json: bool) -> None:
    _refuse_if_new(place, item_id)

    def alone(store: Store) -> Facts:
        if action == "remove":
            return _owner().removed(store, item_id)[0]
        return _owner().released(store, item_id)

    facts = _ask(place, lambda client: client.post(f"{_ROOT}/{action}", id=item_id), alone)
    if as_json:
        print(json.dumps(facts))
        return
    print(f"{action}d {item_id} ({printable(facts['name'])})", file=sys.stderr)


def _export(place: Where) -> None:
    """One item a line, with content and judgments."""
    after: int | None = 0 if place.state_dir.is_dir() else None
    while after is not None:
        start = after
        facts = _ask(
            place,
            lambda client: client.post(f"{_ROOT}/export", after=start),  # noqa: B023 - called before the next turn
            lambda store: _owner().exported(store, start),  # noqa: B023
        )
        for item in facts["items"]:
            print(json.dumps(item, ensure_ascii=False))
        after = facts["next"]


def _ask(place: Where, ask: Callable[[LocalClient], Facts], alone: Callable[[Store], Facts]) -> Facts:
    def with_store() -> Facts:
        from sidecar.services.knowledge.store import Store

        with closing(Store(place.state_dir)) as store:
            return json.loads(json.dumps(alone(store)))  # tuples become lists, as over HTTP

    return changes.make(place, ask, with_store)


def _owner() -> Any:
    from sidecar.services.knowledge import owner  # slower to import than most commands are

    return owner


def _refuse_if_new(place: Where, item_id: str) -> None:
    """No state folder is made for a vault that was never served."""
    if not place.state_dir.is_dir():
        raise NotFound(f"There is no skill or knowledge unit '{echo(item_id)}'; 'knowledge list' shows the ids.")
