"""Threads that share one queue of small calls, so that an urgent call waits for one other and for no batch."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

_Tool = TypeVar("_Tool")
_In = TypeVar("_In")
_Out = TypeVar("_Out")

_Do = Callable[[list[Any], Callable[[], Any]], None]
_Job = tuple[bool, int, _Do | None]


class Lanes(Generic[_Tool]):
    """Threads, each with a tool for itself. None waits for another as long as there is work."""

    def __init__(
        self,
        count: int,
        make: Callable[[], _Tool],
        name: str,
        *,
        rest_s: float | None = None,
        rested: Callable[[], None] = lambda: None,
    ) -> None:
        """`make` is called in a lane that has something to do and no tool; it is the lane's as long as it works.

        Args:
            rest_s: a lane without work for so long lets go of its tool. None: never.
            rested: called in that lane afterwards.
        """
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._order = itertools.count()  # makes every job different, so that no two functions are compared
        self._make, self._rest_s, self._rested = make, rest_s, rested
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{at}", daemon=True) for at in range(count)]
        for thread in self._threads:
            thread.start()

    def map(self, function: Callable[[_Tool, _In], _Out], items: Sequence[_In], *, urgent: bool = False) -> list[_Out]:
        """`function` of a tool and each item, in order. Blocks. Items of an urgent call are taken before all others.

        Raises:
            Exception: what `function` raised for one of them, or `make`.
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
        bench: list[_Tool] = []
        while True:
            try:
                job = self._jobs.get(timeout=self._rest_s if bench else None)[2]
            except queue.Empty:
                bench.clear()
                self._rested()
                continue
            if job is None:
                return
            job(bench, self._make)


def _job(function: Callable[[Any, Any], Any], item: object, result: Future[Any]) -> _Do:
    def do(bench: list[Any], make: Callable[[], Any]) -> None:
        try:
            if not bench:
                bench.append(make())
            result.set_result(function(bench[0], item))
        except BaseException as failed:
            result.set_exception(failed)

    return do
