"""Handlers of the notes tools: they turn answers of the reading service into text."""

from __future__ import annotations

from sidecar.contract import Call, Text
from sidecar.index.progress import Progress
from sidecar.services.core import Core
from sidecar.services.reading import Page
from sidecar.surfaces.notes.shapes import ListNotes, ReadNote, SearchNotes, SemanticSearch, WriteNote
from sidecar.vault.paths import printable

MOST_CHARS = 100_000
"""Longest text result, read_note excepted."""

_ECHO_CHARS = 80


async def list_notes(core: Core, args: ListNotes, call: Call) -> Text:
    """Paths under a folder, a page of them."""
    page = await core.reading.page(args.folder, limit=args.limit, offset=args.offset)
    inside = f" in {printable(page.folder)}" if page.folder else ""
    if not page.paths:
        return Text(_nothing(page, inside))
    shown, end = len(page.paths), page.offset + len(page.paths)
    lines = [f"{shown:,} of {page.total:,} notes{inside}, from number {page.offset + 1}."]
    lines += [printable(path) for path in page.paths]
    if end < page.total:
        lines.append(f"More notes: call again with offset {end}.")
    return Text(_cut("\n".join(lines)))


def _nothing(page: Page, inside: str) -> str:
    if not page.total:
        return f"No notes{inside}."
    return f"No notes{inside} from number {page.offset + 1} on; there are {page.total:,}."


async def read_note(core: Core, args: ReadNote, call: Call) -> Text:
    """A note's text, cut at `max_chars`."""
    note = await core.reading.read(args.path)
    text, length = note.text, len(note.text)
    if length > args.max_chars:
        text = (
            f"{text[: args.max_chars]}\n\n[Cut: {args.max_chars:,} of {length:,} characters."
            " Ask for more with max_chars (at most 200,000), or find the place with search_notes.]"
        )
    return Text(text, {"vault-sidecar/checksum": note.checksum})


async def search_notes(core: Core, args: SearchNotes, call: Call) -> Text:
    """Notes that hold the query, with excerpts."""
    answer = await core.reading.search_text(args.query, args.limit)
    query = _echo(args.query)
    if not answer.total:
        lines = [f'No notes match "{query}".']
    elif answer.total > len(answer.hits):
        lines = [f'{len(answer.hits):,} of {answer.total:,} notes that match "{query}".']
    else:
        lines = [f'1 note matches "{query}".' if answer.total == 1 else f'{answer.total:,} notes match "{query}".']
    for hit in answer.hits:
        lines.append(printable(hit.path))
        lines += [f"  {number}: {excerpt}" for number, excerpt in hit.lines]
    notices: list[str] = []
    if answer.progress is not None:
        notices.append(_still_building(answer.progress))
    if answer.left_out:
        were = "1 note was" if answer.left_out == 1 else f"{answer.left_out:,} notes were"
        notices.append(f"[{were} not searched: larger than the limit, or unreadable.]")
    return Text("\n".join([_cut("\n".join(lines)), *notices]))


async def semantic_search(core: Core, args: SemanticSearch, call: Call) -> Text:
    """Passages close to the query by meaning and by words."""
    answer = await core.searching.passages(args.query, args.top_k)
    query = _echo(args.query)
    if answer.hits:
        results = "1 result" if len(answer.hits) == 1 else f"{len(answer.hits)} results"
        lines = [f'{results} for "{query}".']
    else:
        lines = [f'Nothing in the vault is close to "{query}".']
    for hit in answer.hits:
        lines += [f"{printable(hit.path)} (score {hit.score:.3f})", f"  {hit.snippet}"]
    if answer.mode == "keyword":
        lines.append("[Keywords only: the vector index is not available.]")
    return Text("\n".join(lines))


async def write_note(core: Core, args: WriteNote, call: Call) -> Text:
    """Create, replace or extend a note."""
    outcome = await core.writing.write(args.path, args.content, args.mode, args.expected)
    name, length = f"'{printable(outcome.path)}'", _characters(outcome.characters)
    if outcome.done == "append":
        added = _characters(len(args.content))
        return Text(f"Appended {added} to {name} (now {outcome.characters:,}, checksum {outcome.checksum}).")
    said = "Created" if outcome.done == "create" else "Replaced"
    text = f"{said} {name} ({length}, checksum {outcome.checksum})."
    if outcome.old_is_kept:
        text += " The old text is kept; see 'vault-sidecar recover'."
    return Text(text)


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count:,} characters"


def _echo(query: str) -> str:
    return printable(query[:_ECHO_CHARS]) + ("…" if len(query) > _ECHO_CHARS else "")


def _still_building(progress: Progress) -> str:
    return f"[The index is still being built: {progress.done:,} of {progress.total:,} notes are searchable.]"


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    mark = "\n[Result cut at 100,000 characters.]"
    return text[: MOST_CHARS - len(mark)].rsplit("\n", 1)[0] + mark
