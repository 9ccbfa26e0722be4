"""Events on macOS and Windows, through watchfiles: both watch a whole tree at once and follow no links."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from watchfiles import watch

from sidecar.vault.ignore import IGNORE_FILE
from sidecar.vault.paths import is_hidden
from sidecar.vault.watch import DEBOUNCE_S, EVERYTHING, IDLE_S, STEP_S

logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs absolute paths below that


class NativeSource:
    """One recursive watch on the root."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def batches(self, stop: threading.Event, armed: Callable[[], None]) -> Iterator[set[str]]:
        """Every visible entry that changed, whatever its kind."""
        try:
            for changes in watch(
                self._root,
                watch_filter=None,
                debounce=int(DEBOUNCE_S * 1000),
                step=int(STEP_S * 1000),
                stop_event=_Stop(stop, armed),
                rust_timeout=int(IDLE_S * 1000),
                yield_on_timeout=True,
                raise_interrupt=False,
                force_polling=False,
                ignore_permission_denied=True,
            ):
                yield {text for _, path in changes if (text := relative(self._root, path, os.sep)) is not None}
        except RuntimeError as failed:  # its internal errors, such as a name that can't be decoded
            raise OSError(None, "the watcher failed") from failed


class _Stop:
    """The event watchfiles looks at. It does so only once it watches, so its first look tells that it does."""

    def __init__(self, stop: threading.Event, armed: Callable[[], None]) -> None:
        self._stop = stop
        self._armed: Callable[[], None] | None = armed

    def is_set(self) -> bool:
        """Whether to stop."""
        if self._armed is not None:
            armed, self._armed = self._armed, None
            armed()
        return self._stop.is_set()


def relative(root: str, path: str, separator: str) -> str | None:
    """A path below `root` in the form of the vault, "" for the root; None for one that is hidden or elsewhere."""
    root = root.rstrip(separator)
    if path == root:
        return EVERYTHING
    if not path.startswith(root + separator):
        return None
    text = path[len(root) + 1 :].replace(separator, "/")
    return None if text != IGNORE_FILE and any(map(is_hidden, text.split("/"))) else text
