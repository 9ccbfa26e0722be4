"""What an agent may call at the most, whatever its file says.

Every name here is the name of one of our own tools; those of a surface that is
switched off, or of a tool that is gated off, are simply not there to be called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CEILING: Final = frozenset(
    {
        "list_notes",
        "read_note",
        "search_notes",
        "semantic_search",
        "get_memory",
        "write_note",
        "kp_search",
        "kp_get_note",
        "kp_related",
        "kp_recent",
        "kp_digest_latest",
        "kp_propose",
        "list_rag",
        "search_rag",
    }
)
"""No agent runs another one or lists them, gives anything to the registry of knowledge, or leaves this program."""

_EQUALS: Final = {
    "Read": "read_note",
    "Glob": "list_notes",
    "Grep": "search_notes",
    "Write": "write_note",
    "Edit": "write_note",
}
"""What agent files of Claude Code call a tool, and our tool for the same."""


def ours(names: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    """Those of our tools that are named, within the ceiling; and the names that mean nothing here."""
    known: set[str] = set()
    unknown: list[str] = []
    for name in names:
        tool = _EQUALS.get(name, name)
        if tool in CEILING:
            known.add(tool)
        else:
            unknown.append(name)
    return frozenset(known), unknown
