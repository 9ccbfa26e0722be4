"""What a corpus is made of: the notes of a vault, or the documents of a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sidecar.index.documents.read import takes
from sidecar.index.prepare import PREPARED_VERSION, Lot
from sidecar.index.preparing import Read
from sidecar.vault.paths import is_note_name


@dataclass(frozen=True, slots=True)
class Profile:
    """Which files of a folder are indexed.

    takes       whether a file of this name is one of them
    version     of how they are read and cut; with another one, all are taken as new
    most_files  that one corpus may have; None: any number
    empty       what people are told of a folder that had many files and has none
    called      what they are told that the folder is
    """

    takes: Callable[[str], bool]
    version: int | str
    most_files: int | None = None
    empty: str = (
        "The vault folder holds no notes any more; perhaps its disk is not mounted."
        " If it was emptied on purpose, run 'vault-sidecar index rebuild'."
    )
    called: str = "The vault folder"


class Preparing(Protocol):
    """Turns files into what is stored of them."""

    def expect(self, notes: int) -> None:
        """So many files are waiting; 0: none is left."""
        ...

    async def prepare(self, reads: Sequence[Read]) -> Lot:
        """Each file prepared or left out."""
        ...

    async def prepare_here(self, reads: Sequence[Read]) -> Lot:
        """The same for files that were just saved: they don't wait behind others."""
        ...

    async def close(self) -> None:
        """End what was started for it."""
        ...


NOTES: Final = Profile(is_note_name, PREPARED_VERSION)
DOCUMENTS: Final = Profile(
    takes,
    "documents 1",
    most_files=50_000,
    empty=(
        "The folder of this database holds no files any more; perhaps its disk is not mounted."
        " If it was emptied on purpose, 'vault-sidecar db remove' deletes its index."
    ),
    called="The folder of this database",
)

MOST_DOCUMENT_BYTES: Final = 64 << 20
"""Of one file of a database."""
