"""The one way to change a note: whole or not at all, and never over somebody else's edit.

Everything happens in the note's folder, which is held open. The new text goes
to a temporary file there and to the disk; what is in place is compared with
what the change was made for; then both are exchanged in one step, and what
came out is looked at. If that is somebody's edit, they are exchanged back. A
new note gets its name by a link, which fails if the name is taken.

Nobody else in this process may change the same path meanwhile; whoever calls
sees to that. Everything blocks: call it in a lane.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sidecar.errors import Conflict, NotWritten, SidecarError, TooLarge
from sidecar.vault.displaced import Displaced, Keep, Why
from sidecar.vault.door import Folder, NotThere, Unsupported
from sidecar.vault.jail import Jail
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, echo, no_note, printable
from sidecar.vault.placing import Placing
from sidecar.vault.reasons import reason_of
from sidecar.vault.resting import Base, Resting
from sidecar.vault.temporary import Temporary, patiently, temporary_name

logger = logging.getLogger(__name__)

MOMENT_S: Final = 1.0
"""How long a replaced file is kept open: programs that save in place need some milliseconds."""

_TRIES: Final = 5
_UNCHANGED: Final = " The old text is unchanged."
_PERHAPS: Final = " It may hold the new text already."

Change = Callable[[bytes], bytes]
"""From the bytes of a note to its new ones; may refuse by raising."""


class Changed(Conflict):
    """The note is not the one that was expected."""


class _Overtaken(Exception):
    """Somebody changed the note since it was read."""


@dataclass(frozen=True, slots=True)
class Written:
    """A note as a change left it, on the disk for good."""

    path: VaultPath
    data: bytes
    before: bytes | None
    """What it was; None: there was no such note."""

    @property
    def checksum(self) -> str:
        """Of what it is now."""
        return checksum_of(self.data)


class Files:
    """Changes the notes of one vault. A path has passed `names.writable`, or was met on the disk."""

    def __init__(self, jail: Jail, keep: Keep, *, max_bytes: int, moment_s: float = MOMENT_S) -> None:
        """`keep` gets texts that must not be lost. A note of more than `max_bytes` is not changed."""
        self._keep = keep
        self._resting = Resting(jail, max_bytes=max_bytes)
        self._placing = Placing(jail)
        self.displaced = Displaced(self._resting, keep, moment_s=moment_s)

    def read(self, path: VaultPath) -> bytes:
        """A note's bytes once it is at rest, to build a change on.

        Raises:
            NotFound: there is no such note.
            Conflict, NotWritten, TooLarge: nothing can be built on it.
        """
        with _refusals(path, ""), self._base(path) as (_, base):
            return base.data

    def create(self, path: VaultPath, data: bytes) -> Written:
        """A new note, and the folders that it lacks.

        Raises:
            Exists: there is one already.
            Conflict: a name on the disk differs only in case or Unicode form.
            BadPath: not a name that a new entry may have.
            NotWritten: the disk refused, or something else has the name; there is no new note.
        """
        with _refusals(path, ""), self._placing.new(path) as folder, self._temporary(folder, path) as temporary:
            like = folder.status()
            temporary.write(data, like, like.st_mode & 0o666)
            try:
                patiently(lambda: folder.give(temporary.name, path.name))
            except FileExistsError:
                self._placing.refuse_taken(folder, path)
                raise
            try:
                folder.sync()
            except OSError:
                if temporary.is_at(path.name):
                    folder.remove(path.name)
                raise
            self._resting.wrote(temporary.status, checksum_of(data))
            return Written(path, data, None)

    def change(self, path: VaultPath, make: Change, *, expected: str | None = None, keep: Why | None = None) -> Written:
        """Replace a note by what `make` makes of it; anew, if somebody else changes it meanwhile.

        `expected`: the checksum it must have now. `keep`: have the old text kept first, under this reason.

        Raises:
            NotFound: there is no such note.
            Changed: it has another checksum than `expected`.
            Conflict: others keep changing it.
            NotWritten: the disk refused; the message says whether the old text is unchanged.
        """
        for _ in range(_TRIES):
            with _refusals(path, _UNCHANGED), self._base(path, expected) as (folder, base):
                data = make(base.data)
                if keep is not None:
                    self._keep_old(path, base.data, keep)
                try:
                    self._replace(folder, path, base, data)
                except _Overtaken:
                    continue
                return Written(path, data, base.data)
        raise Conflict(f"'{echo(path.text)}' is being changed by another program. Try again soon.")

    def remove(self, path: VaultPath, *, expected: str | None = None) -> bytes:
        """Take a note out of the vault; what it was.

        Raises:
            NotFound, Changed, NotWritten: as `change`.
        """
        with _refusals(path, _UNCHANGED), self._base(path, expected) as (folder, base):
            aside = temporary_name(path.name)
            try:
                patiently(lambda: folder.move(path.name, aside))
            except FileNotFoundError as gone:  # just now
                raise no_note(path) from gone
            try:
                is_right = self._is_still(folder, aside, path, base)
                if is_right:
                    folder.sync()
            except OSError:
                folder.give(aside, path.name)
                raise
            else:
                if not is_right:
                    folder.give(aside, path.name)
                    raise _changed(path)
            finally:
                self._discard(folder, path, aside, None, base)
            return base.data

    # the exchange

    def _replace(self, folder: Folder, path: VaultPath, base: Base, data: bytes) -> None:
        with self._temporary(folder, path, base) as temporary:
            temporary.write(data, base.status, base.status.st_mode & 0o7777)
            if not self._is_still(folder, path.name, path, base):
                raise _Overtaken
            try:
                patiently(lambda: folder.swap(temporary.name, path.name))
            except FileNotFoundError as gone:  # just now
                raise _Overtaken from gone
            except Unsupported:
                self._rename_over(folder, path, base, temporary)
            else:
                self._verify(folder, path, base, temporary)
            self._resting.wrote(temporary.status, checksum_of(data))

    def _verify(self, folder: Folder, path: VaultPath, base: Base, temporary: Temporary) -> None:
        """Look at what came out of the exchange. It goes back if it is somebody's edit, or if the disk refuses."""
        try:
            is_right = self._is_still(folder, temporary.name, path, base)
            if is_right:
                return folder.sync()
        except OSError:
            with _refusals(path, _PERHAPS):
                folder.swap(temporary.name, path.name)
            raise
        with _refusals(path, _PERHAPS):
            folder.swap(temporary.name, path.name)
            if not temporary.is_at(temporary.name):
                folder.swap(temporary.name, path.name)  # a newer save came in between, and belongs there
        raise _Overtaken

    def _rename_over(self, folder: Folder, path: VaultPath, base: Base, temporary: Temporary) -> None:
        """For file systems without an exchange. Another program's rename in just this moment is lost."""
        patiently(lambda: folder.move(temporary.name, path.name))
        self.displaced.add(path, os.dup(base.descriptor), base.checksum)
        with _refusals(path, _PERHAPS):
            folder.sync()

    def _is_still(self, folder: Folder, name: str, path: VaultPath, base: Base) -> bool:
        """Whether the file of that name is the one that was read, and still holds what it held."""
        try:
            descriptor = folder.open_file(name)
        except NotThere:
            return False
        try:
            return os.path.samestat(os.fstat(descriptor), base.status) and (
                self._resting.content(path, descriptor) == base.data
            )
        except TooLarge:
            return False
        finally:
            os.close(descriptor)

    # what is needed around it

    @contextmanager
    def _base(self, path: VaultPath, expected: str | None = None) -> Generator[tuple[Folder, Base]]:
        """The note's folder and the note at rest, both open."""
        try:
            with self._placing.old(path) as folder:
                base = self._resting.read(folder, path)
                try:
                    if expected is not None and base.checksum != expected:
                        raise _changed(path, base.checksum)
                    yield folder, base
                finally:
                    base.close()
        except NotThere as missing:
            raise no_note(path) from missing

    @contextmanager
    def _temporary(self, folder: Folder, path: VaultPath, base: Base | None = None) -> Generator[Temporary]:
        temporary = Temporary(folder, temporary_name(path.name))
        try:
            yield temporary
        finally:
            self._discard(folder, path, temporary.name, temporary, base)

    def _discard(
        self, folder: Folder, path: VaultPath, name: str, temporary: Temporary | None, base: Base | None
    ) -> None:
        """Remove what has the temporary name now, whatever that is; an edit of another program is kept first."""
        try:
            descriptor = folder.open_file(name)
            status = os.fstat(descriptor)
            if base is not None and os.path.samestat(status, base.status):
                self.displaced.add(path, descriptor, base.checksum)
            else:
                try:
                    # with another link to it, nothing is lost
                    if status.st_nlink == 1 and not (temporary is not None and temporary.is_ours(status)):
                        self._keep(path, self._resting.content(path, descriptor), "displaced")
                finally:
                    os.close(descriptor)
            folder.remove(name)
        except NotThere:
            return  # it is in place, under its own name
        except (OSError, SidecarError):
            logger.warning("a temporary file of %s stays until the next start", printable(path.text), exc_info=True)

    def _keep_old(self, path: VaultPath, data: bytes, why: Why) -> None:
        try:
            self._keep(path, data, why)
        except (OSError, SidecarError) as failed:
            reason = reason_of(failed) if isinstance(failed, OSError) else str(failed)
            raise NotWritten(
                f"'{echo(path.text)}' could not be written: its old text can't be kept: {reason}.{_UNCHANGED}"
            ) from failed


@contextmanager
def _refusals(path: VaultPath, remains: str) -> Generator[None]:
    """What the system refuses becomes a sentence; `remains` says what became of the note."""
    try:
        yield
    except OSError as failed:
        raise NotWritten(f"'{echo(path.text)}' could not be written: {reason_of(failed)}.{remains}") from failed


def _changed(path: VaultPath, checksum: str | None = None) -> Changed:
    now = f"; its checksum is now {checksum}" if checksum else ""
    return Changed(f"'{echo(path.text)}' has changed{now}. Read it again before writing.")
