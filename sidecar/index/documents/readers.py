"""The processes that read documents, as the daemon sees them: started when there is something to read, watched, ended.

One pool serves all databases. A file that hangs, takes too much memory or
crashes its reader costs that reader and gets a warning; the next file has a
new one. Files that were just saved have a reader of their own, so that they
don't wait behind a thousand others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final, Self, cast

from sidecar.index.counted import Counted
from sidecar.index.documents import frames
from sidecar.index.documents.document import MOST_CHARACTERS, MOST_CHUNKS
from sidecar.index.documents.frames import Head
from sidecar.index.documents.reading import Passage, Reading, is_sound
from sidecar.index.process import environment_of_child, how_it_ended
from sidecar.vault.paths import printable

logger = logging.getLogger(__name__)

READ: Final = "sidecar.index.documents.read:read"
"""Module and function that the readers read with."""

_MOST_PROCESSES: Final = 4
_START_S: Final = 120.0
_IDLE_S: Final = 20.0
_LEAVING_S: Final = 5.0
_LARGE_FILE: Final = 8 << 20  # after one a reader keeps much memory, so it is ended
_MOST_FILES: Final = 500  # of one reader: parsers leak a little
_LONGEST_WARNING: Final = 200  # characters


@dataclass(frozen=True, slots=True)
class Limits:
    """For one file. The memory is that of the whole process, libraries included (about 250 MiB of addresses)."""

    seconds: float = 60.0
    memory_bytes: int = 1 << 30


class Lost(Exception):
    """A file could not be read; the text is a warning, as in `Document`."""


class _Ended(Lost):
    """The process ended, or is at the end of its memory."""


class DocumentReaders:
    """Use it with `async with`. Nothing is started before there is something to read."""

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        limits: Limits | None = None,
        processes: int | None = None,
        read: str = READ,
    ) -> None:
        """Nothing happens yet.

        Args:
            environment: the environment of this process; what is needed of it is passed on, secrets are not.
            folder: where the processes are at home: one of ours, since libraries look for settings there.
            limits: for each file.
            processes: so many read what is not urgent; there is one more for what is.
            read: `module:function` that reads, as `read.read` does.
        """
        self._environment = environment_of_child(environment)
        self._folder = folder
        self._limits = limits or Limits()
        self._read = read
        count = processes or min(_MOST_PROCESSES, os.cpu_count() or 1)
        self._room = {True: asyncio.Semaphore(1), False: asyncio.Semaphore(count)}
        self._idle: list[_Reader] = []
        self._all: dict[_Reader, asyncio.Task[None]] = {}
        """Every process that is there, and what waits for its end."""
        self._said = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for reader in self._all:
            reader.end()
        await asyncio.gather(*self._all.values())

    @property
    def pids(self) -> list[int]:
        """Of the processes that are there now."""
        return [reader.pid for reader in self._all]

    async def read(self, name: str, data: bytes, *, urgent: bool = False) -> Reading:
        """Have a file read.

        Raises:
            Lost: it can't be, for a reason that is the file's.
            OSError: no process can be started.
        """
        async with self._room[urgent]:
            reader = await self._a_reader()
            try:
                return await self._read_by(reader, name, data)
            except _Ended:
                if reader.files == 1:
                    raise
            # a file before this one may have done the harm; a new process tells
            return await self._read_by(await self._a_new_reader(), name, data)

    async def _read_by(self, reader: _Reader, name: str, data: bytes) -> Reading:
        try:
            reading = await reader.read(name, data, self._limits.seconds)
        except Lost:
            await self._end(reader)
            raise
        except BaseException:  # nobody wants to know any more, and it is in the middle of something
            reader.end()
            raise
        if len(data) > _LARGE_FILE or reader.files >= _MOST_FILES:
            await self._end(reader)
        else:
            self._idle.append(reader)
            asyncio.get_running_loop().call_later(_IDLE_S, self._end_if_idle, reader, reader.files)
        return reading

    async def _a_reader(self) -> _Reader:
        while self._idle:
            reader = self._idle.pop()
            if reader.is_there:
                return reader
        return await self._a_new_reader()

    async def _a_new_reader(self) -> _Reader:
        reader = await _Reader.start(self._read, self._limits, self._environment, self._folder)
        self._all[reader] = asyncio.create_task(self._forget(reader))
        await reader.ready()
        if not reader.is_limited and not self._said:
            self._said = True
            logger.info("this system sets no limit to the memory of the processes that read documents")
        return reader

    async def _forget(self, reader: _Reader) -> None:
        await reader.gone()
        del self._all[reader]

    async def _end(self, reader: _Reader) -> None:
        reader.end()
        if reader in self._all:
            await asyncio.shield(self._all[reader])

    def _end_if_idle(self, reader: _Reader, files: int) -> None:
        if reader in self._idle and reader.files == files:
            self._idle.remove(reader)
            reader.end()


class _Reader:
    """One process."""

    def __init__(self, process: Process, limits: Limits) -> None:
        self._process = process
        self._limits = limits
        self.is_limited = False
        """Whether its memory is."""
        self.files = 0
        """That it was given."""

    @classmethod
    async def start(cls, read: str, limits: Limits, environment: Mapping[str, str], folder: Path) -> _Reader:
        """Start a process.

        Raises:
            OSError: it can't be started.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "sidecar.index.documents.worker", read, str(limits.memory_bytes),
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL,  # what parsers print may hold the user's text
            cwd=folder,
            env=environment,
            start_new_session=True,  # so that Ctrl-C in a terminal does not reach it, not even while it starts
        )  # fmt: skip
        return cls(process, limits)

    async def ready(self) -> None:
        """Wait until it can read.

        Raises:
            OSError: it ended instead, or takes for ever.
        """
        try:
            async with asyncio.timeout(_START_S):
                head, _ = await self._next()
                self.is_limited = bool(head["memory"])
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, frames.Garbled, KeyError) as failed:
            await self._has_ended()
            raise OSError(None, f"a process that reads documents {how_it_ended(self._code)}") from failed
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def _code(self) -> int:
        """Once it is gone."""
        return self._process.returncode or 0

    @property
    def is_there(self) -> bool:
        return self._process.returncode is None

    async def read(self, name: str, data: bytes, limit_s: float) -> Reading:
        """Have it read a file, for so long at most; then for so long at most for each piece of the answer.

        Raises:
            Lost: that failed. It is to be ended then.
        """
        assert self._process.stdin is not None
        self.files += 1
        try:
            async with asyncio.timeout(limit_s):
                self._process.stdin.write(frames.encode({"name": name, "limit_s": limit_s}, data))
                await self._process.stdin.drain()
                await self._answer()
            passages: list[Passage] = []
            characters = 0
            while True:
                async with asyncio.timeout(limit_s):
                    head, data = await self._answer()
                if "words" in head:
                    break
                some = list(map(_passage, head["passages"]))
                passages += some
                characters += sum(len(text) for _, text in some)
                if len(passages) > MOST_CHUNKS or characters > MOST_CHARACTERS:
                    raise frames.Garbled
            warning = head["warning"]
            reading = Reading(
                str(head["language"]),
                passages,
                _words(head["words"], data),
                None if warning is None else printable(str(warning)[:_LONGEST_WARNING]),
            )
            if not await asyncio.to_thread(is_sound, reading):
                raise frames.Garbled
            return reading
        except TimeoutError as late:
            raise Lost(f"reading it takes longer than {limit_s:g} s") from late
        except (asyncio.IncompleteReadError, ConnectionError) as ended:
            await self._has_ended()
            raise _Ended(f"the process that read it {how_it_ended(self._code)}") from ended
        except (frames.Garbled, KeyError, TypeError, ValueError) as bad:
            raise Lost("the process that read it lost its way") from bad

    async def _answer(self) -> tuple[Head, bytes]:
        head, data = await self._next()
        if "failed" in head:
            raise _Ended(f"reading it takes more memory than {self._limits.memory_bytes >> 20:,} MiB")
        return head, data

    async def _next(self) -> tuple[Head, bytes]:
        assert self._process.stdout is not None
        stream = self._process.stdout
        head, data = frames.sizes(await stream.readexactly(frames.PREFIX.size))
        return frames.head_of(await stream.readexactly(head)), await stream.readexactly(data)

    def end(self) -> None:
        """Kill it; it has nothing to lose."""
        if self.is_there:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _has_ended(self) -> None:
        """Wait for the end of what has closed its pipe. It is not killed at once: that would hide how it ended."""
        try:
            async with asyncio.timeout(_LEAVING_S):
                await self.gone()
        except TimeoutError:
            self.end()
            await self.gone()

    async def gone(self) -> None:
        """Wait for its end."""
        await self._process.wait()


def _passage(row: Any) -> Passage:
    """What a reader sent, checked: it may have been taken over by the file it read."""
    ordinal, text = cast("tuple[Any, Any]", row)
    if not isinstance(ordinal, int) or not isinstance(text, str):
        raise TypeError
    return ordinal, text


def _words(lengths: Any, data: bytes) -> Counted:
    ends = list(accumulate(cast("list[int]", lengths), initial=0))
    words, sizes, places, counts = (data[start:end] for start, end in pairwise(ends))
    return Counted(words, sizes, places, counts)
