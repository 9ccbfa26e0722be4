"""Lines of a pipe: read within a bound, and written whole by whichever thread has one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

_DROP_BYTES = 1 << 20


def read(stream: BinaryIO, most_bytes: Callable[[], int]) -> Iterator[bytes | None]:
    """Each line without its end, until the stream has ended. Blocks.

    None stands for a line of more than `most_bytes()`, which was dropped as it
    came. Blank lines are passed over.
    """
    while True:
        most = most_bytes()
        line = stream.readline(most + 2)  # the end of a line is up to two bytes
        if not line:
            return
        content = line.rstrip(b"\r\n")
        if len(content) > most:
            while line and not line.endswith(b"\n"):
                line = stream.readline(_DROP_BYTES)
            yield None
        elif content.strip():
            yield content


class Writer:
    """Writes lines to a file descriptor. Once its reader has gone, lines are dropped: nobody could be told."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = threading.Lock()
        self._gone = False

    def write(self, line: bytes) -> None:
        """Write one line; `line` holds no line feed. Blocks while the reader doesn't read."""
        rest = memoryview(line + b"\n")
        with self._turn:
            try:
                while rest and not self._gone:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                self._gone = True
