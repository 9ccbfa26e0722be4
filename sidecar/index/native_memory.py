"""Memory of native libraries, as far as it can be given back."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back() -> None:
    """What was freed goes back to the system: 25 MB once e5 is loaded. Only glibc would keep it; elsewhere a no-op."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
