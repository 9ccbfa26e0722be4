"""Plain-text search without case over every line of every note, held in memory.

Scanning folded UTF-8 bytes with `bytes.find` covers about 2 MB a millisecond,
so 10,000 notes take tens of milliseconds, no index has to be built or kept
right, and a query is never a pattern. UTF-8 synchronises itself: a match of
the bytes is a match of the characters.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

EXCERPT_CHARS = 160  # contracts/notes.md section 4
EXCERPT_LINES = 5


def fold(text: str) -> str:
    """The form in which texts are compared: NFC, Unicode case folding, NFC again."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _bytes(text: str) -> bytes:
    return fold(text).encode("utf-8", "surrogatepass")


def _folded_lines(text: str) -> bytes:
    """The same, line by line: most lines are ASCII even where the text is not, and fold ten times as fast."""
    if text.isascii():
        return text.lower().encode()
    return "\n".join(map(fold, text.split("\n"))).encode("utf-8", "surrogatepass")


def one_kind_of_line_end(text: str) -> str:
    """CRLF and lone CR as LF, so that line numbers count the same everywhere."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


@dataclass(frozen=True, slots=True)
class Match:
    """A note that holds the query in a line or in its path."""

    note_key: int
    path: str
    lines: int
    """How many lines match; 0 when only the path does."""
    in_name: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One note, folded for comparing. Never changes."""

    path: str
    folded_path: bytes
    folded: bytes


def entry(path: str, text: str) -> Entry:
    """Fold a note's path and whole text."""
    return Entry(path, _bytes(path), _folded_lines(one_kind_of_line_end(text)))


class LiteralIndex:
    """Folded texts by note key. The owner locks `put`, `drop` and `snapshot`; a snapshot is read without a lock."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def put(self, note_key: int, folded: Entry) -> None:
        """Add or replace one note."""
        self._entries[note_key] = folded

    def drop(self, note_key: int) -> None:
        """Forget one note."""
        self._entries.pop(note_key, None)

    def __contains__(self, note_key: int) -> bool:
        return note_key in self._entries

    def snapshot(self) -> list[tuple[int, Entry]]:
        """The notes as of now; entries never change, so a search may take its time over them."""
        return list(self._entries.items())


def matches(snapshot: list[tuple[int, Entry]], query: str) -> list[Match]:
    """Notes that match: file names first, then more matching lines, then path."""
    wanted = _bytes(query)
    if b"\n" in wanted or not wanted:
        return []
    found: list[Match] = []
    for note_key, entry in snapshot:
        lines = _count_lines(entry.folded, wanted)
        if not lines and wanted not in entry.folded_path:
            continue
        in_name = wanted in entry.folded_path.rpartition(b"/")[2]
        found.append(Match(note_key, entry.path, lines, in_name))
    found.sort(key=lambda match: (not match.in_name, -match.lines, match.path))
    return found


def _count_lines(folded: bytes, wanted: bytes) -> int:
    count, place = 0, folded.find(wanted)
    while place >= 0:
        count += 1
        end = folded.find(b"\n", place)
        if end < 0:
            break
        place = folded.find(wanted, end)
    return count


def excerpts(text: str, query: str) -> Iterator[tuple[int, str]]:
    """(line number from 1, excerpt) of the first lines of `text` that hold the query."""
    wanted = fold(query)
    shown = 0
    for number, line in enumerate(one_kind_of_line_end(text).split("\n"), 1):
        place = fold(line).find(wanted)
        if place < 0:
            continue
        yield number, _around(line, *_unfolded(line, place, len(wanted)))
        shown += 1
        if shown == EXCERPT_LINES:
            return


def _unfolded(line: str, place: int, length: int) -> tuple[int, int]:
    """Start and end in `line` of a match found in its folded form, which may be longer or shorter."""
    if line.isascii():
        return place, place + length

    def folded_length(end: int) -> int:
        return len(fold(line[:end]))

    start = bisect_left(range(len(line) + 1), place + 1, key=folded_length) - 1
    end = bisect_left(range(len(line) + 1), place + length, key=folded_length)
    return max(0, start), min(len(line), end)


def _around(line: str, start: int, end: int) -> str:
    """At most EXCERPT_CHARS characters of the line with the match inside, cut ends marked."""
    line, shift = line.rstrip(), len(line) - len(line.lstrip())
    if len(line) - shift <= EXCERPT_CHARS:
        return line[shift:]
    room = max(0, EXCERPT_CHARS - (end - start))
    low = max(shift, start - room // 3)
    high = min(len(line), low + EXCERPT_CHARS)
    low = max(shift, high - EXCERPT_CHARS)
    if low > shift:
        low += 1  # the mark itself takes a place
    if high < len(line):
        high -= 1
    return ("…" if low > shift else "") + line[low:high] + ("…" if high < len(line) else "")
