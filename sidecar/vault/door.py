"""What the vault's rooms need from an operating system, and nothing more.

Two systems answer it in two ways: `jail_posix` and `folder_posix` work by
folder descriptors, `jail_windows` and `folder_windows` open and then ask the
handle where it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class NotThere(Exception):
    """No such file or folder, or no way to it without following a link."""


class Unsupported(Exception):
    """The file system has no such operation."""


class Entry(NamedTuple):
    """One visible entry of a folder: another folder, or something with the name of a file that is wanted."""

    name: str
    status: os.stat_result | OSError | None
    """Of the entry itself, also when it is a link; None for a folder; the error when it could not be asked."""


class Listing(NamedTuple):
    """A folder's own status and its entries, in no order."""

    status: os.stat_result
    entries: list[Entry]


class Folder(Protocol):
    """One folder, held open so that what is in it can be changed.

    A name is one segment, and no link is followed. Every method may raise OSError.
    """

    def status(self) -> os.stat_result:
        """Of the folder itself."""
        ...

    def entries(self) -> list[tuple[str, bool]]:
        """Every name, hidden ones too, and whether it is a folder; in no order."""
        ...

    def open_file(self, name: str) -> int:
        """A descriptor for reading; NotThere if there is no such name. The caller judges by `fstat` what it is."""
        ...

    def make_file(self, name: str) -> int:
        """A new file of mode 0600 and a descriptor for writing it; FileExistsError if the name is taken."""
        ...

    def make_folder(self, name: str) -> None:
        """A new folder with the mode of this one; FileExistsError if the name is taken."""
        ...

    def give(self, name: str, new: str) -> None:
        """Have the file `name` under the name `new`; FileExistsError if that is taken. `name` may stay as well."""
        ...

    def swap(self, name: str, other: str) -> None:
        """Exchange two files in one step: at no moment is one of the names missing.

        Raises:
            Unsupported: the file system can't.
        """
        ...

    def move(self, name: str, over: str) -> None:
        """Rename a file or a folder; a file of the name `over` is replaced in one step."""
        ...

    def remove(self, name: str) -> None:
        """Take a file's name away; FileNotFoundError if there is no such name."""
        ...

    def remove_folder(self, name: str) -> None:
        """Take an empty folder away; OSError if it is not empty."""
        ...

    def sync(self) -> None:
        """Make the names in this folder outlast a power cut."""
        ...

    def close(self) -> None:
        """Let go of the folder."""
        ...


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
        """The folder without hidden names, and without files whose names are not wanted."""
        ...

    def folder(self, parts: Sequence[str]) -> Folder:
        """A folder below, or itself, held open; NotThere also where its real name is in another case."""
        ...

    def close(self) -> None:
        """Let go of the folder."""
        ...
