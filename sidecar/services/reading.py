"""Listing, reading and searching notes as they are in the vault."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.errors import NotFound
from sidecar.index.corpus import Corpus
from sidecar.index.text_search import TextAnswer
from sidecar.vault.notes import checksum_of, decode
from sidecar.vault.paths import VaultPath, no_folder, no_note, printable


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list of note paths."""

    folder: str
    total: int
    offset: int
    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note's whole text as it is on disk now, and the checksum of its bytes (`sha256:…`)."""

    path: str
    text: str
    checksum: str


class Reading:
    """Reads one corpus for people and clients."""

    def __init__(self, corpus: Corpus, *, max_note_bytes: int) -> None:
        self._corpus = corpus
        self._max_note_bytes = max_note_bytes

    async def page(self, folder: str, *, limit: int, offset: int) -> Page:
        """Note paths under a folder ("" = all), by code point order of the whole path.

        Raises:
            BadPath: the text is no folder path.
            NotFound: there is no such folder.
        """
        place = VaultPath.folder(folder)
        if place.text and (
            self._corpus.is_ignored(place, is_folder=True) or await self._corpus.kind(place) != "folder"
        ):
            raise no_folder(VaultPath(folder))
        await self._corpus.wait_for_names()
        names = self._corpus.names()
        low, high = _span(names, place.text)
        return Page(place.text, high - low, offset, names[low + offset : min(high, low + offset + limit)])

    async def read(self, raw: str) -> NoteText:
        """A note's text now. Another Unicode form of its name is accepted if exactly one note has it.

        Raises:
            BadPath, NotFound, Unreadable, TooLarge: with a sentence for the caller.
        """
        path = VaultPath.note(raw)
        try:
            return await self._read(path)
        except NotFound:
            names = self._corpus.names()
            same = [name for name in names if _nfc(name) == _nfc(path.text)]
            if len(same) == 1 and same[0] != path.text:
                return await self._read(VaultPath.found(same[0]))
            near = [name for name in names if _loose(name) == _loose(path.text)]
            if len(near) == 1 and near[0] != path.text:
                raise NotFound(f"{no_note(path)} Did you mean '{printable(near[0])}'?") from None
            raise

    async def _read(self, path: VaultPath) -> NoteText:
        if self._corpus.is_ignored(path):
            raise no_note(path)
        file = await self._corpus.read(path, max_bytes=self._max_note_bytes)
        text, _ = decode(file.data)
        return NoteText(path.text, text, checksum_of(file.data))

    async def search_text(self, query: str, limit: int) -> TextAnswer:
        """Notes that hold `query` literally, without case, in a line or in their path.

        Raises:
            NotReady: no note is indexed yet.
        """
        return await self._corpus.search_text(query, limit)


def _span(names: Sequence[str], folder: str) -> tuple[int, int]:
    """Where the paths under a folder stand in the sorted names."""
    if not folder:
        return 0, len(names)
    return bisect_left(names, folder + "/"), bisect_left(names, folder + "0")  # "0" follows "/"


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _loose(text: str) -> str:
    """Equal for paths that differ only by case or suffix."""
    folded = _nfc(text).casefold()
    return folded.removesuffix(".md")
