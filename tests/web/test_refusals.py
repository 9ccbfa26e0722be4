"""A storm of refused requests in the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sidecar.web import answers, refusals
from sidecar.web.refusals import Refusals


class Lines(logging.Handler):
    """The lines of a log, and the moment when the second one is there."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.two = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if len(self.lines) == 2:
            self.two.set()


async def test_t22_a_thousand_refusals_are_two_lines_and_a_count() -> None:
    seen: list[tuple[str, int, str]] = []
    noted = Refusals(lambda *facts: seen.append(facts), log_every_s=0.05)
    log = Lines()
    refusals.logger.addHandler(log)
    try:
        for _ in range(1000):
            noted.note(answers.WRONG_TOKEN, "client")
        async with asyncio.timeout(30):
            await log.two.wait()
    finally:
        refusals.logger.removeHandler(log)
        noted.close()
    assert log.lines == ["refused a request: unauthorized (401)", "refused 999 more requests since"]
    assert seen == [("wrong_token", 401, "client")] * 1000


async def test_what_was_held_back_is_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    noted = Refusals(lambda *_: None)
    with caplog.at_level(logging.WARNING):
        noted.note(answers.WRONG_TOKEN, "")
        noted.note(answers.WRONG_TOKEN, "")
        noted.close()
    assert caplog.messages[-1] == "refused 1 more requests"
