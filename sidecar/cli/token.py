"""`token show`: the key that clients must send, from where it is kept."""

from __future__ import annotations

import json
import os
from argparse import Namespace

from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import check_injected
from sidecar.bridge.token_store import FileStore, InjectedToken, find_token
from sidecar.cli import where
from sidecar.cli.where import Where
from sidecar.errors import NotFound


def run(args: Namespace) -> int:
    """Print the token, alone on its line."""
    token = read(where.find(args))
    print(json.dumps({"token": token}) if args.json else token)
    return 0


def read(place: Where) -> str:
    """The token that clients of this vault must send. Blocks.

    Raises:
        NotFound: the vault was never served, so there is none yet.
        BadConfig, Unreadable: it is kept where it can't be read.
    """
    variable = where.token_variable(place)
    injected = InjectedToken(variable, check_injected(variable, os.environ.get(variable))) if variable else None
    token = find_token(FileStore(place.state_dir, place.vault), KeyringStore(place.state_dir), injected)
    if token is None:
        raise NotFound("this vault has no token yet; 'vault-sidecar serve' makes one at its first start")
    return token
