"""The log of `serve`, on stderr.

Names and messages that come from outside can't forge a line or command a
terminal: everything is escaped, and what follows the first line of an entry,
a traceback, is marked as such. Keys are cut out as a last defence; nobody
should log one in the first place.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from sidecar.cli.screen import Screen
from sidecar.vault.paths import printable

# our own keys by their form (bridge/token.py), wherever they come from
_KEYS = r"vs[cl]_[A-Za-z0-9_-]{43,}"


class OneLine(logging.Formatter):
    """Time, level, room and message on one line; a traceback below it, each line marked by a `|`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", "%Y-%m-%d %H:%M:%S", style="{")
        self._secrets = re.compile("|".join([_KEYS, *(re.escape(secret) for secret in secrets if secret)]))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The first line: whatever the message holds, one line."""
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The whole entry."""
        first, *rest = super().format(record).splitlines()
        entry = "\n".join([first, *(f"    | {printable(line)}" for line in rest)])
        return self._secrets.sub("***", entry)


class ScreenHandler(logging.Handler):
    """Writes entries above the progress bar."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Write one entry; a mistake in a log call must not stop the work."""
        try:
            self._screen.line(self.format(record))
        except Exception:
            self.handleError(record)


def set_up(screen: Screen, level: str, secrets: Iterable[str] = ()) -> None:
    """Log our own rooms from `level` up, and other people's libraries only from warnings up: some log contents."""
    handler = ScreenHandler(screen)
    handler.setFormatter(OneLine(secrets))
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sidecar").setLevel(level.upper())
