"""How work grows with what it is given, by the processor's time: what else a machine does is not counted."""

from __future__ import annotations

import time
from collections.abc import Callable

_LEAST_ROUNDS = 3
_MOST_ROUNDS = 20


def growth(work: Callable[[int], object], size: int, times: int, *, enough: float = 0.0) -> float:
    """How many times as long `times` the size takes: the least of each, measured turn by turn.

    Measuring ends early once it is no more than `enough`.
    """
    least = {size: float("inf"), times * size: float("inf")}
    for rounds in range(1, _MOST_ROUNDS + 1):
        for each in least:
            begin = time.thread_time()
            work(each)
            least[each] = min(least[each], time.thread_time() - begin)
        if rounds >= _LEAST_ROUNDS and least[times * size] <= enough * least[size]:
            break
    return least[times * size] / least[size]
