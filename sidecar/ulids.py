"""ULIDs: ids that sort by the moment they were made in.

26 characters of Crockford's base 32: 48 bits of milliseconds, then 80 random
bits. Two of one millisecond differ, and the later one sorts after.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

PATTERN: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS: Final = 80


class Ulids:
    """Makes ids, each greater than the one before, also when the clock is set back. For any thread."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock_ms = clock_ms
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """A new id."""
        with self._lock:
            moment = self._clock_ms() << _RANDOM_BITS
            if moment >> _RANDOM_BITS > self._last >> _RANDOM_BITS:
                self._last = moment | secrets.randbits(_RANDOM_BITS)
            else:  # the random part counts on; where it is full, the millisecond does
                self._last += 1
            return "".join(_ALPHABET[self._last >> shift & 31] for shift in range(125, -1, -5))


new_ulid: Final = Ulids()
"""Makes the ids of this process."""
