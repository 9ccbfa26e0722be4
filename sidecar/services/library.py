"""Ranked notes by their ids: what a client reads of the vault as a collection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sidecar.errors import NotFound, VectorsAway
from sidecar.index.cards import Card, card_of, links_of, recent
from sidecar.index.corpus import Corpus
from sidecar.index.linking import Target
from sidecar.index.search import Answer, Hit, Mode
from sidecar.vault import frontmatter
from sidecar.vault.kp_block import Namespace, no_id, parse_id
from sidecar.vault.notes import checksum_of, decode, parse_note
from sidecar.vault.paths import VaultPath

MOST_RECENT: Final = 50
"""Rows of `recent`."""

_DAY_S: Final = 86_400
_DIGITS: Final = 6  # of a score; what differs by less is equal


@dataclass(frozen=True, slots=True)
class FullNote:
    """A note: its body as it is on disk now, and what the index knows of it."""

    card: Card
    """Of the same bytes as the body."""
    body: str
    links: Sequence[Target]


class Library:
    """Answers about the notes of one corpus. An id may be given in any namespace; answers carry the note's own."""

    def __init__(self, corpus: Corpus, *, max_note_bytes: int) -> None:
        self._corpus = corpus
        self._max_note_bytes = max_note_bytes

    async def search(self, query: str, k: int, mode: Mode) -> Answer:
        """The `k` best notes, each by its best chunk; equal scores by id.

        Raises:
            NotReady: no note is indexed yet.
            VectorsAway: `vector` is asked and can't be served.
        """
        try:
            answer = await self._corpus.search(query, k, mode)
        except VectorsAway as away:
            raise VectorsAway(self._without_vectors(away)) from away
        return replace(answer, hits=_in_order(answer.hits))

    def _without_vectors(self, away: VectorsAway) -> str:
        if self._corpus.has_vectors:
            return f'{away} Try again soon, or use mode "fts".'
        return 'There is no vector index: embeddings are off or their model is missing. Use mode "fts".'

    async def note(self, raw_id: str) -> FullNote:
        """A note by its id.

        Raises:
            BadArguments, BadPath: the text is no id.
            NotFound: no note has it, or its file is gone.
            NotReady: no indexed note has it, and not all are indexed yet.
            Unreadable, TooLarge: the file can't be read.
        """
        note = await self.whole(await self._card(raw_id))
        if note is None:
            raise no_id(raw_id)
        return note

    async def whole(self, card: Card) -> FullNote | None:
        """The note of a card, read now; None if its file is gone.

        Raises:
            Unreadable, TooLarge: the file can't be read.
        """
        path = VaultPath.found(card.path)
        try:
            file = await self._corpus.read(path, max_bytes=self._max_note_bytes)
        except NotFound:
            return None
        links = await self._corpus.ask(lambda reader: links_of(reader, card.path))
        now, body = await self._corpus.ask(lambda _: _as_it_is(card, path, file.data))
        return FullNote(now, body, links)

    async def related(self, raw_id: str, k: int) -> tuple[Card, Sequence[Hit]]:
        """A note, and the `k` notes nearest to it by meaning, best first; none for a note without vectors.

        Raises:
            BadArguments, BadPath, NotFound, NotReady: as of `note`.
            VectorsAway: the vector index can't answer now.
        """
        card = await self._card(raw_id)
        return card, _in_order(await self._corpus.related(card.path, k))

    async def recent(self, days: int, namespace: Namespace | None) -> Sequence[Card]:
        """What was indexed in the last days, newest first, equal times by id; at most `MOST_RECENT`."""
        now = int(time.time())
        return await self._corpus.ask(
            lambda reader: recent(reader, now - days * _DAY_S, now, namespace, MOST_RECENT),
        )

    async def _card(self, raw_id: str) -> Card:
        note_id = parse_id(raw_id)
        card = await self._corpus.ask(lambda reader: card_of(reader, note_id))
        if card is None:
            self._corpus.refuse_while_filling()
            raise no_id(raw_id)
        return card


def _in_order(hits: Sequence[Hit]) -> list[Hit]:
    """Best first, then by id, as the scores are shown."""
    rounded = [replace(hit, score=round(hit.score, _DIGITS)) for hit in hits]
    return sorted(rounded, key=lambda hit: (-hit.score, hit.note_id))


def _as_it_is(card: Card, path: VaultPath, data: bytes) -> tuple[Card, str]:
    """The body in these bytes, and the card brought up to them where the file was changed a moment ago. Blocks."""
    text, _ = decode(data)
    body = text[frontmatter.split(text).body_start :]
    if checksum_of(data) == card.checksum:
        return card, body
    note = parse_note(path, data)
    now = replace(card, title=note.title, tags=note.tags, source=note.source, checksum=note.checksum)
    return replace(now, created=note.created, updated=note.updated), body
