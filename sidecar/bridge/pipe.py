"""A pipe of lines to the program that started this one, such as an editor.

Reading and writing have a thread each, on every system: a pipe can't be read
from the event loop on Windows, and a reader at the other end that pauses must
not hold up the daemon. The descriptors are private copies, read without a
buffer: a thread that waits in the buffered stdin aborts the interpreter's end.
Whatever is inherited or printed by others does not meet the pipe.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator

LONGEST_LINE: int = 1 << 20
"""Bytes of a line without its end, in both directions."""

_READ_BYTES = 1 << 16
_MOST_WAITING = 1000  # lines; more wait only for a reader that has stopped reading


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


def claim_stdin() -> int:
    """A private descriptor of the real stdin. What anybody else reads there, a child process too, has ended."""
    own = os.dup(0)  # no child process inherits it
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(own, os.O_BINARY)
    return own


def lines(descriptor: int, most_bytes: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Each line without its end, until the writer's end is closed. Blocks.

    None stands for a line of more than `most_bytes`, which was dropped as it
    came. Blank lines are passed over, and what follows the last line feed is no
    line: its writer died in the middle.
    """
    begun = bytearray()
    too_long = False
    while True:
        try:
            got = os.read(descriptor, _READ_BYTES)
        except OSError:  # so Windows says that the writer has gone
            return
        if not got:
            return
        *ended, rest = got.split(b"\n")
        for end in ended:
            begun += end
            line = bytes(begun).rstrip(b"\r")
            if too_long or len(line) > most_bytes:
                yield None
            elif line.strip():
                yield line
            begun.clear()
            too_long = False
        begun += rest
        if len(begun) > most_bytes + 1:  # one more may be the CR of the line's end
            begun.clear()
            too_long = True


class Pipe:
    """Both directions. Lines that come are handed over by a thread of the pipe's own."""

    def __init__(self, descriptor_in: int, descriptor_out: int) -> None:
        self._in = descriptor_in
        self._out = Writer(descriptor_out)
        self._waiting: dict[object, bytes] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._writing = threading.Thread(target=self._write, name="pipe out", daemon=True)
        self._writing.start()

    def read(self, on_line: Callable[[bytes | None], None], on_end: Callable[[], None]) -> None:
        """Begin to read. Both are called in the pipe's thread; `on_line` gets None for a line that was too long."""

        def work() -> None:
            for line in lines(self._in):
                on_line(line)
            on_end()

        threading.Thread(target=work, name="pipe in", daemon=True).start()

    def send(self, line: bytes, *, slot: str | None = None, needed: bool = True) -> None:
        """Write a line soon; never blocks.

        Where the reader has fallen behind, a line takes the place of the one of
        its `slot` that still waits, and one that is not `needed` is left out.
        """
        with self._changed:
            if needed or len(self._waiting) < _MOST_WAITING:
                self._waiting[slot or object()] = line
                self._changed.notify()

    def close(self, within_s: float) -> None:
        """Write what waits, if the reader takes it in that time. Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writing.join(within_s)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                line = self._waiting.pop(next(iter(self._waiting)))
            self._out.write(line)
