"""The mistake both editors report."""

from __future__ import annotations

from sidecar.errors import Unreadable


class Broken(Unreadable):
    """A client's settings file is not what its client could read, or not fit to be edited. It was not touched."""


def at_position(text: str, position: int, what: str) -> Broken:
    """`what` is wrong at a character of the text; people count lines and columns from 1."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return Broken(f"line {line}, column {column}: {what}")
