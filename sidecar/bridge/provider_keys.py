"""Keys of the services that agents ask, each in an entry `provider:NAME` of the system's keyring, for all vaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.bridge.patient_keyring import LIMIT_S, PatientKeyring
from sidecar.errors import BadArguments

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

_LONGEST = 1000


def check_key(key: str) -> str:
    """A key as it may be sent in a header, without blanks around it.

    Raises:
        BadArguments: it is none. The message doesn't show it.
    """
    key = key.strip()
    if not key or len(key) > _LONGEST or not (key.isascii() and key.isprintable()) or " " in key:
        raise BadArguments(f"a key has 1 to {_LONGEST:,} visible ASCII characters and no blanks")
    return key


class ProviderKeys:
    """Every method blocks, at most for the limit."""

    def __init__(self, backend: KeyringBackend | None = None, *, limit_s: float = LIMIT_S) -> None:
        self._keyring = PatientKeyring(backend, limit_s=limit_s)

    def find(self, provider: str) -> str | None:
        """The key, or None.

        Raises:
            Unreadable: the keyring can't say.
        """
        return self._keyring.limited(lambda: self._keyring.get(_account(provider)))

    def store(self, provider: str, key: str) -> None:
        """Keep a key in place of the one before.

        Raises:
            BadArguments: it is none.
            Unreadable: the keyring did not keep it.
        """
        checked = check_key(key)
        self._keyring.limited(lambda: self._keyring.put(_account(provider), checked))

    def remove(self, provider: str) -> bool:
        """Forget a key; whether there was one.

        Raises:
            Unreadable: the keyring can't be used, or it keeps the key.
        """

        def drop() -> bool:
            if self._keyring.get(_account(provider)) is None:
                return False
            self._keyring.drop(_account(provider), must=True)
            return True

        return self._keyring.limited(drop)


def _account(provider: str) -> str:
    return f"provider:{provider}"
