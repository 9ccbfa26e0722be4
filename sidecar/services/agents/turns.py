"""One turn of a run: a model is asked until it answers, or until trying again makes no sense."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sidecar.services.agents.toolbox import ToolCall

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model said: text, or calls it wants done first."""

    text: str
    calls: tuple[ToolCall, ...]
    input_tokens: int
    output_tokens: int


class Trouble(Exception):
    """The provider gave no answer. The text stands behind "failed: "."""

    def __init__(self, text: str, *, may_pass: bool = False, retry_after_s: float | None = None) -> None:
        """`may_pass`: trying again may help, after `retry_after_s` if the provider said so."""
        super().__init__(text)
        self.may_pass = may_pass
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take, and how long is waited in between."""

    turn_s: float = 60.0
    run_s: float = 300.0
    delays_s: tuple[float, ...] = (0.5, 2.0)
    """Before the second try and the last, where the provider names no time."""
    longest_wait_s: float = 20.0
    """A provider that wants to be left alone for longer is not asked again."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


async def patiently(ask: Callable[[], Awaitable[Turn]], pace: Pace) -> Turn:
    """Ask; if what went wrong may pass, again.

    Raises:
        Trouble: the last one.
    """
    for delay_s in pace.delays_s:
        try:
            return await ask()
        except Trouble as trouble:
            wait_s = delay_s if trouble.retry_after_s is None else trouble.retry_after_s
            if not trouble.may_pass or wait_s > pace.longest_wait_s:
                raise
            logger.info("a provider is asked again in %g s", wait_s)
        await pace.sleep(wait_s)
    return await ask()
