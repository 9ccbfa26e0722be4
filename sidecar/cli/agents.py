"""`agents list|remote|runs|cancel|key`: the agents of the vault, their runs, and the keys of those they ask."""

from __future__ import annotations

import getpass
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar.bridge import private_files
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.bridge.places import check_vault
from sidecar.bridge.provider_keys import ProviderKeys
from sidecar.cli import changes, where
from sidecar.cli.where import Where
from sidecar.errors import BadArguments, NotFound
from sidecar.vault.paths import echo, printable

if TYPE_CHECKING:
    from sidecar.services.agents.listing import Listing

Facts = dict[str, Any]


def run(args: Namespace) -> int:
    """Do `args.action`."""
    place = where.find(args)
    actions: dict[str, Callable[[Where, Namespace], None]] = {
        "list": _list,
        "remote": _remote,
        "runs": _runs,
        "cancel": _cancel,
        "key": _key,
    }
    actions[args.action](place, args)
    return 0


def _list(place: Where, args: Namespace) -> None:
    try:
        with LocalClient(place.state_dir) as client:
            facts = client.get("/admin/agents")
    except NotRunning:
        with _open(place) as listing:
            facts = listing.facts()
    if args.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    if not facts["agents"]:
        print(printable(f"no agents; an agent is a note in the folder '{facts['folder']}'"))
    for agent in facts["agents"]:
        _print_agent(agent)


def _print_agent(agent: Facts) -> None:
    name = f"{agent['name']} {agent['emoji']}" if agent["emoji"] else agent["name"]
    remote = "clients may run it" if agent["remote"] else "remote invocation off"
    if agent["changed"]:
        remote += ", changed since you allowed it"
    state = f"can't run: {agent['problem']}" if agent["problem"] else remote
    print(printable(" · ".join(filter(None, (name, agent["model"], state, agent["path"])))))
    for hint in agent["hints"]:
        print(printable(f"    {hint}"))


def _remote(place: Where, args: Namespace) -> None:
    on = args.on == "on"
    if not place.state_dir.is_dir():
        check_vault(place.vault, home=Path.home())  # no state folder is made for a name that is misspelled
    private_files.make_folder(place.state_dir)

    def ask(client: LocalClient) -> Facts:
        return client.post("/admin/agents/remote", name=args.name, on=on)

    def alone() -> Facts:
        with _open(place) as listing:
            listing.set_remote(args.name, on)
            return listing.facts()

    facts = changes.make(place, ask, alone)
    if args.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    may = "clients may run it" if on else "clients can't run it"
    print(printable(f"{args.name}: {may}"), file=sys.stderr)


def _runs(place: Where, args: Namespace) -> None:
    try:
        with LocalClient(place.state_dir) as client:
            runs = client.get("/admin/agents/runs")["runs"]
    except NotRunning:
        from sidecar.services.agents.records import Records

        runs = [record.facts() for record in Records(place.state_dir).newest()]
    runs = runs[: args.limit]
    if args.json:
        print(json.dumps({"runs": runs}, indent=2, ensure_ascii=False))
        return
    if not runs:
        print("no agent has been run by a client yet")
    for record in runs:
        print(printable(_line_of(record)))


def _line_of(record: Facts) -> str:
    """Id, time, agent, what came of it, seconds and tokens, who asked, and for what."""
    took = f"{record['duration_ms'] / 1000:.1f} s" if record["duration_ms"] is not None else None
    usage = record["usage"]
    tokens = f"{sum(usage.values()):,} tokens" if usage else None
    asked = f"for {record['client'] or record['caller']}: {record['task'] or ''}"
    facts = (record["id"], record["started_at"], record["agent"] or "?", record["outcome"], took, tokens, asked)
    return "  ".join(filter(None, facts))


def _cancel(place: Where, args: Namespace) -> None:
    try:
        with LocalClient(place.state_dir) as client:
            facts = client.post("/admin/agents/cancel", id=args.id)
    except NotRunning:
        raise NotFound("no daemon serves this vault, so no agent is running") from None
    if args.json:
        print(json.dumps(facts))
        return
    print(f"cancelled {facts['id']}", file=sys.stderr)


def _key(place: Where, args: Namespace) -> None:
    providers = where.load_config(place).providers
    if args.name not in providers and not args.remove:
        there_are = f"there are {', '.join(providers)}" if providers else "there are none"
        raise NotFound(f"no provider '{echo(args.name)}' is set in config.toml; {there_are}")
    keys, shown = ProviderKeys(), echo(args.name)
    if args.remove:
        removed = keys.remove(args.name)
        print(f"{'removed' if removed else 'there was no'} key of '{shown}'", file=sys.stderr)
        return
    keys.store(args.name, _asked(shown))
    print(f"the key of '{shown}' is in the system's keyring", file=sys.stderr)
    if (variable := providers[args.name].key_env) is not None:
        print(f"but the settings name the variable {variable}, and that one is used", file=sys.stderr)


def _asked(provider: str) -> str:
    """A key that is typed unseen, or the first line of what is piped in. Never an argument: those anybody can list."""
    try:
        line = getpass.getpass(f"key of '{provider}': ") if sys.stdin.isatty() else sys.stdin.readline(4096)
    except EOFError:
        line = ""
    except UnicodeDecodeError:  # its text holds what was given
        raise BadArguments("a key has visible ASCII characters only") from None
    if not line.strip():
        raise BadArguments("no key was given")
    return line


@contextmanager
def _open(place: Where) -> Generator[Listing]:
    """The agents without a daemon."""
    from sidecar.index.look import Looker
    from sidecar.services.agents.opening import open_listing
    from sidecar.vault.jail import Jail

    config = where.load_config(place)
    jail = Jail(check_vault(place.vault, home=Path.home()), other_devices=config.notes.other_devices)
    try:
        looker = Looker(jail, max_note_bytes=0)
        looker.read_ignore_rules()
        yield open_listing(config, jail, place.state_dir, lambda path: looker.ignored.ignores(path, is_folder=False))
    finally:
        jail.close()
