"""Takes the vault's lock, also from a daemon that gives way to the newcomer.

A daemon is asked, never ended: it is told over its own port, after it has
proved itself, and it decides by what it is. Between its end and our turn a
relay may start another one; that one is asked as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.bridge import lock
from sidecar.bridge.client import LocalClient
from sidecar.errors import AlreadyServed, SidecarError

if TYPE_CHECKING:  # as in `lock`
    from sidecar.config import Owner

PATIENCE_S = 20.0  # a daemon ends within a second; one that is still starting has to listen before it can be asked

_LOOK_EVERY_S = 0.02


@contextmanager
def hold(
    state_dir: Path, owner: Owner, instance: str, *, is_called_off: Callable[[], bool] = lambda: False
) -> Generator[Owner | None]:
    """`lock.hold`, after asking whoever gives way to `owner` to leave. Entering blocks, at most for `PATIENCE_S`.

    Gives what the daemon was started as that made way; None if there was none. Once it `is_called_off` nobody is
    asked any more, and who has the lock keeps it.

    Raises:
        AlreadyServed: another daemon has the lock and keeps it.
        Unreadable: the lock file can't be used.
    """
    asked: set[str] = set()
    made_way: Owner | None = None
    give_up = time.monotonic() + PATIENCE_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock.hold(state_dir, owner, instance))
                break
            except lock.Held as held:
                if held.by is None or not lock.gives_way(held.by.owner, owner):
                    raise
                if is_called_off() or time.monotonic() > give_up:
                    raise
                if held.by.instance not in asked and _ask(state_dir, owner, held):
                    asked.add(held.by.instance)
                    made_way = held.by.owner
            time.sleep(_LOOK_EVERY_S)
        yield made_way


def _ask(state_dir: Path, owner: Owner, held: lock.Held) -> bool:
    """Ask the daemon to leave. False: it can't be asked yet, because it doesn't listen."""
    try:
        with LocalClient(state_dir) as client:
            client.post(f"/admin/hand-over?owner={owner}")
    except AlreadyServed:
        raise held from None  # it was started for something else than the file said
    except SidecarError:
        return False
    return True
