"""Arguments and results of the library tools: contracts of names, types and limits. Those of kp_propose are with it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sidecar.arguments import Query, Shape
from sidecar.vault.kp_block import Namespace

SearchMode = Literal["hybrid", "vector", "fts"]

_ID = "Id of the note: curio:…, zotero:…, kp:… or path:Folder/Note.md."


class SearchArgs(Shape):
    """kp_search"""

    query: Query = Field(description="What to look for: words or a question, in any language.")
    k: int = Field(10, ge=1, le=100, description="How many notes at most.")
    mode: SearchMode = Field("hybrid", description="vector: by meaning. fts: by words. hybrid: both together.")


class Hit(Shape):
    """A note that was found. `score` is comparable within one result only."""

    id: str
    title: str
    path: str
    snippet: str
    score: float


class SearchResult(Shape):
    """`mode` is the one that served."""

    mode: SearchMode
    results: list[Hit]


class GetNoteArgs(Shape):
    """kp_get_note"""

    id: str = Field(description=_ID)


class FrontmatterFacts(Shape):
    """Times are RFC 3339 in UTC. `source` null: born in the vault."""

    tags: list[str]
    source: str | None
    created: str | None
    updated: str | None
    checksum: str | None


class Link(Shape):
    """An outgoing link, to the id of a note."""

    to: str
    kind: Literal["wikilink", "markdown"]


class IndexFacts(Shape):
    """What the index knows besides."""

    ingested_at: str
    links: list[Link]


class GetNoteResult(Shape):
    """`content` is the text without the frontmatter."""

    id: str
    title: str
    path: str
    content: str
    frontmatter: FrontmatterFacts
    index: IndexFacts


class RelatedArgs(Shape):
    """kp_related"""

    id: str = Field(description=_ID)
    k: int = Field(10, ge=1, le=100, description="How many notes at most.")


class RelatedResult(Shape):
    """`id` is the note's own."""

    id: str
    results: list[Hit]


class RecentArgs(Shape):
    """kp_recent"""

    days: int = Field(7, ge=0, le=3650, description="How many days back.")
    kind: Namespace | None = Field(None, description="Only notes whose id is of this kind.")


class RecentNote(Shape):
    """A note that is new or was changed."""

    id: str
    title: str
    path: str
    tags: list[str]
    source: str | None
    updated: str | None
    ingested_at: str


class RecentResult(Shape):
    """The newest first."""

    days: int
    kind: Namespace | None
    notes: list[RecentNote]


class DigestArgs(Shape):
    """kp_digest_latest"""


class Digest(Shape):
    """A digest that is a note of the vault."""

    id: str
    title: str
    path: str
    content: str
    created: str | None
    ingested_at: str


class DigestResult(Shape):
    """Null: there is no digest yet."""

    digest: Digest | None
