"""The endpoint file: where this vault's daemon listens, for programs of the same user.

Written once the socket listens, removed at the end. It holds no key. After a
crash it may be stale, so nobody may believe it without the identity proof.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from sidecar.bridge import private_files, times
from sidecar.errors import SidecarError, Unreadable

FILE_NAME = "endpoint.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One daemon's address and name. `instance` tells two runs apart; `started` is RFC 3339 UTC."""

    url: str
    port: int
    pid: int
    instance: str
    version: str
    started: str


def of_this_process(port: int, instance: str, version: str) -> Endpoint:
    """The endpoint of a daemon that listens on `port` since now."""
    return Endpoint(f"http://127.0.0.1:{port}/mcp", port, os.getpid(), instance, version, times.now())


def write(state_dir: Path, endpoint: Endpoint) -> None:
    """Publish; call it after the socket listens. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    private_files.write(state_dir / FILE_NAME, json.dumps(asdict(endpoint), indent=1).encode() + b"\n")


def read(state_dir: Path) -> Endpoint | None:
    """What was published last, by a daemon that may be gone; None where nothing is. Blocks.

    Raises:
        Unreadable: the file is a link, another user's, open for writing to others, or damaged.
    """
    content = private_files.read(state_dir / FILE_NAME, max_bytes=1 << 14)
    if content is None:
        return None
    try:
        return _parse(json.loads(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"{FILE_NAME} is damaged; the next start of the daemon writes it anew") from error


def remove(state_dir: Path, instance: str) -> None:
    """Withdraw what `instance` published; what another run published stays. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    try:
        found = read(state_dir)
    except SidecarError:
        return  # whatever lies there isn't ours
    if found is not None and found.instance == instance:
        private_files.remove(state_dir / FILE_NAME)


def _parse(raw: Any) -> Endpoint:
    """Checked by hand: this runs in every short command, and importing pydantic takes longer than the command."""
    values = cast("dict[str, Any]", raw)
    endpoint = Endpoint(**values)
    for name in ("url", "instance", "version", "started"):
        if not isinstance(getattr(endpoint, name), str):
            raise TypeError(name)
    for name in ("port", "pid"):
        if type(getattr(endpoint, name)) is not int:
            raise TypeError(name)
    if not 0 < endpoint.port < 65536:
        raise ValueError("port")
    return endpoint
