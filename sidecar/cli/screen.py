"""stderr for people: log lines, and a progress bar that stays below them.

On a terminal the bar is drawn over itself; elsewhere progress is a line now
and then. Any thread may write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TextIO

_REDRAW_S = 0.1
_LINE_S = 2.0
_CHANGE_S = 0.3  # a change of phase is told sooner
_SHORT_WORK_S = 1.0  # taking in a few saved notes is done before anyone could read about it
_BAR_CELLS = 24
_ERASE = "\r\x1b[K"


class Progress(Protocol):
    """How far a piece of long work is: the index's own record, or what a daemon's status says of it."""

    @property
    def phase(self) -> str:
        """What is being done; `ready` when nothing is."""
        ...

    @property
    def done(self) -> int:
        """Notes taken in."""
        ...

    @property
    def total(self) -> int:
        """Notes in all; 0 while nobody knows."""
        ...


class Screen:
    """One stream, shared by everything that writes to it."""

    def __init__(self, stream: TextIO) -> None:
        self.is_terminal = stream.isatty()
        self._stream = stream
        self._bar = ""
        self._turn = threading.RLock()

    def line(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        with self._turn:
            self._write(f"{_ERASE}{text}\n{self._bar}" if self._bar else f"{text}\n")

    def bar(self, text: str) -> None:
        """Draw `text` as the bar. Only for a terminal."""
        with self._turn:
            self._bar = text
            self._write(_ERASE + text)

    def clear(self) -> None:
        """Take the bar away, if there is one: before something else is written, and at the end."""
        with self._turn:
            if self._bar:
                self.bar("")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more; the daemon goes on
            self._bar = ""


class Reporter:
    """Shows progress as soon as it begins, then a few times a second at most, and its end."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._phase = ""
        self._since = clock()
        self._shown_at = float("-inf")
        self._shown_phase = ""
        self._was_ready = False

    def __call__(self, progress: Progress) -> None:
        """Take in how far the work is."""
        now, phase = self._clock(), str(progress.phase)
        if phase != self._phase:
            self._phase, self._since = phase, now
        if phase == "ready":
            self._ready(progress)
        elif self._is_due(now, phase):
            self._show(progress, now)

    def _is_due(self, now: float, phase: str) -> bool:
        if self._was_ready and now - self._since < _SHORT_WORK_S:
            return False
        line_s = _LINE_S if phase == self._shown_phase else _CHANGE_S
        return now - self._shown_at >= (_REDRAW_S if self._screen.is_terminal else line_s)

    def _show(self, progress: Progress, now: float) -> None:
        self._shown_at, self._shown_phase = now, self._phase
        counts = f"{progress.done:,} of {progress.total:,} notes" if progress.total else ""
        if not self._screen.is_terminal:
            self._screen.line(f"{self._phase}: {counts}" if counts else self._phase)
            return
        full = min(_BAR_CELLS, _BAR_CELLS * progress.done // progress.total) if progress.total else 0
        self._screen.bar(f"{self._phase} [{'#' * full}{'-' * (_BAR_CELLS - full)}] {counts}")

    def _ready(self, progress: Progress) -> None:
        self._screen.clear()
        if self._shown_phase or not self._was_ready:
            self._screen.line("ready: 1 note" if progress.total == 1 else f"ready: {progress.total:,} notes")
        self._was_ready, self._shown_phase = True, ""
