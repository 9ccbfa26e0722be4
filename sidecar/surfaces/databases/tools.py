"""Handlers of the databases tools and of their routes: they turn answers of the service into shapes."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.contract import Call, Text
from sidecar.services.core import Core
from sidecar.services.databases import Found, Source
from sidecar.surfaces.databases.shapes import (
    BothBranches,
    ChunkMatch,
    ListRag,
    ListRagResult,
    RegisteredDatabase,
    SearchRag,
    SearchRagResult,
    SourceMatches,
)

_LIMITS = range(1, 101)
_LIMIT = 10
"""Of passages, and the limit in place of one that is none of these."""


async def list_rag(core: Core, args: ListRag, call: Call) -> ListRagResult:
    """What is registered and what can be searched."""
    listing = core.databases.listed()
    registered = [RegisteredDatabase(db=db, createAt=at) for db, at in listing.registered]
    return ListRagResult(loaded=list(listing.loaded), registered=registered)


async def search_rag(core: Core, args: SearchRag, call: Call) -> SearchRagResult:
    """Passages of each branch that ran, by their files."""
    found = await _found(core, args)
    branches = {"keyword": found.keyword, "semantic": found.semantic}
    return SearchRagResult(**{name: _branch(ran) for name, ran in branches.items() if ran is not None})


async def search_both(core: Core, args: SearchRag, call: Call) -> BothBranches:
    """The same with both branches, whether they ran or not."""
    found = await _found(core, args)
    return BothBranches(keyword=_branch(found.keyword or ()), semantic=_branch(found.semantic or ()))


async def health(core: Core, args: ListRag, call: Call) -> Text:
    """That somebody answers."""
    return Text("OK")


async def _found(core: Core, args: SearchRag) -> Found:
    limit = args.limit if args.limit in _LIMITS else _LIMIT
    return await core.databases.search(args.db, args.q, args.mode, limit)


def _branch(sources: Sequence[Source]) -> list[SourceMatches]:
    return [
        SourceMatches(
            source=source.path, matches=[ChunkMatch(chunk=number, content=text) for number, text in source.matches]
        )
        for source in sources
    ]
