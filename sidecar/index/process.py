"""What the processes of the index have in common: what they are given, where they speak, how they end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO, Final

_PASSED_ON: Final = frozenset(
    {
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),  # certificates of those who sign for a server of one's own
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
        *("TEMP", "TMP", "SYSTEMROOT", "WINDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    }
)


def environment_of_child(environment: Mapping[str, str]) -> dict[str, str]:
    """All of the environment that a process gets: what it needs to run, and nothing a secret may be in."""
    passed_on = {name: value for name, value in environment.items() if name.upper() in _PASSED_ON}
    return {**passed_on, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def pipes() -> tuple[BinaryIO, BinaryIO]:
    """In the process: its two ends of the daemon's pipes, moved away from where a library might read or print."""
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, 1):
            msvcrt.setmode(descriptor, os.O_BINARY)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def how_it_ended(code: int) -> str:
    """What an exit code says, in words."""
    if code >= 0:
        return f"ended by itself with code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
