"""Files that can't be used are moved out of the way, not deleted; the newest ones are kept.

`manifest.sqlite` becomes `manifest.sqlite.damaged-1`, its companion
`manifest.sqlite-wal` becomes `manifest.sqlite.damaged-1-wal`. Everything blocks.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

KEPT: Final = 2
"""Of each file, the newest ones."""


def set_aside(path: Path, companions: Sequence[str] = ()) -> Path | None:
    """Move what is at `path`, whatever it is, and its companions (ends of names); where it is now, if it was there.

    A link is moved, never followed. What was set aside longest ago is deleted.

    Raises:
        OSError: it can't be moved.
    """
    kept = found(path)
    newest = path.with_name(f"{path.name}.damaged-{max(kept, default=0) + 1}")
    for end in ("", *companions):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(newest.with_name(newest.name + end))
    now = found(path)
    for number in sorted(now)[: max(0, len(now) - KEPT)]:
        for end in ("", *companions):
            _delete(now[number].with_name(now[number].name + end))
    return newest if newest.is_symlink() or newest.exists() else None


def found(path: Path) -> dict[int, Path]:
    """What was set aside from `path`, by number; the greatest is the newest."""
    pattern = re.compile(re.escape(path.name) + r"\.damaged-([0-9]{1,9})(?:-wal)?")
    matches = (pattern.fullmatch(entry.name) for entry in path.parent.iterdir())
    return {int(match[1]): path.with_name(f"{path.name}.damaged-{match[1]}") for match in matches if match}


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
