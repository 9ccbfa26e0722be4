"""From a note's bytes to everything the index stores of it. Pure, so that it may run in another process."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sidecar.index.chunks import Chunk, chunks_of
from sidecar.index.counted import Counted, Counting
from sidecar.index.literal import Entry, entry
from sidecar.index.tokens import Tokenizer
from sidecar.vault.jail import FileStat, NoteFile
from sidecar.vault.notes import Note, parse_note
from sidecar.vault.paths import VaultPath

PREPARED_VERSION = 1
"""Raised when notes are read or cut in another way; every note is taken as new then."""


class Piece(NamedTuple):
    """A chunk with its identity and its words."""

    chunk: Chunk
    text_hash: bytes
    """Of what is embedded: 16 bytes. Equal texts share one vector."""
    key: bytes
    """Of all that its keywords are made of: 16 bytes. Equal keys have equal counts."""
    document: int
    """Its place among the documents that were counted with it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A note as it is now, ready to be stored."""

    note: Note
    """Without its text and body: those are in `packed` and the pieces, and would cross to the daemon twice."""
    stat: FileStat
    language: str
    """What the words of its chunks are cut by; "" if the text shows none."""
    pieces: Sequence[Piece]
    folded: Entry
    packed: bytes
    """The whole text, compressed."""


NO_STAT = FileStat(mtime_ns=0, size=0, ctime_ns=0, inode=0)
"""The state of what has none: it differs from every file's."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that is left out, and why. `listed`: it is a note by name, so list_notes shows it."""

    path: str
    reason: str
    listed: bool
    stat: FileStat = NO_STAT
    drops: bool = False
    """What is indexed of it is not what is there, and goes."""


class Lot(NamedTuple):
    """What became of several notes."""

    results: Sequence[Prepared | Skip]
    words: Counted
    """Of all their pieces, and perhaps of others."""


def prepare(path: VaultPath, file: NoteFile, tokenizer: Tokenizer, words: Counting) -> Prepared:
    """Parse, cut, count and fold one note. The words of its pieces go to `words`."""
    note = parse_note(path, file.data)
    language = tokenizer.language(note.body)
    chunks = chunks_of(note.title, note.body, aliases=note.aliases, tags=note.tags, stem=path.stem)
    pieces = [_piece(chunk, language, tokenizer, words) for chunk in chunks]
    slim = replace(note, text="", body="", frontmatter={})
    return Prepared(slim, file.stat, language, pieces, entry(path.text, note.text), pack(note.text))


def _piece(chunk: Chunk, language: str, tokenizer: Tokenizer, words: Counting) -> Piece:
    text = chunk.words
    return piece(chunk, text, language, words.add(tokenizer.counts(text, language)))


def piece(chunk: Chunk, words: str, language: str, document: int) -> Piece:
    """A chunk with its identity. `words` are the chunk's own, which are made anew at each question."""
    told = f"{language}\n{words}".encode("utf-8", "surrogatepass")
    return Piece(chunk, chunk.key, hashlib.blake2b(told, digest_size=16).digest(), document)


def pack(text: str) -> bytes:
    """Compressed text."""
    # level 1: three times smaller at about 100 MB/s, which is what keeps a cold index cheap
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


def unpack(packed: bytes) -> str:
    """The text that was packed."""
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")
