"""What a process has used, told by Linux. Elsewhere there is nothing to tell, and `Usage.known` says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass
class Usage:
    """Of one process, between the begin and the end of a block."""

    known: bool
    cpu_s: float = 0.0
    """Processor time of its threads: wall time without what other programs took."""
    rise_mib: float = 0.0
    """How far its memory rose above what it had at the beginning, at the highest."""


@contextmanager
def used(pid: int) -> Iterator[Usage]:
    """Measure a process during the block; filled in at its end."""
    usage = Usage(known=(PROC / str(pid) / "clear_refs").exists())
    if not usage.known:
        yield usage
        return
    (PROC / str(pid) / "clear_refs").write_text("5")  # the highest mark begins anew
    cpu_s, memory_kib = _cpu_s(pid), _status_kib(pid, "VmRSS")
    yield usage
    usage.cpu_s = _cpu_s(pid) - cpu_s
    usage.rise_mib = (_status_kib(pid, "VmHWM") - memory_kib) / 1024


def _cpu_s(pid: int) -> float:
    # the first number of a thread's schedstat: nanoseconds on a processor
    total_ns = 0
    for thread in (PROC / str(pid) / "task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            total_ns += int((thread / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def _status_kib(pid: int, name: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)
