"""Tells whether a name was only found because the disk compares names without case, as macOS does by default."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence


def is_respelled(opened: int, parts: Sequence[str]) -> bool:
    """Whether what was opened is really spelled in another case, which macOS allows by default."""
    if sys.platform != "darwin":
        return False
    import fcntl

    real = fcntl.fcntl(opened, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode("utf-8", "surrogateescape")
    return differs_in_case(real.split("/")[-len(parts) :], parts)


def differs_in_case(real: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether two paths are the same but for case. A hard link's other name is another name, not another case."""

    def form(parts: Sequence[str]) -> str:
        return unicodedata.normalize("NFC", "/".join(parts))

    return form(real) != form(asked) and form(real).casefold() == form(asked).casefold()
