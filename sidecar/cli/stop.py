"""`stop`: ends the vault's daemon and waits until it is gone."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from pathlib import Path

from sidecar.bridge import lock
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.cli import where
from sidecar.errors import Unreachable

_PATIENCE_S = 15.0
_LOOK_EVERY_S = 0.02


def run(args: Namespace) -> int:
    """Stop it. None running is as good: exit code 0."""
    state_dir = where.find(args).state_dir
    held = lock.holder(state_dir)
    try:
        with LocalClient(state_dir) as client:
            client.post("/admin/stop")
    except NotRunning:
        print("no daemon serves this vault", file=sys.stderr)
        return 0
    if held is not None:
        _wait(state_dir, held)
    print("stopped", file=sys.stderr)
    return 0


def _wait(state_dir: Path, held: lock.Holder) -> None:
    """Until the lock is free, so that the next start can't meet the daemon that is just leaving."""
    give_up = time.monotonic() + _PATIENCE_S
    while lock.holder(state_dir) == held and _is_alive(held.pid):
        if time.monotonic() > give_up:
            raise Unreachable(f"the daemon (pid {held.pid}) was told to stop, but has not ended yet")
        time.sleep(_LOOK_EVERY_S)


def _is_alive(pid: int) -> bool:
    """Asks the kernel only; nothing is sent to the process."""
    if sys.platform == "win32":
        return True  # there is no such question there, and a signal 0 would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
