"""Cuts plain text into passages: paragraphs, and parts of those that are too long. Nothing but blanks is lost.

Every step takes time linear in the text, whatever it holds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from sidecar.index.documents.document import LONGEST

_BLANK_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINE_END: Final = re.compile(r"\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")

_CLOSING: Final = r"[\"'”’»)\]」』）】》]*+"
_SENTENCE_END: Final = re.compile(
    # scripts with blanks between sentences; a row of a thousand full stops is crossed once, not from each of them
    rf"(?<![.!?…؟۔])[.!?…؟۔]++{_CLOSING}\s+"
    rf"|[。！？｡．।॥።။།៕។]+{_CLOSING}\s*"  # and those whose full stop stands for one
)
_BLANK: Final = re.compile(r"\s+")
_LEADING_VOWELS: Final = frozenset("เแโใไເແໂໃໄ")  # of Thai and Lao: written before the consonant they belong to
_JOINERS: Final = frozenset("\u200c\u200d\u2060\ufe0f")


def one_kind_of_line_end(text: str) -> str:
    """Every way to end a line or a page as LF; NUL and byte order marks are left out."""
    return _LINE_END.sub("\n", text.translate({0: None, 0xFEFF: None}))


def passages(text: str) -> Iterator[str]:
    """Paragraphs, trimmed, those over `LONGEST` in parts. Blank lines stand between paragraphs."""
    for paragraph in paragraphs(text):
        yield from parts(paragraph)


def paragraphs(text: str) -> Iterator[str]:
    """What stands between blank lines, trimmed, whatever its length."""
    text = one_kind_of_line_end(text)
    start = 0
    for gap in _BLANK_LINES.finditer(text):
        if paragraph := text[start : gap.start()].strip():
            yield paragraph
        start = gap.end()
    if paragraph := text[start:].strip():
        yield paragraph


def parts(text: str, longest: int = LONGEST) -> Iterator[str]:
    """The text in trimmed parts of at most `longest` characters.

    They end with a sentence, else with a line, else with a word. A text that has none of these in the second half
    of a part, as in Thai, is cut between two characters that do not form one sign.
    """
    start, end = 0, len(text)
    while end - start > longest:
        cut = _cut(text, start + longest // 2, start + longest)
        if part := text[start:cut].strip():
            yield part
        start = cut
    if part := text[start:].strip():
        yield part


def _cut(text: str, low: int, high: int) -> int:
    """The best place in (low, high] to cut at."""
    for ends in (_SENTENCE_END, re.compile(r"\n"), _BLANK):
        place = 0
        for found in ends.finditer(text, low, high):
            place = found.end()
        if place:
            return place
    for place in range(high, low, -1):
        if _is_between(text, place):
            return place
    return high


def _is_between(text: str, at: int) -> bool:
    """Whether a cut here leaves every sign whole."""
    before, after = text[at - 1], text[at]
    return (
        unicodedata.category(after)[0] != "M"
        and after not in _JOINERS
        and before not in _JOINERS
        and before not in _LEADING_VOWELS
        and after not in "ะาำๆฯ"  # Thai signs that follow their consonant and are no marks
    )


def rows_together(rows: Iterable[str], longest: int = LONGEST) -> Iterator[str]:
    """Rows of a table as lines, as many together as fit; one that is too long alone is cut like text."""
    lines: list[str] = []
    size = 0
    for row in rows:
        if lines and size + len(row) > longest:
            yield "\n".join(lines)
            lines, size = [], 0
        if len(row) > longest:
            yield from parts(row, longest)
        else:
            lines.append(row)
            size += len(row) + 1
    if lines:
        yield "\n".join(lines)
