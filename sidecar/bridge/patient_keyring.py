"""The way to the operating system's keyring, for whoever keeps a secret there.

A keyring may be missing, locked, waiting for a person at a prompt, or one that
takes a secret and forgets it. So every call runs in a thread of its own with a
time limit, whatever goes wrong is one error, and a secret counts as stored only
once it was read back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from typing import TYPE_CHECKING, Final, TypeVar

from sidecar.errors import KeyringAway, SidecarError

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE: Final = "vault-sidecar"
PLACE: Final = "the system's keyring"

LIMIT_S: Final = 4.0  # a start may spend 5 s in all on a keyring that doesn't answer

# by the names of the keyring library's own errors, which can't be imported without loading it
_REASONS = {
    "NoKeyringError": "this system has none",
    "KeyringLocked": "it is locked",
    "InitError": "it could not be started",
}

T = TypeVar("T")


class PatientKeyring:
    """The keyring. What touches it is given to `limited`; `get`, `put` and `drop` are for use inside.

    A thread that still waits for somebody to answer a prompt is left behind, and
    until it ends every further call fails at once.
    """

    def __init__(self, backend: KeyringBackend | None = None, *, limit_s: float = LIMIT_S) -> None:
        self._backend = backend
        self._limit_s = limit_s
        self._left_behind: threading.Thread | None = None

    def limited(self, call: Callable[[], T], *, late: Callable[[T], None] | None = None) -> T:
        """Run `call` in a thread. `late` gets the result of one that ends when nobody waits for it any more.

        Blocks, at most for the limit.

        Raises:
            KeyringAway: whatever went wrong.
            SidecarError: as `call` raised it.
        """
        if self._left_behind is not None and self._left_behind.is_alive():
            raise KeyringAway(f"{PLACE} can't be used: it has not answered an earlier question yet")
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                result = call()
            except Exception as error:  # whatever a third party's backend raises
                with contextlib.suppress(InvalidStateError):
                    outcome.set_exception(error)
                return
            try:
                outcome.set_result(result)
            except InvalidStateError:
                if late is not None:
                    late(result)

        # a bare daemon thread: a pool's threads are waited for when the process ends, and this one may never end
        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        wait((outcome,), self._limit_s)
        if outcome.cancel():  # what comes from now on finds nobody
            self._left_behind = thread
            raise KeyringAway(f"{PLACE} can't be used: it did not answer in {self._limit_s:g} s")
        error = outcome.exception()
        if error is None:
            return outcome.result()
        if isinstance(error, SidecarError):
            raise error
        # its text may hold anything, an account's name or a secret; only its class is told
        known = (_REASONS.get(kind.__name__) for kind in type(error).__mro__)
        reason = next(filter(None, known), type(error).__name__)
        raise KeyringAway(f"{PLACE} can't be used: {reason}") from error

    def get(self, account: str) -> str | None:
        """The secret of an account; None where there is none, or no keyring at all: storing is what fails then."""
        backend = self._keyring()
        from keyring.errors import NoKeyringError

        try:
            return backend.get_password(SERVICE, account)
        except NoKeyringError:
            return None

    def put(self, account: str, secret: str) -> None:
        """Keep a secret, and make sure that it is kept.

        Raises:
            KeyringAway: it isn't.
        """
        backend = self._keyring()
        # the wrapper that the library puts around it has no types
        backend.set_password(SERVICE, account, secret)  # pyright: ignore[reportUnknownMemberType]
        try:
            if backend.get_password(SERVICE, account) != secret:
                raise KeyringAway(f"{PLACE} can't be used: it did not keep what was stored in it")
        except Exception:
            self.drop(account)
            raise

    def drop(self, account: str, *, must: bool = False) -> None:
        """Remove an account. Without `must` there may have been none, or it stays."""
        with contextlib.nullcontext() if must else contextlib.suppress(Exception):
            self._keyring().delete_password(SERVICE, account)

    def _keyring(self) -> KeyringBackend:
        if self._backend is None:
            import keyring  # here, because loading it takes longer than most commands, and may hang or fail

            self._backend = keyring.get_keyring()
        return self._backend
