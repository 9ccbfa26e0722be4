"""Jobs done one after the other in a thread of their own, in pieces that show that they get on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager

from sidecar.index.wire import Message

Steps = Generator[None, None, Message]
"""A job: pauses after every piece, returns its answer."""


class LineOfWork:
    """Jobs in the order in which they came. `sign` is called after every piece, from the line's thread."""

    def __init__(
        self,
        name: str,
        in_hand: Callable[[int | None], AbstractContextManager[None]],
        answer: Callable[[int, int | None, Message | BaseException], None],
        sign: Callable[[], None],
    ) -> None:
        """`in_hand` is entered with the number of a job's store for each piece of it, `answer` gets what `put` got."""
        self._in_hand = in_hand
        self._answer = answer
        self._sign = sign
        self._jobs: queue.SimpleQueue[tuple[int, int | None, Steps] | None] = queue.SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, number: int, store: int | None, steps: Steps) -> None:
        """Have a job done that has this store in hand, or none; the numbers come back with its answer."""
        self._jobs.put((number, store, steps))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._stopped:
            number, store, steps = job
            try:
                while not self._stopped:
                    with self._in_hand(store):
                        next(steps)
                    self._sign()
            except StopIteration as done:
                self._answer(number, store, done.value)
            except BaseException as failed:
                self._answer(number, store, failed)

    def stop(self, within_s: float) -> bool:
        """End after the piece that runs; what waits is not answered. False: that piece goes on."""
        self._stopped = True
        self._jobs.put(None)
        self._thread.join(within_s)
        return not self._thread.is_alive()
