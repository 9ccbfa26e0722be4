"""What stands for a parser in tests of the readers: the name of the file says what it does."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import time

from sidecar.index.counted import counted
from sidecar.index.documents import frames
from sidecar.index.documents.document import Document
from sidecar.index.documents.read import read as really_read

_poisoned: list[str] = []

READ = f"{__name__}:read"


def read(name: str, data: bytes) -> Document:
    """Do what the name says."""
    match name.partition(".")[0]:
        case "hang":
            time.sleep(3600)
        case "spin":  # in a call that lets no other thread run
            re.match(r"(a+)+$", "a" * 60 + "b")
        case "poison":  # the harm shows at the next file
            _poisoned.append(name)
        case _ if _poisoned:
            ctypes.string_at(0)
        case "crash":
            ctypes.string_at(0)
        case "leave":
            os._exit(7)
        case "greedy":
            return Document((str(len(b"x" * int(data))),))
        case "noisy":
            sys.stdout.write("text of the user")
            sys.stdout.flush()
            os.write(1, b"more of it")
        case "environment":
            return Document(("\n".join(f"{key}={value}" for key, value in os.environ.items()),))
        case "input":
            return Document((repr(os.read(0, 10)),))
        case "where":
            return Document((os.getcwd(),))
        case "process":
            return Document((str(os.getpid()),))
        case "many":
            return Document(tuple("word " * 300 + str(number) for number in range(1000)))
        case "lies":
            os.write(_answers(), b"\xff" * 64)
            time.sleep(3600)
        case "forged":  # an answer of one's own, in which the words fit the passages
            given = json.loads(data)
            words = counted([{"word": 1}] * len(given["passages"]))
            head = {"language": "", "warning": given.get("warning"), "words": list(map(len, words))}
            for answer in ({"read": 1}, {"passages": given["passages"]}):
                os.write(_answers(), frames.encode(answer))
            os.write(_answers(), frames.encode(head, b"".join(words)))
            time.sleep(3600)
        case _:
            return really_read(name, data)
    return Document(("done",))


def _answers() -> int:
    """The pipe to the daemon: the highest descriptor that is one."""
    return max(int(number) for number in os.listdir("/proc/self/fd") if _is_written_pipe(int(number)))


def _is_written_pipe(number: int) -> bool:
    try:
        return (
            os.readlink(f"/proc/self/fd/{number}").startswith("pipe:") and os.get_blocking(number) and _writes(number)
        )
    except OSError:
        return False


def _writes(number: int) -> bool:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
