"""What an agent's contributions and judgments are worth to others, as one number from 0 to 1. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sidecar.services.knowledge.quality import rounded

FIRST: Final = 0.1
"""Points for the first contribution, once."""
UNIT: Final = 0.2
SKILL: Final = 0.1
JUDGMENT: Final = 0.05
"""For each unit of others that was judged, once."""

_SLOWNESS: Final = 4.0  # points after which an agent is at 1 - 1/e


@dataclass(frozen=True, slots=True)
class Record:
    """What is counted of one agent. `valid` and `invalid` are judgments of others on the agent's units."""

    units: int = 0
    skills: int = 0
    judged: int = 0
    valid: int = 0
    invalid: int = 0

    @property
    def contributions(self) -> int:
        """Accepted skills and units; judgments are none."""
        return self.units + self.skills


def score(record: Record) -> float:
    """From 0 for somebody unknown towards 1, less where others found units invalid."""
    points = FIRST * bool(record.contributions) + UNIT * record.units + SKILL * record.skills + JUDGMENT * record.judged
    trust = (record.valid + 2) / (record.valid + record.invalid + 2)
    return rounded((1 - math.exp(-points / _SLOWNESS)) * trust)
