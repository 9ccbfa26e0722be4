"""What a person pastes: the set-up of a client as text, with the key in it and without."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.cli.clients import entries
from sidecar.cli.clients.client import Client, Entry

_QUESTION = {
    "type": "promptString",
    "id": "vault-sidecar-token",
    "description": "The token of vault-sidecar ('vault-sidecar token show' prints it)",
    "password": True,
}


@dataclass(frozen=True, slots=True)
class Form:
    """One way to set a client up. `title` says when to take it; None for the first one."""

    title: str | None
    text: str
    secret: bool
    """Does the text hold the key?"""


def http_forms(client: Client, name: str, url: str, token: str, variable: str, show: str) -> list[Form]:
    """The form that is ready, and those that keep the key out of sight. `show` is the command that prints the token."""
    if client.name == "claude-code":
        return _claude_code(name, url, token, variable, show)
    forms = [Form(None, document(client, name, client.http_entry(url, token)), True)]
    secretless = client.secretless_entry(url, variable)
    if secretless and client.asks:
        title = "or, so that no file holds the key: VS Code asks for it once and keeps it"
        asking = {"inputs": [_QUESTION], client.at[0]: {name: secretless}}
        forms.append(Form(title, json.dumps(asking, ensure_ascii=False, indent=2) + "\n", False))
    elif secretless:
        title = (
            f"or, so that the file does not hold the key, where {client.title} is started with the variable set by\n"
        )
        title += f'#     export {variable}="$({show})"'
        forms.append(Form(title, document(client, name, secretless), False))
    return forms


def stdio_forms(client: Client, name: str, command: Sequence[str]) -> list[Form]:
    """The one form there is; it holds no key."""
    if client.name == "claude-code":
        return [Form(None, f"claude mcp add {name} -- {shlex.join(command)}\n", False)]
    return [Form(None, document(client, name, client.stdio_entry(command)), False)]


def document(client: Client, name: str, entry: Entry) -> str:
    """A whole file of the client with this entry alone."""
    text: str = entries.editor(client).render((*client.at, name), entry)
    return text


def _claude_code(name: str, url: str, token: str, variable: str, show: str) -> list[Form]:
    add = f"claude mcp add --transport http {name} {url} --header "
    by_shell = f'{variable}="$({show})"\n{add}"Authorization: Bearer ${variable}"\n'
    by_client = f"export {variable}=\"$({show})\"\n{add}'Authorization: Bearer ${{{variable}}}'\n"
    return [
        Form(None, add + _quoted(f"Authorization: Bearer {token}") + "\n", True),
        Form("or, so that neither screen nor shell history keeps the key:", by_shell, False),
        Form(
            "or, so that no file keeps it either, where Claude Code is started with the variable set:", by_client, False
        ),
    ]


def _quoted(text: str) -> str:
    """In double quotes where that is safe in every shell, Windows' included; else in the quotes of a POSIX shell."""
    return f'"{text}"' if re.fullmatch(r"[A-Za-z0-9_.:/ -]*", text) else shlex.quote(text)
