"""Where the token is kept, and which place wins.

1. The environment variable that `[http] bearer_token_env` names, if it names one.
2. Else the token file in the state folder, if there is one. It exists only
   where the keyring failed at some time, and then it is what clients were last
   told: a token that the keyring still remembers may have been rotated away
   since. The keyring, once it works, is given the file's token and the file is
   deleted.
3. Else the system's keyring.
4. Else a new token is made and kept in the keyring, or in the file if the
   keyring fails.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from sidecar.bridge import private_files
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.places import refuse_inside
from sidecar.bridge.token import is_token, new_token
from sidecar.errors import BadConfig, Unreadable

logger = logging.getLogger(__name__)

TOKEN_FILE = "token"  # noqa: S105 - a file's name


class TokenStore(Protocol):
    """One place where a token is kept. Its methods block."""

    @property
    def place(self) -> str:
        """The place in words, for people."""
        ...

    def load(self) -> str | None:
        """The token kept here, or None. Raises Unreadable where the place can't say."""
        ...

    def store(self, token: str) -> None:
        """Keep another token, for sure, or raise and leave the old one."""
        ...


class InjectedToken:
    """The token from an environment variable; it can't be changed from inside."""

    def __init__(self, variable: str, token: str) -> None:
        self._variable = variable
        self._token = token

    @property
    def place(self) -> str:
        """The variable."""
        return f"the environment variable {self._variable}"

    def load(self) -> str:
        """The variable's value at the start."""
        return self._token

    def store(self, token: str) -> None:
        """Always refused.

        Raises:
            BadConfig: says where to change it.
        """
        raise BadConfig(f"The token comes from {self.place}; change it there and restart.")


class FileStore:
    """A file of mode 0600 in the state folder, which must lie outside the vault."""

    place = "a file of mode 0600 in the state folder"

    def __init__(self, state_dir: Path, vault: Path) -> None:
        refuse_inside(state_dir, vault)
        self._path = state_dir / TOKEN_FILE

    def load(self) -> str | None:
        """The file's token.

        Raises:
            Unreadable: the file can't be believed, by the rule of `private_files`.
        """
        content = private_files.read(self._path, max_bytes=1 << 12)
        return content.decode("ascii", "replace").strip() if content is not None else None

    def store(self, token: str) -> None:
        """Write the file as a whole.

        Raises:
            Unreadable: the disk refused.
        """
        private_files.write(self._path, token.encode() + b"\n")

    def clear(self) -> None:
        """Delete the file.

        Raises:
            Unreadable: the disk refused.
        """
        private_files.remove(self._path)


def open_token(file: FileStore, keyring: KeyringStore, injected: InjectedToken | None = None) -> tuple[str, TokenStore]:
    """The token that is valid from now on, made if there is none, and the place that keeps it. Blocks.

    A damaged token is as good as none: nobody could come in with it.

    Raises:
        Unreadable: the token file can't be believed, or can't be written.
    """
    if injected is not None:
        return injected.load(), injected
    kept = _whole(file.load(), file.place)
    try:
        token = keyring.settle(lambda found: kept or _whole(found, keyring.place) or new_token())
    except Unreadable as error:
        token = kept or new_token()
        if not kept:
            file.store(token)
        logger.warning("%s; the token is kept in %s", error, file.place)
        return token, file
    file.clear()
    return token, keyring


def find_token(file: FileStore, keyring: KeyringStore, injected: InjectedToken | None = None) -> str | None:
    """The token that the daemon uses, or would use if it started now; None if it would make one. Blocks.

    Raises:
        Unreadable: it is kept where it can't be read.
    """
    if injected is not None:
        return injected.load()
    return _whole(file.load(), file.place) or _whole(keyring.load(), keyring.place)


def _whole(token: str | None, place: str) -> str | None:
    if token is None or is_token(token):
        return token
    logger.warning("the token in %s is damaged and can't be used", place)
    return None
