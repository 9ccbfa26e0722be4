"""Where the token is kept, and which place wins.

1. The environment variable that `[http] bearer_token_env` names, if it names one.
2. Else what the file `token` in the state folder says (`token_file`): the token
   itself, which stands there where the keyring failed at some time, or the
   keyring's entry that holds it. A keyring that works again is given the file's
   token; nothing else that a keyring holds is ever believed.
3. Else a new token is made and kept in the keyring, or in the file if the
   keyring fails.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from sidecar.bridge import token_file
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.places import refuse_inside
from sidecar.bridge.token import fingerprint, is_token, new_token
from sidecar.bridge.token_file import Entry
from sidecar.errors import Overridden, Unreadable

logger = logging.getLogger(__name__)


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

    def tidy(self) -> None:
        """Throw away what is left of tokens that were replaced; never fails."""
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
            Overridden: says where to change it.
        """
        raise injected_by(self._variable)

    def tidy(self) -> None:
        """Nothing is left."""


def injected_by(variable: str) -> Overridden:
    """The refusal to change a token that an environment variable holds."""
    return Overridden(f"The token comes from the environment variable {variable}; change it there and restart.")


class FileStore:
    """A file of mode 0600 in the state folder, which must lie outside the vault."""

    place = "a file of mode 0600 in the state folder"

    def __init__(self, state_dir: Path, vault: Path) -> None:
        refuse_inside(state_dir, vault)
        self._state_dir = state_dir

    def load(self) -> str | None:
        """The token in the file, perhaps damaged; None if the file has none.

        Raises:
            Unreadable: the file can't be believed, by the rule of `private_files`.
        """
        found = token_file.read(self._state_dir)
        return None if isinstance(found, Entry) else found

    def store(self, token: str) -> None:
        """Write the file as a whole.

        Raises:
            Unreadable: the disk refused.
        """
        token_file.write(self._state_dir, token)

    def tidy(self) -> None:
        """Nothing is left: the file was replaced."""


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
        return keyring.settle(lambda found: kept or _whole(found, keyring.place) or new_token()), keyring
    except Unreadable as error:
        token = kept or new_token()
        if not kept:
            file.store(token)
        logger.warning("%s; the token is kept in %s", error, file.place)
        return token, file


def find_token(file: FileStore, keyring: KeyringStore, injected: InjectedToken | None = None) -> str | None:
    """The token that the daemon uses, or would use if it started now; None if it would make one. Blocks.

    Raises:
        Unreadable: it is kept where it can't be read.
    """
    if injected is not None:
        return injected.load()
    return _whole(file.load(), file.place) or _whole(keyring.load(), keyring.place)


def find_store(
    state_dir: Path, file: FileStore, keyring: KeyringStore, injected: InjectedToken | None = None
) -> tuple[TokenStore, str] | None:
    """The place that keeps the token now, and the token's fingerprint; None if there is no token. Blocks.

    Raises:
        Unreadable: the token file can't be believed.
    """
    if injected is not None:
        return injected, fingerprint(injected.load())
    found = token_file.read(state_dir)
    if isinstance(found, Entry):
        return keyring, found.name
    return None if found is None else (file, fingerprint(found))


def _whole(token: str | None, place: str) -> str | None:
    if token is None or is_token(token):
        return token
    logger.warning("the token in %s is damaged and can't be used", place)
    return None
