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

_Job = tuple[bool, int, Callable[[Any], None] | None]


class Lanes(Generic[_Tool]):
    """A thread for each of `tools`, which it has for itself. None waits for another as long as there is work."""

    def __init__(self, tools: Sequence[_Tool], name: str) -> None:
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._order = itertools.count()  # makes every job different, so that no two functions are compared
        self._threads = [
            threading.Thread(target=self._run, args=(tool,), name=f"{name}-{at}", daemon=True)
            for at, tool in enumerate(tools)
        ]
        for thread in self._threads:
            thread.start()

    def map(self, function: Callable[[_Tool, _In], _Out], items: Sequence[_In], *, urgent: bool = False) -> list[_Out]:
        """`function` of a tool and each item, in order. Blocks. Items of an urgent call are taken before all others.

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

    def _run(self, tool: _Tool) -> None:
        while (job := self._jobs.get()[2]) is not None:
            job(tool)


def _job(function: Callable[[Any, Any], Any], item: object, result: Future[Any]) -> Callable[[Any], None]:
    def do(tool: object) -> None:
        try:
            result.set_result(function(tool, item))
        except BaseException as failed:
            result.set_exception(failed)

    return do
