"""Changes that are made whole: whoever asked may leave, the change goes on."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sidecar import tasks
from sidecar.errors import Unreadable
from sidecar.tasks import Unbroken


class Change:
    """Waits to be let on, then is made, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.made: list[int] = []
        self.failure = failure

    async def __call__(self, number: int) -> int:
        self.begun.set()
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure
        self.made.append(number)
        return number

    async def left(self, unbroken: Unbroken) -> None:
        """Ask for it, and leave once it has begun."""
        asking = asyncio.ensure_future(unbroken.whole(self)(7))
        await self.begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the log says of changes; others may write there too."""
    return [record for record in caplog.records if record.name == tasks.logger.name]


async def test_who_waits_gets_the_result_or_the_failure() -> None:
    unbroken = Unbroken()
    change = Change()
    change.go_on.set()
    assert await unbroken.whole(change)(7) == 7
    change.failure = Unreadable("no disk")
    with pytest.raises(Unreadable, match="no disk"):
        await unbroken.whole(change)(7)
    await unbroken.close()


async def test_a_change_is_made_although_nobody_waits_any_more(caplog: pytest.LogCaptureFixture) -> None:
    unbroken, change = Unbroken(), Change()
    await change.left(unbroken)
    closing = asyncio.ensure_future(unbroken.close())
    await asyncio.sleep(0)
    assert not closing.done() and not change.made
    change.go_on.set()
    await closing
    assert (change.made, told(caplog)) == ([7], [])


async def test_without_it_the_change_ends_with_who_asked() -> None:
    """Control."""
    change = Change()
    asking = asyncio.ensure_future(change(7))
    await change.begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    change.go_on.set()
    await asyncio.sleep(0)
    assert not change.made


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        pytest.param(Unreadable("no disk"), "was not made: no disk", id="refused"),
        pytest.param(ZeroDivisionError(), "any more failed", id="a-mistake-of-ours"),
    ],
)
async def test_a_failure_that_nobody_waits_for_is_in_the_log(
    caplog: pytest.LogCaptureFixture, failure: Exception, line: str
) -> None:
    unbroken, change = Unbroken(), Change(failure)
    await change.left(unbroken)
    change.go_on.set()
    await unbroken.close()
    await asyncio.sleep(0)
    [record] = told(caplog)
    assert record.getMessage().endswith(line)
    assert (record.exc_info is not None) is isinstance(failure, ZeroDivisionError)
