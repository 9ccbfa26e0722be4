"""`connect`: prints how a client is set up."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace

from sidecar.bridge import endpoint
from sidecar.cli import token, where
from sidecar.cli.where import Where
from sidecar.errors import NotFound


def run(args: Namespace) -> int:
    """Print the command with the key in it, then the same command with the key in a variable."""
    place = where.find(args)
    url = _url(place)
    key = token.read(place)
    add = f"claude mcp add --transport http {shlex.quote(args.name)} {url} --header "
    show = f"vault-sidecar token show --vault {shlex.quote(str(place.vault))}"
    if args.state:
        show += f" --state {shlex.quote(args.state)}"
    print(add + _quoted(f"Authorization: Bearer {key}"))
    print()
    print("# or, so that neither screen nor shell history keeps the key:")
    print(f'VAULT_SIDECAR_TOKEN="$({show})"')
    print(add + '"Authorization: Bearer $VAULT_SIDECAR_TOKEN"')
    sys.stdout.flush()  # the warning belongs below what it warns of
    print("The first command holds the key to your notes: don't paste it where others can read it.", file=sys.stderr)
    return 0


def _url(place: Where) -> str:
    """Where the daemon listens, or will listen when it is started again.

    Raises:
        NotFound: that is not settled before the daemon was started once.
    """
    published = endpoint.read(place.state_dir)
    port = published.port if published else where.load_config(place).http.port
    if not port:
        raise NotFound("this vault has no fixed port yet; start the daemon with 'vault-sidecar serve', then ask again")
    return f"http://127.0.0.1:{port}/mcp"


def _quoted(text: str) -> str:
    """In double quotes where that is safe in every shell, Windows' included; else in the quotes of a POSIX shell."""
    return f'"{text}"' if re.fullmatch(r"[A-Za-z0-9_.:/ -]*", text) else shlex.quote(text)
