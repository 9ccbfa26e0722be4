"""A pipe's lines: cut and bounded on the way in, whole and never waited for on the way out."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bridge import pipe
from sidecar.bridge.pipe import Pipe, Writer
from tests.conftest import REPOSITORY

PIPE_BYTES = 1 << 16  # what Linux keeps for a reader that is slow


def read(content: bytes, most: int = 10) -> list[bytes | None]:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as stream:
            stream.write(content)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        return list(pipe.lines(reading, most))
    finally:
        thread.join()
        os.close(reading)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\n", [b"a", b"b"]),
        (b"\n \n\r\na\n", [b"a"]),
        (b"0123456789\n", [b"0123456789"]),
        (b"0123456789\r\n", [b"0123456789"]),
        (b"01234567890\na\n", [None, b"a"]),
        (b"x" * 5_000_000 + b"\na\n", [None, b"a"]),
        (b"x" * 5_000_000, []),
        (b"a\nhalf", [b"a"]),
    ],
)
def test_lines_are_cut_at_their_ends_and_dropped_when_too_long_or_half(
    content: bytes, expected: list[bytes | None]
) -> None:
    assert read(content) == expected


@given(
    st.lists(st.binary(max_size=30).filter(lambda line: not set(line) & set(b"\r\n") and line.strip())),
    st.integers(1, 7),
)
def test_every_line_comes_out_once_and_in_order_however_it_arrives(lines: list[bytes], size: int) -> None:
    content = b"".join(line + b"\n" for line in lines)
    reading, writing = os.pipe()
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    came: list[bytes | None] = []
    thread = threading.Thread(target=lambda: came.extend(pipe.lines(reading, 10)))
    thread.start()
    for piece in pieces:
        os.write(writing, piece)
    os.close(writing)
    thread.join()
    os.close(reading)
    assert came == [line if len(line) <= 10 else None for line in lines]


def test_lines_of_many_threads_do_not_mix() -> None:
    reading, writing = os.pipe()
    writer = Writer(writing)
    long = [bytes([ord("a") + number]) * 300_000 for number in range(8)]
    threads = [threading.Thread(target=writer.write, args=(line,)) for line in long]
    for thread in threads:
        thread.start()
    with os.fdopen(reading, "rb") as stream:
        came = {stream.readline() for _ in long}
    assert came == {line + b"\n" for line in long}
    for thread in threads:
        thread.join()
    os.close(writing)


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = Writer(writing)
    for _ in range(3):
        writer.write(b"a")
    os.close(writing)


class Ends:
    """A pipe, and the other program's ends of it."""

    def __init__(self) -> None:
        self.inward, self.to = os.pipe()
        self.out_of, self.outward = os.pipe()
        self.pipe = Pipe(self.inward, self.outward)

    def read_all(self) -> bytes:
        """What comes until the pipe is closed on this side."""
        closing = threading.Thread(target=self._close)
        closing.start()
        came = b""
        while piece := os.read(self.out_of, PIPE_BYTES):
            came += piece
        closing.join()
        return came

    def _close(self) -> None:
        self.pipe.close(60)
        os.close(self.outward)
        self.outward = -1


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    for descriptor in (made.inward, made.to, made.out_of, made.outward):
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError:
                continue


def test_lines_and_the_end_are_handed_over_in_a_thread(ends: Ends) -> None:
    came: queue.Queue[object] = queue.Queue()
    ends.pipe.read(came.put, lambda: came.put("end"))
    thread = threading.Thread(target=_write_and_close, args=(ends,))
    thread.start()
    assert [came.get(timeout=60) for _ in range(4)] == [b"a", None, b"b", "end"]
    thread.join()


def _write_and_close(ends: Ends) -> None:
    with os.fdopen(ends.to, "wb") as stream:
        stream.write(b"a\n" + b"x" * (pipe.LONGEST_LINE + 1) + b"\nb\n")
    ends.to = -1


def test_a_reader_that_pauses_holds_nobody_up_and_misses_nothing_that_it_needs(ends: Ends) -> None:
    filler = b"f" * (PIPE_BYTES - 1)  # fills the pipe; what comes after it has to wait
    ends.pipe.send(filler)
    needed = [b"%d" % number for number in range(3000)]
    for number, line in enumerate(needed):
        ends.pipe.send(line)
        ends.pipe.send(b"state %d" % number, slot="state")
        ends.pipe.send(b"log %d" % number, needed=False)
    lines = ends.read_all().splitlines()
    assert [line for line in lines if line.isdigit()] == needed
    states = [line for line in lines if line.startswith(b"state")]
    assert states[-1] == b"state 2999" and len(states) <= 3, "those that waited gave their place to newer ones"
    assert 0 < sum(line.startswith(b"log") for line in lines) < 3000


def test_nothing_that_is_printed_or_read_by_others_meets_the_pipe() -> None:
    code = """
import os, subprocess, sys
from sidecar.bridge.pipe import claim_stdin
from sidecar.cli import stdout
own_in, own_out = claim_stdin(), stdout.claim()
print("noise of python", flush=True)
os.write(1, b"noise of a library\\n")
subprocess.run([sys.executable, "-c", "import sys; print('noise of a child', repr(sys.stdin.read()))"])
os.write(own_out, b"answer to " + os.read(own_in, 100))
assert not os.get_inheritable(own_in) and not os.get_inheritable(own_out)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"question", capture_output=True, cwd=REPOSITORY, timeout=60
    )
    assert done.stdout == b"answer to question", done.stderr
    assert b"noise of python\nnoise of a library\nnoise of a child ''" in done.stderr
