"""`connect CLIENT`: prints how a client is set up, or writes it into the client's file, or tries the connection.

Also for Claude Code the file is edited, though it has a command for that: the
command takes the key as an argument, where every process of the computer can read it.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.bridge import endpoint
from sidecar.cli import token, where
from sidecar.cli.clients import check_http, check_stdio, entries, settings_file
from sidecar.cli.clients.client import Http
from sidecar.cli.clients.entries import Written
from sidecar.cli.clients.known import CLIENTS
from sidecar.cli.clients.places import Machine
from sidecar.cli.clients.setup import Setup, transport_of
from sidecar.cli.clients.steps import Step
from sidecar.config import Secret
from sidecar.errors import BadConfig, NotFound, SidecarError, Unreadable
from sidecar.vault.paths import printable


@dataclass(frozen=True, slots=True)
class _Task:
    """What is to be set up, and what may be in the way."""

    setup: Setup
    fault: SidecarError | None
    """Why there is no key."""
    pinned: int | None
    """The port of each start; 0 where each takes another one, None before the first."""


def run(args: Namespace) -> int:
    """Print, write or check; the exit code is 1 if a step of the check failed."""
    task = _task(args)
    facts: dict[str, Any] = {"client": task.setup.client.name, "transport": task.setup.transport}
    if args.write:
        facts |= _write(task, quiet=args.json)
    elif not args.check:
        facts |= _print(task, quiet=args.json)
    ok = True
    if args.check:
        steps: list[dict[str, Any]] = []
        for step in _check(task, chosen=args.transport is not None):
            ok = step.ok
            steps.append({"step": step.name, "ok": ok, "says": step.says})
            if not args.json:
                print(printable(f"{'ok' if ok else 'FAILED':<8}{step.name:<9}{step.says}"), flush=True)
        facts |= {"ok": ok, "steps": steps}
    if args.json:
        print(json.dumps(facts, indent=2))
    return 0 if ok else 1


def _task(args: Namespace) -> _Task:
    client = CLIENTS[args.client]
    transport = transport_of(client, args.transport)
    if args.write and not client.writes:
        raise BadConfig(
            f"the file of {client.title} is not written by this command; without --write it prints what to paste"
        )
    place = where.find(args)
    published = endpoint.read(place.state_dir)
    pinned = where.load_config(place).http.port
    key, fault = None, None
    try:
        key = Secret(token.read(place))
    except SidecarError as error:  # a set-up by stdio needs none
        fault = error
    setup = Setup(
        client=client,
        place=place,
        machine=Machine(sys.platform, Path.home(), os.environ),
        root=where.named_root(args),
        name=args.name,
        transport=transport,
        port=published.port if published else pinned or None,
        key=key,
        variable=where.token_variable(place),
    )
    task = _Task(setup, fault, pinned)
    if transport == "http" and not args.check:
        _require_address(task)
    return task


def _require_address(task: _Task) -> None:
    """HTTP needs a port and a key.

    Raises:
        NotFound: they are not settled before the daemon was started once.
        SidecarError: the key can't be read.
    """
    if not task.setup.port:
        raise NotFound("this vault has no fixed port yet; start the daemon with 'vault-sidecar serve', then ask again")
    if task.fault is not None:
        raise task.fault


# print


def _print(task: _Task, *, quiet: bool) -> dict[str, Any]:
    setup, client = task.setup, task.setup.client
    file = client.file(setup.machine)
    name = setup.name_for_printing(file)
    forms = setup.forms(name)
    by_http = setup.transport == "http"
    secretless = client.secretless_entry(setup.url, setup.secret_variable) if by_http else None
    if not quiet:
        if client.name != "claude-code":
            print(f"# {client.title}: {setup.machine.shown(file)}")
        for number, form in enumerate(forms):
            if form.title:
                print(f"\n# {form.title}")
            print(form.text, end="")
            if number == 0 and form.secret:
                sys.stdout.flush()  # the warning belongs below what it warns of
                print(
                    "The text above holds the key to your notes: don't paste it where others can read it.",
                    file=sys.stderr,
                )
        _remarks(task)
    return {
        "name": name,
        "file": str(file),
        "at": list(client.at),
        "entry": setup.entry(),
        "secret": by_http,
        "entry_without_secret": secretless,
    }


def _remarks(task: _Task) -> None:
    """On stderr: what would make the set-up stop working later."""
    if task.setup.transport == "stdio":
        return
    if task.pinned == 0:
        print("This port holds for this run only; 'vault-sidecar port set N' pins one.", file=sys.stderr)
    elif task.pinned and task.setup.port != task.pinned:
        print(
            f"The daemon listens on {task.setup.port} in this run only; the vault's port is {task.pinned}.",
            file=sys.stderr,
        )


# write


def _write(task: _Task, *, quiet: bool) -> dict[str, Any]:
    client, machine = task.setup.client, task.setup.machine
    file = client.file(machine)
    if task.setup.transport == "http":
        _require_address(task)
        if task.pinned == 0:
            raise BadConfig(
                "this vault takes another port at each start; pin one with 'vault-sidecar port set N', or use --stdio"
            )
    try:
        written = entries.write(client, file, task.setup.mine, task.setup.name, task.setup.entry())
    except Unreadable as error:
        raise Unreadable(f"{machine.shown(file)}: {error}; nothing was changed") from error
    if not quiet:
        for line in _told(task, file, written):
            print(printable(line))
        _remarks(task)
    backup = str(written.backup) if written.backup else None
    return {"name": written.name, "file": str(file), "written": written.changed, "backup": backup}


def _told(task: _Task, file: Path, written: Written) -> Iterator[str]:
    client, machine = task.setup.client, task.setup.machine
    shown = machine.shown(file)
    if not written.changed:
        yield f"{shown} has the entry '{written.name}' already; nothing was changed"
        return
    yield f"{shown} now has the entry '{written.name}'"
    if file.resolve() != file.absolute() and file.is_symlink():
        yield f"that is a link; what was written is {machine.shown(written.path)}"
    if written.backup:
        yield f"as it was before, it is kept as {machine.shown(written.backup)}"
    if written.secret:
        yield "it holds the key to your notes, so only you can read it now; don't share it"
    yield f"{client.title} reads it at its next start"


# check


def _check(task: _Task, *, chosen: bool) -> Iterator[Step]:
    client = task.setup.client
    file = client.file(task.setup.machine)
    shown = task.setup.machine.shown(file)
    writing = f"'vault-sidecar connect {client.name} --write' sets it right"
    cure = writing if client.writes else f"put in what 'vault-sidecar connect {client.name}' prints"
    try:
        servers = entries.servers_in(client, settings_file.load(file).text)
    except Unreadable as error:
        yield Step("entry", False, f"{shown}: {error}; {client.title} can't read it either")
        return
    name = entries.find(servers, task.setup.mine, task.setup.name)
    entry = client.understood(servers[name], os.environ) if name else None
    if entry is None or (chosen and isinstance(entry, Http) != (task.setup.transport == "http")):
        try:
            if task.setup.transport == "http":
                _require_address(task)
        except SidecarError as error:
            yield Step("daemon", False, str(error))
            return
        yield Step("entry", True, f"none in {shown}; tried is what 'vault-sidecar connect {client.name}' prints")
        entry = client.understood(task.setup.entry(), os.environ)
    else:
        yield Step("entry", True, f"'{name}' in {shown}")
    key = task.setup.key.value if task.setup.key else None
    if isinstance(entry, Http):
        yield from check_http.steps(entry, task.setup.place.state_dir, cure, key)
    elif entry is not None:
        yield from check_stdio.steps(entry, task.setup.place.state_dir, os.environ, cure)
