"""Remembers refused requests without letting them fill the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sidecar.vault.paths import printable
from sidecar.web.answers import Refusal

logger = logging.getLogger(__name__)

OnRefused = Callable[[str, int, str], None]
"""Called with the reason in a word, the status and the client's own name for itself, cut and escaped."""

_AGENT_CHARS = 120


class Refusals:
    """At most one line a second in the log, with a count of what it stands for."""

    def __init__(self, on_refused: OnRefused, *, log_every_s: float = 1.0) -> None:
        self._on_refused = on_refused
        self._log_every_s = log_every_s
        self._held_back = 0
        self._quiet: asyncio.TimerHandle | None = None

    def note(self, refusal: Refusal, agent: str) -> None:
        """A request was refused; `agent` is its User-Agent as it came."""
        self._on_refused(refusal.reason or refusal.code, refusal.status, readable(agent))
        if self._quiet is not None:
            self._held_back += 1
            return
        logger.warning("refused a request: %s (%d)", refusal.code, refusal.status)
        self._quiet = asyncio.get_running_loop().call_later(self._log_every_s, self._summary)

    def close(self) -> None:
        """Log what was held back."""
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if self._held_back:
            logger.warning("refused %d more requests", self._held_back)
            self._held_back = 0

    def _summary(self) -> None:
        self._quiet = None
        if self._held_back:
            logger.warning("refused %d more requests since", self._held_back)
            self._held_back = 0
            self._quiet = asyncio.get_running_loop().call_later(self._log_every_s, self._summary)


def readable(text: str) -> str:
    """A client's own words, safe for a status line: cut, and nothing that a terminal would obey."""
    return printable(text[:_AGENT_CHARS])
