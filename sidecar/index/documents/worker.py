"""The reader: a process that turns the bytes of one file after the other into counted passages.

It is where other people's parsers meet other people's files. It has no secret
of the environment, never sees a folder of the user, and its memory is limited
where the system can do that. It ends when the daemon does, even from the
middle of a file: its standard input ends then, and where a parser lets no
other thread run, an alarm of the system ends it.
"""

from __future__ import annotations

import importlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, Final

from sidecar.index import process
from sidecar.index.documents import frames
from sidecar.index.documents.document import Document
from sidecar.index.documents.frames import Head
from sidecar.index.documents.reading import Passage, reading
from sidecar.index.tokens import Tokenizer

_FRAME: Final = 1 << 17  # characters: more at once would keep the daemon's loop for longer than a query may wait
_OVERTIME_S: Final = 5  # the daemon ends a reader in time; this is for one whose daemon is gone

Read = Callable[[str, bytes], Document]


def main() -> None:
    """Read what comes on standard input. Arguments: module and function that read, bytes of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the daemon's business
    os.umask(0o077)
    requests, answers = process.pipes()
    is_limited = limit_memory(int(sys.argv[2]))
    module, _, function = sys.argv[1].partition(":")
    read: Read = getattr(importlib.import_module(module), function)
    jobs: queue.SimpleQueue[tuple[Head, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(requests, jobs), daemon=True).start()
    tokenizer = Tokenizer()
    _send(answers, {"hello": 1, "memory": is_limited})
    while True:
        head, data = jobs.get()
        limit_s = float(head["limit_s"])
        _alarm(limit_s)
        try:
            document = read(str(head["name"]), data)
            del data
            _send(answers, {"read": len(document.chunks)})
            _alarm(limit_s)
            _send_reading(answers, document, tokenizer, limit_s)
        except MemoryError:
            _send(answers, {"failed": "memory"})
            os._exit(0)
        _alarm(0)


def _send_reading(answers: BinaryIO, document: Document, tokenizer: Tokenizer, limit_s: float) -> None:
    frame: list[Passage] = []
    size = 0

    def add(passage: Passage) -> None:
        nonlocal frame, size
        frame.append(passage)
        size += len(passage[1])
        if size >= _FRAME:
            _send(answers, {"passages": frame})
            _alarm(limit_s)  # counting is our own code and comes to an end; a large file takes its time
            frame, size = [], 0

    done = reading(document, tokenizer, add)
    _send(answers, {"passages": frame})
    head = {"language": done.language, "warning": done.warning, "words": list(map(len, done.words))}
    _send(answers, head, b"".join(done.words))


def _send(answers: BinaryIO, head: Head, data: bytes = b"") -> None:
    try:
        answers.write(frames.encode(head, data))
        answers.flush()
    except OSError:
        os._exit(0)  # the daemon is gone


def _take(requests: BinaryIO, jobs: queue.SimpleQueue[tuple[Head, bytes]]) -> None:
    """Wait for files; the end of the stream is the end of the process, whatever it is doing."""
    try:
        while (message := frames.read(requests)) is not None:
            jobs.put(message)
    finally:
        os._exit(0)


def _alarm(limit_s: float) -> None:
    """Have the system end this process after that time; 0: not any more."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, limit_s + _OVERTIME_S if limit_s else 0)


def limit_memory(most_bytes: int) -> bool:
    """Have requests for more memory fail in this process. False where the system has no such limit (Windows, macOS)."""
    if sys.platform != "linux":
        return False
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves no file with the user's text
    return True


if __name__ == "__main__":
    main()
