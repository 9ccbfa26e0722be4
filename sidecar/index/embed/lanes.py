"""Threads that share one queue of small calls, so that an urgent call waits for one other and for no batch."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_Job = tuple[bool, int, Callable[[], None] | None]


class Lanes:
    """`count` threads. No lane waits for another as long as there is anything to do."""

    def __init__(self, count: int, name: str) -> None:
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._order = itertools.count()  # makes every job different, so that no two functions are compared
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{at}", daemon=True) for at in range(count)]
        for thread in self._threads:
            thread.start()

    def map(self, function: Callable[[_In], _Out], items: Sequence[_In], *, urgent: bool = False) -> list[_Out]:
        """The results, in order. Blocks. Items of an urgent call are taken before those of any other.

        Raises:
            Exception: what `function` raised for one of them.
        """
        results: list[Future[_Out]] = [Future() for _ in items]
        for item, result in zip(items, results, strict=True):
            self._jobs.put((not urgent, next(self._order), _job(function, item, result)))
        return [result.result() for result in results]

    @property
    def waiting(self) -> int:
        """Items that no lane has begun."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Do what was asked for, then end."""
        for _ in self._threads:
            self._jobs.put((True, next(self._order), None))
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()[2]) is not None:
            job()


def _job(function: Callable[[Any], Any], item: object, result: Future[Any]) -> Callable[[], None]:
    def do() -> None:
        try:
            result.set_result(function(item))
        except BaseException as failed:
            result.set_exception(failed)

    return do
