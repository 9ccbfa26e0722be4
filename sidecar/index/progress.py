"""What the index is doing, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What the index is doing."""

    OPENING = "opening"
    SCANNING = "scanning"
    INDEXING = "indexing"
    READY = "ready"
    AWAY = "vault unavailable"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a piece of long work is."""

    phase: Phase
    done: int
    total: int
