"""How a command changes something: through the running daemon, or alone with the lock in hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sidecar.bridge import identity, lock
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.cli.where import Where
from sidecar.errors import AlreadyServed

_PATIENCE_S = 10.0  # a daemon that has just taken the lock is about to listen, one that is leaving about to let it go
_LOOK_EVERY_S = 0.05

Facts = dict[str, Any]


def make(place: Where, ask: Callable[[LocalClient], Facts], alone: Callable[[], Facts]) -> Facts:
    """The facts that `ask` gets from the running daemon, or that `alone` makes while no daemon can start. Blocks.

    The state folder must exist.

    Raises:
        AlreadyServed: a daemon has the lock, and did not come to listen.
        SidecarError: what the daemon or `alone` refused.
    """
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with LocalClient(place.state_dir) as client:
                return ask(client)
        except NotRunning:
            pass  # nothing was asked yet
        try:
            with lock.hold(place.state_dir, "command", identity.new_instance()):
                return alone()
        except AlreadyServed:
            if time.monotonic() > give_up:
                raise
            time.sleep(_LOOK_EVERY_S)
