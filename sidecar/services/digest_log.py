"""What is known of the digests made so far, in a file of the state folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from sidecar.bridge import private_files
from sidecar.errors import TooLarge

logger = logging.getLogger(__name__)

FILE_NAME: Final = "digests.json"

_MOST_ENTRIES: Final = 400
_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A digest that was made."""

    day: str
    """`2026-11-30`, in local time."""
    note_id: str
    path: str
    proposal: str


@dataclass(frozen=True, slots=True)
class DigestLog:
    """All of them, oldest first, and how far through the index the last one looked."""

    entries: tuple[Entry, ...] = ()
    seen_until: int = 0
    """Time of indexing, in seconds, of the newest note that was looked at."""
    seen_then: tuple[str, ...] = ()
    """Ids of the notes that were indexed in just that second: others may follow in it."""
    last_run: str | None = None
    """RFC 3339 in UTC: when one was last asked for, whatever came of it."""

    def with_entry(self, entry: Entry, seen_until: int, seen_then: Sequence[str]) -> DigestLog:
        """The log after one more digest."""
        entries = (*self.entries, entry)[-_MOST_ENTRIES:]
        return replace(self, entries=entries, seen_until=seen_until, seen_then=tuple(seen_then))


def read(state_dir: Path) -> DigestLog:
    """The log; an empty one, with a warning, where the file is no good. Blocks.

    Raises:
        Unreadable: somebody else may have written it, or the disk refused.
    """
    try:
        data = private_files.read(state_dir / FILE_NAME, max_bytes=_MAX_BYTES)
        return DigestLog() if data is None else _parsed(json.loads(data))
    except (ValueError, ArithmeticError, RecursionError, TypeError, LookupError, AttributeError, TooLarge):
        logger.warning("%s can't be read; digests begin anew", FILE_NAME)
        return DigestLog()


def write(state_dir: Path, log: DigestLog) -> None:
    """Replace the file as a whole. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    private_files.write(state_dir / FILE_NAME, (json.dumps(asdict(log), indent=2) + "\n").encode())


def _parsed(found: Any) -> DigestLog:
    facts = cast("dict[str, Any]", found)
    entries = tuple(Entry(**{key: str(value) for key, value in entry.items()}) for entry in facts["entries"])
    if not all(entry.note_id.startswith("kp:") for entry in entries):
        raise ValueError("a digest has no id of its own")
    last_run: object = facts["last_run"]
    if last_run is not None and datetime.fromisoformat(str(last_run)).tzinfo is None:
        raise ValueError("last_run has no offset from UTC")
    return DigestLog(
        entries,
        int(facts["seen_until"]),
        tuple(str(note_id) for note_id in facts["seen_then"]),
        None if last_run is None else str(last_run),
    )
