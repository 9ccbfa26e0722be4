"""Lines of a stream, read within a bound."""

from __future__ import annotations

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
