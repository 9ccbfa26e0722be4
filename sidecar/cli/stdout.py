"""stdout for what a command has to say and for nothing else, whatever libraries print."""

from __future__ import annotations

import os
import sys


def claim() -> int:
    """A file descriptor of the real stdout, for bytes as they are. What anybody else writes there goes to stderr.

    Done on the level of the system, since libraries in C and child processes write past `sys.stdout`.
    """
    sys.stdout.flush()
    own = os.dup(1)  # no child process inherits it
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(own, os.O_BINARY)  # else a line feed becomes two bytes
    return own
