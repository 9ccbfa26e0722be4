"""Keeps the token in the operating system's keyring.

A keyring may be missing, locked, waiting for a person at a prompt, or one that
takes a secret and forgets it. So every call runs in a thread of its own with a
time limit, whatever goes wrong is one error, and a secret counts as stored only
once it was read back and `token_file` names its entry. A write that ends after
its limit is taken back; until then it lies in an entry that nothing names.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sidecar.bridge import token_file
from sidecar.bridge.token import fingerprint
from sidecar.bridge.token_file import Entry
from sidecar.errors import SidecarError, Unreadable

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

logger = logging.getLogger(__name__)

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
    """The token of one state folder, in an entry named after that folder and the token's fingerprint.

    Every method blocks, at most for the limit; a thread that still waits for
    somebody to answer a prompt is left behind, and until it ends every further
    call fails at once.
    """

    place = "the system's keyring"

    def __init__(self, state_dir: Path, backend: KeyringBackend | None = None, *, limit_s: float = LIMIT_S) -> None:
        self._state_dir = state_dir
        self._backend = backend
        self._limit_s = limit_s
        self._left_behind: threading.Thread | None = None
        self._replaced: list[str] = []

    def load(self) -> str | None:
        """The token in the entry that the file names; None if it names none, or the entry is gone.

        Raises:
            Unreadable: the keyring can't say.
        """
        entry = self._entry()
        while entry is not None:
            found = self._limited(functools.partial(self._get, entry.name))
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
        self._limited(lambda: self._put(name, token), late=lambda _: self._drop(name))
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

        token, is_new = self._limited(agree, late=take_back)
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
            self._limited(lambda: self._drop(name))

    def _limited(self, call: Callable[[], T], *, late: Callable[[T], None] | None = None) -> T:
        """Run `call` in a thread. `late` gets the result of one that ends when nobody waits for it any more."""
        if self._left_behind is not None and self._left_behind.is_alive():
            raise Unreadable(f"{self.place} can't be used: it has not answered an earlier question yet")
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
            raise Unreadable(f"{self.place} can't be used: it did not answer in {self._limit_s:g} s")
        error = outcome.exception()
        if error is None:
            return outcome.result()
        if isinstance(error, SidecarError):
            raise error
        # its text may hold anything, an account's name or a secret; only its class is told
        known = (_REASONS.get(kind.__name__) for kind in type(error).__mro__)
        reason = next(filter(None, known), type(error).__name__)
        raise Unreadable(f"{self.place} can't be used: {reason}") from error

    def _get(self, name: str) -> str | None:
        backend = self._keyring()
        from keyring.errors import NoKeyringError

        try:
            found = backend.get_password(SERVICE, self._account(name))
        except NoKeyringError:
            return None  # where there is no keyring, it holds nothing; storing is what fails
        if found is not None and fingerprint(found) != name:
            logger.warning("what %s holds is not what was stored there; it is not used", self.place)
            return None
        return found

    def _put(self, name: str, token: str) -> None:
        backend = self._keyring()
        # the wrapper that the library puts around it has no types
        backend.set_password(SERVICE, self._account(name), token)  # pyright: ignore[reportUnknownMemberType]
        try:
            if backend.get_password(SERVICE, self._account(name)) != token:
                raise Unreadable(f"{self.place} can't be used: it did not keep what was stored in it")
        except Exception:
            self._drop(name)
            raise

    def _drop(self, name: str) -> None:
        with contextlib.suppress(Exception):  # there was no such entry, or it stays
            self._keyring().delete_password(SERVICE, self._account(name))

    def _account(self, name: str) -> str:
        return f"{self._state_dir}#{name}"

    def _keyring(self) -> KeyringBackend:
        if self._backend is None:
            import keyring  # here, because loading it takes longer than most commands, and may hang or fail

            self._backend = keyring.get_keyring()
        return self._backend
