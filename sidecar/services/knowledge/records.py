"""What the registry keeps of an item, and what is put in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.services.knowledge.skill_md import Visibility

SKILL: Final = "skill"
"""The kind of a skill; that of a unit is its type."""


@dataclass(frozen=True, slots=True)
class New:
    """An item on its way into the store, scrubbed and checked, with everything but its id and score."""

    kind: str
    name: str
    domain: str
    tags: tuple[str, ...]
    credited: str
    visibility: Visibility | None
    """None: nothing was said about it."""
    content: str
    """A whole SKILL.md, or a unit as JSON."""
    words: str
    """What it is found by, a line for each text."""
    checksum: bytes
    """Of the canonical content, without a unit's own id."""
    given_id: str | None
    """A unit's own id, if the contributor gave one."""
    suspicious: bool
    held: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """An item as the store knows it, without its content."""

    key: int
    """Its number in the index; never used twice."""
    id: str
    kind: str
    own_id: str
    """A unit's own id; "" for a skill."""
    name: str
    domain: str
    tags: tuple[str, ...]
    contributor: str
    org: str
    credited: str
    visibility: str
    contributed: float
    """The score it came with; judgments start from it."""
    quality: float
    suspicious: bool
    held: bool
    quarantined: bool
    warnings: tuple[str, ...]
    created: str


@dataclass(frozen=True, slots=True)
class Full:
    """An item with its content: a SKILL.md as text, or a unit as an object with its present score and judges."""

    item: Stored
    content: Any


def stored(row: Sequence[Any]) -> Stored:
    """The item of a row of the store."""
    values = list(row)
    for place in (6, 16):
        values[place] = tuple(json.loads(values[place]))
    for place in (13, 14, 15):
        values[place] = bool(values[place])
    return Stored(*values)
