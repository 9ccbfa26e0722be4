"""What a person copies when something is wrong: versions, system, state, the end of the log. No key, no note."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

LINES: Final = 200
"""Of the log."""

_SHOWN: Final = ("phase", "port", "notes", "indexed", "byMeaning", "skippedInAll", "generation", "embedder", "vectors")


def text(status: Mapping[str, Any], log: Sequence[str]) -> str:
    """From the result of `status` and the last lines of the log. Of paths there are those in the log, if any."""
    rows = [
        f"vault-sidecar {status['version']}, Python {platform.python_version()}",
        f"{platform.system()} {platform.release()}, {platform.machine()}",
        *(f"{name}: {status[name]}" for name in _SHOWN),
    ]
    rows += [f"{name}: {status[name]['reason']}" for name in ("problem", "refused") if status[name]]
    return "\n".join([*rows, "", *log]) + "\n"
