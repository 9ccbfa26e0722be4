"""Surface `library`: ranked notes with fixed shapes, and proposals that wait for a person."""

from sidecar.contract import Surface, Tool
from sidecar.surfaces.library.propose import ProposeArgs, ProposeResult, propose
from sidecar.surfaces.library.shapes import (
    DigestArgs,
    DigestResult,
    GetNoteArgs,
    GetNoteResult,
    RecentArgs,
    RecentResult,
    RelatedArgs,
    RelatedResult,
    SearchArgs,
    SearchResult,
)
from sidecar.surfaces.library.tools import digest_latest, get_note, recent, related, search

SURFACE = Surface(
    name="library",
    instructions=(
        "Search and read the notes of one vault. Changes are proposed with kp_propose and wait for a person; nothing"
        " here writes notes."
    ),
    tools=(
        Tool("kp_search", "Rank the notes of the vault for a query, best first.", SearchArgs, SearchResult, search),
        Tool(
            "kp_get_note",
            "One note by its id: text, tags, source, times, outgoing links.",
            GetNoteArgs,
            GetNoteResult,
            get_note,
        ),
        Tool("kp_related", "The notes closest in meaning to a note.", RelatedArgs, RelatedResult, related),
        Tool("kp_recent", "Notes that are new or were changed, newest first.", RecentArgs, RecentResult, recent),
        Tool(
            "kp_propose",
            "Suggest new texts for notes. A person looks at the suggestion and applies or rejects it.",
            ProposeArgs,
            ProposeResult,
            propose,
            read_only=False,
        ),
        Tool("kp_digest_latest", "The latest daily digest, if there is one.", DigestArgs, DigestResult, digest_latest),
    ),
)
