"""One step of a trial connection, and what people are told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StepName = Literal["entry", "program", "daemon", "port", "Host", "token", "tools"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step and how it went, for people: what was found, or what is wrong and what to do. A failed one is the last."""

    name: StepName
    ok: bool
    says: str
