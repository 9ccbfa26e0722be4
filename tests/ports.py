"""Ports for programs that are told which one to take."""

from __future__ import annotations

import secrets
import socket

_FIRST, _LAST = 25_000, 32_000


def free_port() -> int:
    """A port of loopback on which nobody listens.

    It lies below those that the system deals to connections: one of these could be taken by a connection before it is
    listened on, and who tries again and again to reach it while nobody listens may in the end reach itself.
    """
    while True:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
