"""Writing notes for clients: what may be written, one writer a note, and texts that are kept.

How a note is changed without harm is `vault.files`' part. Here is decided
what may be changed at all, and the index is told of it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from sidecar.errors import BadArguments, BadPath, Conflict, NotFound, Protected, SidecarError, TooLarge
from sidecar.index.corpus import Corpus
from sidecar.services.copies import Copies
from sidecar.services.locks import NoteLocks
from sidecar.services.protection import Protection, refuse_managed
from sidecar.services.recovery import Restored, restore
from sidecar.services.switches import Switches
from sidecar.tasks import Lane, keep_running
from sidecar.vault.files import Files, Written
from sidecar.vault.leftovers import sweep
from sidecar.vault.notes import appended, decode
from sidecar.vault.paths import VaultPath, echo
from sidecar.vault.placing import Exists

logger = logging.getLogger(__name__)

T = TypeVar("T")
Mode = Literal["create", "overwrite", "append"]

MAX_CONTENT_BYTES: Final = 2 << 20
_CHECKSUM: Final = re.compile(r"sha256:[0-9a-f]{64}")
_THREADS: Final = 4
_TRIES: Final = 3
_CLOCK_NS: Final = 50_000_000  # a file system's clock may be a tick behind ours


@dataclass(frozen=True, slots=True)
class Outcome:
    """A note that was written."""

    path: str
    done: Mode
    """What it came to: a missing note is created in every mode."""
    characters: int
    """Of the whole note, without a byte order mark."""
    checksum: str
    old_is_kept: bool


class Writing:
    """Writes the notes of one corpus, as an async context manager. A write that has begun is not cut off."""

    def __init__(
        self,
        corpus: Corpus,
        copies: Copies,
        protection: Protection,
        switches: Switches,
        *,
        max_note_bytes: int,
    ) -> None:
        self._corpus = corpus
        self._copies = copies
        self._protection = protection
        self._switches = switches
        self._max_note_bytes = max_note_bytes
        self._files = Files(corpus.jail, copies.add, max_bytes=max_note_bytes)
        self._started_ns = time.time_ns() - _CLOCK_NS
        self._locks = NoteLocks()
        self._lane = Lane("write", _THREADS)
        self._running: set[asyncio.Task[Any]] = set()
        self._wrote = asyncio.Event()
        self._tidying: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Writing:
        name = "tidying after writes"
        self._tidying = asyncio.create_task(keep_running(name, self._tidy), name=name)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running:
            await asyncio.wait(self._running)
        assert self._tidying is not None
        self._tidying.cancel()
        await asyncio.wait([self._tidying])
        await self._lane.run(self._files.displaced.look_again, at_all=True)
        await self._lane.close()

    async def write(self, raw: str, content: str, mode: Mode, expected: str = "") -> Outcome:
        """Create, replace or extend one note. `expected`: the checksum it must have; "" for any.

        Raises:
            BadArguments, BadPath, Protected: it may not be written.
            NotFound, Conflict: the note is not as the caller thinks.
            TooLarge, NotWritten: it could not be written.
        """
        _check(content, mode, expected)
        path = self._protection.check(raw)
        if self._corpus.is_ignored(path):
            raise BadPath(f"'{echo(raw)}' is left out of the vault by .kpignore; it can't be written.")

        async def work() -> Outcome:
            async with self._locks.hold(path):
                if not self._switches.allow_writes:  # while it waited
                    raise Protected("Writing notes has been switched off.")
                outcome = await self._lane.run(self._write, path, content, mode, expected)
                self._corpus.wrote(path)
                return outcome

        return await self._whole(work())

    async def restore(self, ending: str) -> Restored:
        """Put a kept text back into its note; what the note has now is kept instead. Asked by the owner alone.

        Raises:
            NotFound: there is no such copy.
            SidecarError: the note could not be written.
        """
        copy, data = await self._lane.run(self._copies.find, ending)
        path = VaultPath.found(copy.path)

        return await self.together([path], lambda files: restore(files, copy, data))

    async def together(self, paths: Sequence[VaultPath], work: Callable[[Files], T]) -> T:
        """Have several notes changed by `work`, which blocks, while nobody else changes them.

        For services that ask the owner first: nothing is refused here.
        """

        async def whole() -> T:
            async with self._locks.hold(*paths):
                try:
                    return await self._lane.run(work, self._files)
                finally:
                    for path in paths:  # also after a failure, which may have left something
                        self._corpus.wrote(path)

        return await self._whole(whole())

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Go on to the end although the caller may leave: the thread would go on anyway, without the note's lock."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._has_ended)
        return await asyncio.shield(task)

    def _has_ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._wrote.set()
        if not task.cancelled() and isinstance(failed := task.exception(), Exception):
            # the caller may have left, and then nobody else hears of it
            logger.debug("a write failed: %s", type(failed).__name__)

    def _write(self, path: VaultPath, content: str, mode: Mode, expected: str) -> Outcome:
        if mode == "create":
            return _outcome(self._create(path, content), mode)
        for _ in range(_TRIES):
            try:
                return self._change(path, content, mode, expected)
            except NotFound:
                if expected:
                    raise NotFound(f"There is no note '{echo(path.text)}'; leave out expected to create it.") from None
            try:
                return _outcome(self._files.create(path, content.encode()), "create")
            except Exists:
                continue  # another program was quicker
        raise Conflict(f"'{echo(path.text)}' is being changed by another program. Try again soon.")

    def _create(self, path: VaultPath, content: str) -> Written:
        try:
            return self._files.create(path, content.encode())
        except Exists as exists:
            raise Exists(f'{exists} Use mode "append" to add to it or "overwrite" to replace it.') from None

    def _change(self, path: VaultPath, content: str, mode: Mode, expected: str) -> Outcome:
        def new_bytes(old: bytes) -> bytes:
            new = appended(old, content) if mode == "append" else content.encode()
            if len(new) > self._max_note_bytes:
                raise TooLarge(f"'{echo(path.text)}' would be larger than {self._max_note_bytes / (1 << 20):g} MiB.")
            refuse_managed(path, decode(old)[0], decode(new)[0])
            return new

        keep = "replaced" if mode == "overwrite" and not expected else None
        written = self._files.change(path, new_bytes, expected=expected or None, keep=keep)
        return _outcome(written, mode, old_is_kept=keep is not None)

    async def _tidy(self) -> None:
        """Clear away what an earlier process left; then look again at what each write displaced."""
        try:
            removed = await self._lane.run(
                lambda: sweep(self._corpus.jail, self._copies.add, before_ns=self._started_ns)
            )
            if removed:
                logger.info("removed %d temporary files of writes that were cut off", removed)
        except SidecarError as away:
            logger.warning("the vault is not looked through for temporary files: %s", away)
        while True:
            self._wrote.clear()
            wait_s = await self._lane.run(self._files.displaced.look_again)
            if wait_s is None:
                await self._wrote.wait()
            else:
                await asyncio.sleep(wait_s)


def _check(content: str, mode: Mode, expected: str) -> None:
    """What the schema can't say.

    Raises:
        BadArguments: one line per mistake.
    """
    mistakes: list[str] = []
    try:
        size = len(content.encode())
    except UnicodeEncodeError:  # half a character
        mistakes.append("content: must be text.")
    else:
        if size > MAX_CONTENT_BYTES:
            mistakes.append("content: at most 2 MiB.")
    if "\0" in content:
        mistakes.append("content: must not hold NUL characters.")
    if mode == "append" and not content:
        mistakes.append("content: is required.")
    if expected and mode == "create":
        mistakes.append('expected: goes with the modes "overwrite" and "append" only.')
    elif expected and not _CHECKSUM.fullmatch(expected):
        mistakes.append("expected: must be a checksum as read_note gives it: sha256: and 64 hex digits.")
    if mistakes:
        raise BadArguments("\n".join(mistakes))


def _outcome(written: Written, done: Mode, *, old_is_kept: bool = False) -> Outcome:
    return Outcome(written.path.text, done, len(decode(written.data)[0]), written.checksum, old_is_kept)
