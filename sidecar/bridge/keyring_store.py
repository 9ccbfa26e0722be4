"""Keeps the token in the operating system's keyring.

A keyring may be missing, locked, waiting for a person at a prompt, or one that
takes a secret and forgets it. So every call runs in a thread of its own with a
time limit, whatever goes wrong is one error, and a secret counts as stored only
once it was read back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sidecar.errors import SidecarError, Unreadable

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "vault-sidecar"

LIMIT_S = 4.0  # a start may spend 5 s in all on a keyring that doesn't answer

# by the names of the keyring library's own errors, which can't be imported without loading it
_REASONS = {
    "NoKeyringError": "this system has none",
    "KeyringLocked": "it is locked",
    "InitError": "it could not be started",
}

T = TypeVar("T")


class KeyringStore:
    """The token of one state folder, under that folder's path.

    Every method blocks, at most for the limit; a thread that still waits for
    somebody to answer a prompt is left behind.
    """

    place = "the system's keyring"

    def __init__(self, state_dir: Path, backend: KeyringBackend | None = None, *, limit_s: float = LIMIT_S) -> None:
        self._account = str(state_dir)
        self._backend = backend
        self._limit_s = limit_s

    def load(self) -> str | None:
        """What the keyring holds for this state folder.

        Raises:
            Unreadable: it can't say.
        """
        return self._limited(self._get)

    def store(self, token: str) -> None:
        """Keep `token`, and make sure that it is kept.

        Raises:
            Unreadable: it isn't.
        """
        self._limited(lambda: self._put(token))

    def settle(self, choose: Callable[[str | None], str]) -> str:
        """Let `choose` pick the token, given what the keyring holds now, and make it hold that. One limited call.

        Raises:
            Unreadable: it is not sure to hold it.
        """

        def agree() -> str:
            found = self._get()
            chosen = choose(found)
            if chosen != found:
                self._put(chosen)
            return chosen

        return self._limited(agree)

    def _limited(self, call: Callable[[], T]) -> T:
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except Exception as error:  # whatever a third party's backend raises
                outcome.set_exception(error)

        # a bare daemon thread: a pool's threads are waited for when the process ends, and this one may never end
        threading.Thread(target=run, name="keyring", daemon=True).start()
        try:
            return outcome.result(self._limit_s)
        except SidecarError:
            raise
        except Exception as error:
            # its text may hold anything, an account's name or a secret; only its class is told
            known = (_REASONS.get(kind.__name__) for kind in type(error).__mro__)
            reason = next(filter(None, known), type(error).__name__)
            if not outcome.done():
                reason = f"it did not answer in {self._limit_s:g} s"
            raise Unreadable(f"{self.place} can't be used: {reason}") from error

    def _get(self) -> str | None:
        backend = self._keyring()
        from keyring.errors import NoKeyringError

        try:
            return backend.get_password(SERVICE, self._account)
        except NoKeyringError:
            return None  # where there is no keyring, it holds nothing; storing is what fails

    def _put(self, token: str) -> None:
        backend = self._keyring()
        # the wrapper that the library puts around it has no types
        backend.set_password(SERVICE, self._account, token)  # pyright: ignore[reportUnknownMemberType]
        if backend.get_password(SERVICE, self._account) != token:
            raise Unreadable(f"{self.place} can't be used: it did not keep what was stored in it")

    def _keyring(self) -> KeyringBackend:
        if self._backend is None:
            import keyring  # here, because loading it takes longer than most commands, and may hang or fail

            self._backend = keyring.get_keyring()
        return self._backend
