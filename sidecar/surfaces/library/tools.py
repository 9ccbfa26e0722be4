"""Handlers of the library tools: they give the answers of the services their fixed shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.contract import Call
from sidecar.index.search import Hit as Found
from sidecar.index.search import Mode
from sidecar.services.core import Core
from sidecar.surfaces.library.shapes import (
    Digest,
    DigestArgs,
    DigestResult,
    FrontmatterFacts,
    GetNoteArgs,
    GetNoteResult,
    Hit,
    IndexFacts,
    Link,
    RecentArgs,
    RecentNote,
    RecentResult,
    RelatedArgs,
    RelatedResult,
    SearchArgs,
    SearchMode,
    SearchResult,
)
from sidecar.vault.times import rfc3339

_MODES: Final[dict[SearchMode, Mode]] = {"hybrid": "hybrid", "vector": "vector", "fts": "keyword"}
_SERVED: Final[dict[Mode, SearchMode]] = {mode: name for name, mode in _MODES.items()}


async def search(core: Core, args: SearchArgs, call: Call) -> SearchResult:
    """Ranked notes for a query."""
    answer = await core.library.search(args.query, args.k, _MODES[args.mode])
    return SearchResult(mode=_SERVED[answer.mode], results=_hits(answer.hits))


async def get_note(core: Core, args: GetNoteArgs, call: Call) -> GetNoteResult:
    """One note whole."""
    note = await core.library.note(args.id)
    card = note.card
    links = [Link(to=link.to, kind=link.kind) for link in note.links]
    return GetNoteResult(
        id=card.note_id,
        title=card.title,
        path=card.path,
        content=note.body,
        frontmatter=FrontmatterFacts(
            tags=list(card.tags),
            source=card.source,
            created=card.created,
            updated=card.updated,
            checksum=card.checksum,
        ),
        index=IndexFacts(ingested_at=rfc3339(card.ingested_at), links=links),
    )


async def related(core: Core, args: RelatedArgs, call: Call) -> RelatedResult:
    """Notes nearest to a note."""
    card, hits = await core.library.related(args.id, args.k)
    return RelatedResult(id=card.note_id, results=_hits(hits))


async def recent(core: Core, args: RecentArgs, call: Call) -> RecentResult:
    """What is new in the index."""
    cards = await core.library.recent(args.days, args.kind)
    notes = [
        RecentNote(
            id=card.note_id,
            title=card.title,
            path=card.path,
            tags=list(card.tags),
            source=card.source,
            updated=card.updated,
            ingested_at=rfc3339(card.ingested_at),
        )
        for card in cards
    ]
    return RecentResult(days=args.days, kind=args.kind, notes=notes)


async def digest_latest(core: Core, args: DigestArgs, call: Call) -> DigestResult:
    """The last digest that became a note."""
    note = await core.digests.latest()
    if note is None:
        return DigestResult(digest=None)
    card = note.card
    digest = Digest(
        id=card.note_id,
        title=card.title,
        path=card.path,
        content=note.body,
        created=card.created,
        ingested_at=rfc3339(card.ingested_at),
    )
    return DigestResult(digest=digest)


def _hits(hits: Sequence[Found]) -> list[Hit]:
    return [Hit(id=hit.note_id, title=hit.title, path=hit.path, snippet=hit.snippet, score=hit.score) for hit in hits]
