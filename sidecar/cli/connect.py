"""`connect CLIENT`: prints how a client is set up, or writes it into the client's file, or tries the connection.

Also for Claude Code the file is edited, though it has a command for that: the
command takes the key as an argument, where every process of the computer can read it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sidecar.bridge import endpoint
from sidecar.cli import token, where
from sidecar.cli.clients import check_http, check_stdio, entries, settings_file, snippets
from sidecar.cli.clients.client import Client, Entry, Http
from sidecar.cli.clients.entries import Mine, Written
from sidecar.cli.clients.known import CLIENTS
from sidecar.cli.clients.places import Machine
from sidecar.cli.clients.steps import Step
from sidecar.cli.where import Where
from sidecar.config import Secret
from sidecar.errors import BadConfig, NotFound, SidecarError, Unreadable
from sidecar.vault.paths import printable

_TOKEN_VARIABLE = "VAULT_SIDECAR_TOKEN"  # noqa: S105 - the name of a variable

Transport = Literal["http", "stdio"]


@dataclass(frozen=True, slots=True)
class _Task:
    """What is to be set up: which client, for which vault, and how.

    `port` and `key` are None before the first start, `pinned` is 0 where each start takes another port.
    """

    client: Client
    place: Where
    machine: Machine
    root: str | None
    """The state root, if the person named one."""
    name: str | None
    transport: Transport
    port: int | None
    key: Secret | None
    fault: SidecarError | None
    """Why there is no key."""
    pinned: int | None

    @property
    def mine(self) -> Mine:
        key = self.key.value if self.key else None
        return Mine(self.place.vault, self.place.state_dir.name, self.port, key)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def command(self) -> list[str]:
        """What a client starts. Whole paths: programs with windows don't have the PATH of a terminal."""
        return [*_program(), "mcp", "--vault", str(self.place.vault), *self._state()]

    @property
    def show(self) -> str:
        """The command that prints the token, wherever it is pasted."""
        return shlex.join(["vault-sidecar", "token", "show", "--vault", str(self.place.vault), *self._state()])

    def _state(self) -> list[str]:
        return ["--state", self.root] if self.root else []

    def entry(self) -> Entry:
        """With the key in it, where one is needed."""
        if self.transport == "stdio":
            return self.client.stdio_entry(self.command)
        return self.client.http_entry(self.url, self.token())

    def token(self) -> str:
        """The key, which is there once `_require_address` found no fault."""
        assert self.key is not None
        return self.key.value


def run(args: Namespace) -> int:
    """Print, write or check; the exit code is 1 if a step of the check failed."""
    task = _task(args)
    facts: dict[str, Any] = {"client": task.client.name, "transport": task.transport}
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
    if client.http is None and args.transport == "http":
        raise BadConfig(f"{client.title} can't send a header to this computer; it is set up with --stdio")
    if args.write and not client.writes:
        raise BadConfig(
            f"the file of {client.title} is not written by this command; without --write it prints what to paste"
        )
    transport: Transport = args.transport or ("stdio" if client.http is None else "http")
    place = where.find(args)
    root = args.state or os.environ.get("VAULT_SIDECAR_STATE")
    published = endpoint.read(place.state_dir)
    pinned = where.load_config(place).http.port
    key, fault = None, None
    try:
        key = Secret(token.read(place))
    except SidecarError as error:  # a set-up by stdio needs none
        fault = error
    task = _Task(
        client=client,
        place=place,
        machine=Machine(sys.platform, Path.home(), os.environ),
        root=str(where.state_root(args).absolute()) if root else None,
        name=args.name,
        transport=transport,
        port=published.port if published else pinned or None,
        key=key,
        fault=fault,
        pinned=pinned,
    )
    if transport == "http" and not args.check:
        _require_address(task)
    return task


def _require_address(task: _Task) -> None:
    """HTTP needs a port and a key.

    Raises:
        NotFound: they are not settled before the daemon was started once.
        SidecarError: the key can't be read.
    """
    if not task.port:
        raise NotFound("this vault has no fixed port yet; start the daemon with 'vault-sidecar serve', then ask again")
    if task.fault is not None:
        raise task.fault


def _program() -> list[str]:
    """The command `vault-sidecar` of this installation, else this Python with our package."""
    name = "vault-sidecar.exe" if sys.platform == "win32" else "vault-sidecar"
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which("vault-sidecar")
    return [found] if found else [sys.executable, "-m", "sidecar"]


# print


def _print(task: _Task, *, quiet: bool) -> dict[str, Any]:
    client = task.client
    file = client.file(task.machine)
    name = _name_for_printing(task, file)
    secretless: Entry | None = None
    if task.transport == "http":
        variable = where.token_variable(task.place) or _TOKEN_VARIABLE
        forms = snippets.http_forms(client, name, task.url, task.token(), variable, task.show)
        secretless = client.secretless_entry(task.url, variable)
    else:
        forms = snippets.stdio_forms(client, name, task.command)
    if not quiet:
        if client.name != "claude-code":
            print(f"# {client.title}: {task.machine.shown(file)}")
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
        "entry": task.entry(),
        "secret": task.transport == "http",
        "entry_without_secret": secretless,
    }


def _name_for_printing(task: _Task, file: Path) -> str:
    try:
        servers = entries.servers_in(task.client, settings_file.load(file).text)
        return entries.choose_name(servers, task.mine, task.name)
    except Unreadable:  # printing needs no file
        return task.name or entries.DEFAULT_NAME


def _remarks(task: _Task) -> None:
    """On stderr: what would make the set-up stop working later."""
    if task.transport == "stdio":
        return
    if task.pinned == 0:
        print("This port holds for this run only; 'vault-sidecar port set N' pins one.", file=sys.stderr)
    elif task.pinned and task.port != task.pinned:
        print(
            f"The daemon listens on {task.port} in this run only; the vault's port is {task.pinned}.", file=sys.stderr
        )


# write


def _write(task: _Task, *, quiet: bool) -> dict[str, Any]:
    client, machine = task.client, task.machine
    file = client.file(machine)
    if task.transport == "http":
        _require_address(task)
        if task.pinned == 0:
            raise BadConfig(
                "this vault takes another port at each start; pin one with 'vault-sidecar port set N', or use --stdio"
            )
    try:
        written = entries.write(client, file, task.mine, task.name, task.entry())
    except Unreadable as error:
        raise Unreadable(f"{machine.shown(file)}: {error}; nothing was changed") from error
    if not quiet:
        for line in _told(task, file, written):
            print(printable(line))
        _remarks(task)
    backup = str(written.backup) if written.backup else None
    return {"name": written.name, "file": str(file), "written": written.changed, "backup": backup}


def _told(task: _Task, file: Path, written: Written) -> Iterator[str]:
    client, machine = task.client, task.machine
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
    client = task.client
    file = client.file(task.machine)
    shown = task.machine.shown(file)
    writing = f"'vault-sidecar connect {client.name} --write' sets it right"
    cure = writing if client.writes else f"put in what 'vault-sidecar connect {client.name}' prints"
    try:
        servers = entries.servers_in(client, settings_file.load(file).text)
    except Unreadable as error:
        yield Step("entry", False, f"{shown}: {error}; {client.title} can't read it either")
        return
    name = entries.find(servers, task.mine, task.name)
    entry = client.understood(servers[name], os.environ) if name else None
    if entry is None or (chosen and isinstance(entry, Http) != (task.transport == "http")):
        try:
            if task.transport == "http":
                _require_address(task)
        except SidecarError as error:
            yield Step("daemon", False, str(error))
            return
        yield Step("entry", True, f"none in {shown}; tried is what 'vault-sidecar connect {client.name}' prints")
        entry = client.understood(task.entry(), os.environ)
    else:
        yield Step("entry", True, f"'{name}' in {shown}")
    key = task.key.value if task.key else None
    if isinstance(entry, Http):
        yield from check_http.steps(entry, task.place.state_dir, cure, key)
    elif entry is not None:
        yield from check_stdio.steps(entry, task.place.state_dir, os.environ, cure)
