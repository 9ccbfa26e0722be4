"""What is kept of every run: one JSON object a line in `runs.jsonl`, the newest 500 runs.

A run writes a line when it begins and one when it ends; the last line of an id
counts. The answer is not kept, and of the task only its beginning.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

from sidecar.bridge import private_files
from sidecar.bridge.times import now
from sidecar.errors import SidecarError, Unreadable

logger = logging.getLogger(__name__)

FILE_NAME: Final = "runs.jsonl"
MOST_RUNS: Final = 500
_LINES_BETWEEN: Final = 200  # so that the file is not made short for each run; it may hold so many more lines
_MOST_BYTES: Final = 32 << 20  # far more than so many lines can have

Outcome = Literal["running", "done", "failed", "refused", "busy", "cancelled", "timeout", "turn_limit", "interrupted"]
Way = Literal["mcp", "stdio", "plugin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run, or one call that came to none. What does not apply is None; times are RFC 3339 UTC."""

    id: str
    agent: str | None
    """Its name, or the name that was asked for."""
    task: str | None
    client: str | None
    caller: str
    way: Way
    outcome: Outcome
    reason: str | None = None
    """The error text."""
    provider: str | None = None
    model: str | None = None
    started_at: str
    ended_at: str | None = None
    duration_ms: int | None = None
    turns: int | None = None
    tools: Mapping[str, int] | None = None
    """How often each was called."""
    usage: Mapping[str, int] | None = None
    chars: int | None = None
    """Length of the answer."""

    def facts(self) -> dict[str, Any]:
        """JSON as it is."""
        return asdict(self)


_KEYS: Final = tuple(Record.__dataclass_fields__)


@dataclass(slots=True)
class Records:
    """The records of one vault. Blocks: call it in a lane. Reading needs nothing; writing, the vault's lock."""

    state_dir: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _written: int = 0
    """Lines since the file was last made short."""

    @property
    def _file(self) -> Path:
        return self.state_dir / FILE_NAME

    def add(self, record: Record) -> None:
        """Append a line in one write, so that lines of two writers don't mix.

        Raises:
            Unreadable: the disk refused, or the file can't be believed.
        """
        line = json.dumps(record.facts(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        with self._lock:
            descriptor = private_files.open_own(self._file, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            try:
                if _is_torn(descriptor):
                    line = b"\n" + line
                if os.write(descriptor, line) != len(line):
                    raise Unreadable(f"{FILE_NAME} can't be written: the line was cut off")
            except OSError as failed:
                raise Unreadable(f"{FILE_NAME} can't be written: {failed.strerror}") from failed
            finally:
                os.close(descriptor)
            self._written += 1
            if self._written > _LINES_BETWEEN:
                self._shorten()

    def newest(self, most: int = MOST_RUNS) -> list[Record]:
        """The last line of each run, the newest run first.

        Raises:
            Unreadable, TooLarge: the file can't be believed.
        """
        return self._read()[::-1][: min(most, MOST_RUNS)]

    def settle(self) -> int:
        """Close what was running when the last process ended as `interrupted`; how many there were.

        Raises:
            Unreadable: the disk refused.
        """
        open_ones = [record for record in self._read() if record.outcome == "running"]
        for record in open_ones:
            reason = f"'{record.agent}' was interrupted: the daemon ended."
            self.add(replace(record, outcome="interrupted", reason=reason, ended_at=now()))
        with self._lock:
            self._shorten()
        return len(open_ones)

    def _read(self) -> list[Record]:
        """Of each run the last line; oldest run first."""
        content = private_files.read(self._file, max_bytes=_MOST_BYTES) or b""
        found: dict[str, Record] = {}
        for line in content.splitlines():
            with suppress(ValueError, TypeError, KeyError, RecursionError):  # a line that was cut off
                record = _record(json.loads(line))
                found[record.id] = record
        return list(found.values())

    def _shorten(self) -> None:
        """Keep the newest runs, a line each, where the file holds far more."""
        self._written = 0
        records = self._read()
        if len(records) > MOST_RUNS:
            private_files.write(self._file, _lines(records[-MOST_RUNS:]))


def _lines(records: Iterable[Record]) -> bytes:
    return "".join(json.dumps(each.facts(), ensure_ascii=False) + "\n" for each in records).encode("utf-8", "replace")


def _record(raw: Any) -> Record:
    facts = cast("dict[str, Any]", raw)
    record = Record(**{key: facts[key] for key in _KEYS})
    if not isinstance(facts["id"], str):
        raise TypeError("id")
    return record


def _is_torn(descriptor: int) -> bool:
    """Whether the last line has no end, because a disk was full."""
    if os.fstat(descriptor).st_size == 0:
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"


def keep(records: Records, record: Record) -> None:
    """As `add`; a disk that refuses is told in the log alone, since no run may fail by it."""
    try:
        records.add(record)
    except SidecarError as bad:
        logger.warning("a run is not recorded: %s", bad)
