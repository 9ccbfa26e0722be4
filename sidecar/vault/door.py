"""What the jail needs from an operating system, and nothing more.

Two systems answer it in two ways: `jail_posix` walks by folder descriptors,
`jail_windows` opens and then asks the handle where it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class NotThere(Exception):
    """No such file or folder, or no way to it without following a link."""


class Entry(NamedTuple):
    """One visible entry of a folder: another folder, or something with the name of a note."""

    name: str
    status: os.stat_result | OSError | None
    """Of the entry itself, also when it is a link; None for a folder; the error when it could not be asked."""


class Listing(NamedTuple):
    """A folder's own status and its entries, in no order."""

    status: os.stat_result
    entries: list[Entry]


class Door(Protocol):
    """Opens what lies below one folder, and never anything else.

    `parts` are the segments of a path below it. Every method may raise NotThere or OSError.
    """

    def check(self) -> None:
        """Raise NotThere unless the folder's path still leads to the folder that was opened."""
        ...

    def reopen(self) -> None:
        """Open what is at the folder's path now and hold that from now on."""
        ...

    def open_file(self, parts: Sequence[str]) -> int:
        """A descriptor for reading. The caller judges by `fstat` what it is, and closes it."""
        ...

    def status(self, parts: Sequence[str]) -> os.stat_result:
        """Of the entry itself, also when it is a link. No parts: of the folder that is held."""
        ...

    def entries(self, parts: Sequence[str]) -> Listing:
        """The folder without hidden names, and without files that do not have the name of a note."""
        ...

    def close(self) -> None:
        """Let go of the folder."""
        ...
