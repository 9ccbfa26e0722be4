"""Keeps the token in the operating system's keyring.

A token counts as stored only once it was read back and `token_file` names its
entry. A write that ends after its limit is taken back; until then it lies in an
entry that nothing names.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.bridge import token_file
from sidecar.bridge.patient_keyring import LIMIT_S, PLACE, PatientKeyring
from sidecar.bridge.token import fingerprint
from sidecar.bridge.token_file import Entry
from sidecar.errors import SidecarError, Unreadable

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

logger = logging.getLogger(__name__)


class KeyringStore:
    """The token of one state folder, in an entry named after that folder and the token's fingerprint.

    Every method blocks, at most for the limit.
    """

    place = PLACE

    def __init__(self, state_dir: Path, backend: KeyringBackend | None = None, *, limit_s: float = LIMIT_S) -> None:
        self._state_dir = state_dir
        self._keyring = PatientKeyring(backend, limit_s=limit_s)
        self._replaced: list[str] = []

    def load(self) -> str | None:
        """The token in the entry that the file names; None if it names none, or the entry is gone.

        Raises:
            Unreadable: the keyring can't say.
        """
        entry = self._entry()
        while entry is not None:
            found = self._keyring.limited(functools.partial(self._get, entry.name))
            now = self._entry()
            if found is not None or now == entry:
                return found
            entry = now  # it was replaced, and the old entry removed, between the two looks
        return None

    def store(self, token: str) -> None:
        """Keep `token` in an entry of its own, make sure that it is kept, and let the file name that entry.

        Raises:
            Unreadable: it isn't; the token before is kept as it was.
        """
        before, name = self._entry(), fingerprint(token)
        self._keyring.limited(lambda: self._put(name, token), late=lambda _: self._drop(name))
        try:
            token_file.write(self._state_dir, Entry(name))
        except SidecarError:
            with contextlib.suppress(SidecarError):
                if self._entry() != Entry(name):
                    self._forget(name)
            raise
        if before is not None and before.name != name:
            self._replaced.append(before.name)

    def settle(self, choose: Callable[[str | None], str]) -> str:
        """Let `choose` pick the token, given what is kept now, and keep that. One limited call.

        Raises:
            Unreadable: it is not sure to be kept.
        """
        before = self._entry()

        def agree() -> tuple[str, bool]:
            found = self._get(before.name) if before is not None else None
            token = choose(found)
            is_new = token != found
            if is_new:
                self._put(fingerprint(token), token)
            return token, is_new

        def take_back(agreed: tuple[str, bool]) -> None:
            token, is_new = agreed
            if is_new:
                self._drop(fingerprint(token))

        token, is_new = self._keyring.limited(agree, late=take_back)
        if is_new:
            token_file.write(self._state_dir, Entry(fingerprint(token)))
        return token

    def tidy(self) -> None:
        """Remove the entries of tokens that were replaced. One that can't be removed is a dead key and no more."""
        while self._replaced:
            self._forget(self._replaced.pop())

    def _entry(self) -> Entry | None:
        found = token_file.read(self._state_dir)
        return found if isinstance(found, Entry) else None

    def _forget(self, name: str) -> None:
        with contextlib.suppress(Unreadable):
            self._keyring.limited(lambda: self._drop(name))

    def _get(self, name: str) -> str | None:
        found = self._keyring.get(self._account(name))
        if found is not None and fingerprint(found) != name:
            logger.warning("what %s holds is not what was stored there; it is not used", self.place)
            return None
        return found

    def _put(self, name: str, token: str) -> None:
        self._keyring.put(self._account(name), token)

    def _drop(self, name: str) -> None:
        self._keyring.drop(self._account(name))

    def _account(self, name: str) -> str:
        return f"{self._state_dir}#{name}"
