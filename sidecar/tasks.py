"""Work that outlives a call: tasks that are started again when they fail, lanes for blocking calls, whole changes.

A lane is a small named thread pool. Cancelling an `await` on a lane does not
stop the thread, so whatever runs in one must be safe to run again.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from sidecar.errors import SidecarError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """Threads of one purpose, so that slow disks can't hold up queries and the other way round."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in this lane and wait for its result."""
        context = contextvars.copy_context()
        bound = functools.partial(context.run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, bound)

    async def close(self) -> None:
        """Wait for what runs, drop what has not begun. The wait itself does not block the loop."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)


class Unbroken:
    """Changes that go on to their end although whoever asked for them may leave."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[Any]] = set()

    def whole(self, change: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """`change` as one that cancelling its caller does not stop."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            task = asyncio.ensure_future(change(*args, **kwargs))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                task.add_done_callback(_say_how_it_failed)
                raise

        return run

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._under_way:
            await asyncio.wait(self._under_way)


def _say_how_it_failed(change: asyncio.Future[Any]) -> None:
    """Nobody else hears of it."""
    failed = None if change.cancelled() else change.exception()
    if isinstance(failed, SidecarError):
        logger.warning("a change that nobody waited for any more was not made: %s", failed)
    elif failed is not None:
        logger.error("a change that nobody waited for any more failed", exc_info=failed)


async def keep_running(
    name: str, work: Callable[[], Awaitable[None]], *, first_delay_s: float = 0.5, longest_delay_s: float = 30.0
) -> None:
    """Run `work` until it returns; start it again, later each time, when it fails."""
    delay_s = first_delay_s
    while True:
        try:
            return await work()
        except SidecarError:
            raise  # deliberate: retrying would not help
        except Exception:
            logger.exception("%s failed; starting again in %.1f s", name, delay_s)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, longest_delay_s)


def at_signals(call: Callable[[], object]) -> None:
    """Have the running loop call this when somebody asks the process to end, by Ctrl-C or by a signal."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
        else:
            loop.add_signal_handler(number, call)
