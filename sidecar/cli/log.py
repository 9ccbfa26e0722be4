"""The log of `serve`, on stderr.

Names and messages that come from outside can't forge a line or command a
terminal: everything is escaped, and what follows the first line of an entry,
a traceback, is marked as such. Keys are cut out as a last defence; nobody
should log one in the first place.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable

from sidecar.cli.screen import Screen
from sidecar.vault.paths import printable

# our own keys by their form (bridge/token.py), wherever they come from
_KEYS = r"vs[cl]_[A-Za-z0-9_-]{43,}"

_TAIL_LINES = 1000


class OneLine(logging.Formatter):
    """Time, level, room and message on one line; a traceback below it, each line marked by a `|`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", "%Y-%m-%d %H:%M:%S", style="{")
        self._secrets = re.compile(_KEYS)
        self._known = [_KEYS]
        for secret in secrets:
            self.conceal(secret)

    def conceal(self, secret: str) -> None:
        """Cut this out too, from now on."""
        if secret and re.escape(secret) not in self._known:
            self._known.append(re.escape(secret))
        self._secrets = re.compile("|".join(self._known))

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


class Tail(logging.Handler):
    """Keeps the last entries for who asks for them, and passes warnings and errors on as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._pass_on: Callable[[str, str], object] | None = None

    def listen(self, pass_on: Callable[[str, str], object]) -> None:
        """Have this called, in any thread, with `warning` or `error` and the entry."""
        self._pass_on = pass_on

    def last(self, most: int) -> list[str]:
        """The last entries, oldest first."""
        return list(self._lines)[-most:]

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one entry; a mistake in a log call must not stop the work."""
        try:
            entry = self.format(record)
            self._lines.append(entry)
            if self._pass_on is not None and record.levelno >= logging.WARNING:
                self._pass_on("error" if record.levelno >= logging.ERROR else "warning", entry)
        except Exception:
            self.handleError(record)


def set_up(screen: Screen, level: str, secrets: Iterable[str] = (), tail: Tail | None = None) -> OneLine:
    """Log our own rooms from `level` up, and other people's libraries only from warnings up: some log contents.

    What comes back writes the entries, for secrets that are learnt of later.
    """
    handlers: list[logging.Handler] = [ScreenHandler(screen), *([tail] if tail else [])]
    formatter = OneLine(secrets)
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(logging.WARNING)
    set_level(level)
    return formatter


def set_level(level: str) -> None:
    """Log our own rooms from this level up."""
    logging.getLogger("sidecar").setLevel(level.upper())
