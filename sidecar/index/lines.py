"""Jobs that are done a little at a time, so that an urgent one need not wait for the end of a long one."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from sidecar.index.wire import Message

Steps = Generator[None, None, Message]
"""A job: pauses where another may come first, returns its answer."""


@dataclass(order=True, slots=True)
class _Job:
    rank: tuple[bool, int]
    number: int = field(compare=False)
    steps: Steps = field(compare=False)


class LineOfWork:
    """Jobs one at a time in a thread of their own: urgent ones first, else in the order in which they came."""

    def __init__(self, name: str, answer: Callable[[int, Message | BaseException], None], sign: Callable[[], None]):
        self._answer = answer
        self._sign = sign
        self._jobs: list[_Job] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, number: int, steps: Steps, *, urgent: bool) -> None:
        """Have a job done; `number` comes back with its answer."""
        with self._changed:
            heapq.heappush(self._jobs, _Job((not urgent, next(self._order)), number, steps))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._jobs or self._stopped):
                    self._changed.wait()
                if self._stopped:
                    return
                job = heapq.heappop(self._jobs)
            try:
                next(job.steps)
            except StopIteration as done:
                self._answer(job.number, done.value)
            except BaseException as failed:
                self._answer(job.number, failed)
            else:
                self._sign()
                with self._changed:
                    heapq.heappush(self._jobs, job)

    def stop(self, within_s: float) -> bool:
        """End after the piece that runs. False: that one goes on."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(within_s)
        return not self._thread.is_alive()
