"""From a file to what the index stores of it: read by the readers, put into the form of a prepared note.

A document has no title, links or headings of its own for the index, and its
whole text is not kept: it is found by its passages, which are the chunks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from sidecar.index.chunks import Chunk
from sidecar.index.counted import NO_WORDS, joined
from sidecar.index.documents.read import grows, is_plain, read
from sidecar.index.documents.readers import DocumentReaders, Lost
from sidecar.index.documents.reading import Reading, reading
from sidecar.index.literal import entry
from sidecar.index.prepare import Lot, Prepared, Skip, pack, piece
from sidecar.index.preparing import Read
from sidecar.index.tokens import Tokenizer
from sidecar.tasks import Lane
from sidecar.vault.jail import NoteFile
from sidecar.vault.notes import Note, checksum_of
from sidecar.vault.paths import VaultPath, printable

logger = logging.getLogger(__name__)

_WORTH_IT: Final = 200
"""Files that wait; below that, plain text is read in this process."""
_SMALL: Final = 1 << 20
"""Bytes of plain text that may be read in this process."""
_SMALL_TABLE: Final = 1 << 16
"""And of a table: one that is made to do harm comes to 35 times its size."""

_OFF: Final = "it can't be read now: no process for it can be started"


class DocumentPreparers:
    """What `Preparers` are to notes. Several corpora share the readers."""

    def __init__(self, readers: DocumentReaders, tokenizer: Tokenizer, whose: str = "") -> None:
        """`whose` says in the log whose files these are."""
        self._readers = readers
        self._whose = whose
        self._tokenizer = tokenizer
        self._lane = Lane("documents")
        self._many = False

    def expect(self, notes: int) -> None:
        """So many files are waiting."""
        self._many = notes >= _WORTH_IT or (self._many and notes > 0)

    async def prepare(self, reads: Sequence[Read]) -> Lot:
        """Each file prepared, or left out with a reason; both if a part of it was left out."""
        return await self._prepared(reads, urgent=False)

    async def prepare_here(self, reads: Sequence[Read]) -> Lot:
        """The same ahead of others."""
        return await self._prepared(reads, urgent=True)

    async def close(self) -> None:
        """Wait for what runs here."""
        await self._lane.close()

    async def _prepared(self, reads: Sequence[Read], *, urgent: bool) -> Lot:
        readings = await asyncio.gather(*(self._read(path, file, urgent=urgent) for path, file in reads))
        lot = await self._lane.run(_lot, list(zip(reads, readings, strict=True)))
        for skip in lot.results:
            if isinstance(skip, Skip):
                logger.warning("skipped %s%s: %s", printable(skip.path), self._whose, skip.reason)
        return lot

    async def _read(self, path: VaultPath, file: NoteFile, *, urgent: bool) -> Reading | Skip:
        try:
            small = _SMALL_TABLE if grows(path.name) else _SMALL
            if is_plain(path.name) and len(file.data) <= small and (urgent or not self._many):
                return await self._lane.run(_read_here, path.name, file.data, self._tokenizer)
            return await self._readers.read(path.name, file.data, urgent=urgent)
        except Lost as lost:
            return Skip(path.text, str(lost), listed=True, stat=file.stat, drops=True)
        except OSError:
            return Skip(path.text, _OFF, listed=True)  # the next scan tries again


def _read_here(name: str, data: bytes, tokenizer: Tokenizer) -> Reading:
    return reading(read(name, data), tokenizer)


def _lot(read: Sequence[tuple[Read, Reading | Skip]]) -> Lot:
    results: list[Prepared | Skip] = []
    words = [one.words for _, one in read if isinstance(one, Reading)]
    document = 0
    for (path, file), one in read:
        if isinstance(one, Skip):
            results.append(one)
            continue
        if one.passages or not one.warning:
            results.append(_document(path, file, one, document))
        if one.warning:
            results.append(Skip(path.text, one.warning, listed=True, stat=file.stat, drops=not one.passages))
        document += len(one.passages)
    return Lot(results, joined(words) if words else NO_WORDS)


def _document(path: VaultPath, file: NoteFile, found: Reading, first: int) -> Prepared:
    chunks = (Chunk(ordinal, "", text, 1) for ordinal, text in found.passages)
    pieces = [piece(chunk, chunk.words, found.language, first + at) for at, chunk in enumerate(chunks)]
    note = Note(
        path=path,
        checksum=checksum_of(file.data),
        text="",
        body="",
        body_line=1,
        note_id=f"path:{path.text}",
        title=path.name,
        tags=(),
        aliases=(),
        source=None,
        created=None,
        updated=None,
        links=(),
        warnings=() if found.warning is None else (found.warning,),
        frontmatter={},
    )
    return Prepared(note, file.stat, found.language, pieces, entry(path.text, ""), pack(""))
