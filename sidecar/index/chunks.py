"""Cuts a note into the pieces that are indexed and found.

A chunk is a slice of the cleaned body (see `clean`): a section, several short
sections together, or a part of a long one, with the headings above it in front.
The slices follow each other and lose nothing but blanks between them.

Every note has at least one chunk. That of a note without text has an empty
text: its title, aliases and tags are found by keyword, and it is not embedded.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from sidecar.index.clean import Row, rows
from sidecar.vault.blocks import Kind

# Characters of a chunk's text. About 225 and 350 tokens of English: the embedders cut at 512.
TARGET = 900
LARGEST = 1400
SHORT = 200  # a section below this is joined with the next one
_DENSE_SHARE = 0.3  # of Han, kana and Hangul, which carry about twice as much a character: sizes are halved above it
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")

_LONGEST_TITLE = 250  # characters in the breadcrumb: all of a title that is a file name
_LONGEST_HEADING = 120
_LONGEST_BREADCRUMB = 400
_LONGEST_EXTRA = 4000

_SENTENCE_END = re.compile(r"[.!?…]['\")\]]*\s+|[。！？｡]")
_BLANK = re.compile(r"\s+")


class Chunk(NamedTuple):
    """One piece of a note.

    breadcrumb  `title > h1 > h2`: the headings that all of the text stands under
    text        at most `LARGEST` characters; heading lines are part of it
    line        1-based line of the body in which the text begins
    extra       of the first chunk: aliases, tags and file stem, for keywords only
    """

    ordinal: int
    breadcrumb: str
    text: str
    line: int
    extra: str = ""

    @property
    def full(self) -> str:
        """What is embedded."""
        return "\n".join(part for part in (self.breadcrumb, self.text) if part)

    @property
    def words(self) -> str:
        """What the keyword index gets."""
        return f"{self.full}\n{self.extra}" if self.extra else self.full

    @property
    def key(self) -> bytes:
        """Identity of `full`: 16 bytes of BLAKE2b. Equal texts share one vector, in whichever note they stand."""
        return hashlib.blake2b(self.full.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    @property
    def embeddable(self) -> bool:
        """False for the chunk of a note without text; an embedder must not be asked for it."""
        return bool(self.text)


def chunks_of(
    title: str, body: str, *, aliases: Sequence[str] = (), tags: Sequence[str] = (), stem: str = ""
) -> list[Chunk]:
    """The chunks of a note in the order of its text; never none."""
    note = _Note(rows(body))
    extra = [*aliases, *(f"#{tag}" for tag in tags)]
    if stem and stem != title:
        extra.append(stem)
    extra_text = "\n".join(extra)[:_LONGEST_EXTRA]
    found: list[Chunk] = []
    for start, end in note.slices():
        piece = note.text[start:end].lstrip("\n")
        first = end - len(piece)
        if text := piece.rstrip():
            crumbs = _breadcrumb(title, note.headings(first, end))
            found.append(Chunk(len(found), crumbs, text, note.line(first), "" if found else extra_text))
    return found or [Chunk(0, _breadcrumb(title, ()), "", 1, extra_text)]


class _Note:
    """The cleaned text of one body, and where it may be cut. All positions are offsets into `text`."""

    def __init__(self, found: list[Row]) -> None:
        self.text = "\n".join(row.text for row in found)
        dense = 0 if self.text.isascii() else len(_DENSE.findall(self.text[:4000]))
        scale = 2 if dense > _DENSE_SHARE * min(len(self.text), 4000) else 1
        self._target, self._largest, self._short = TARGET // scale, LARGEST // scale, SHORT // scale
        self._numbers = [row.number for row in found]
        self._starts = list(accumulate((len(row.text) + 1 for row in found), initial=0))
        self._sections, self._paths = _sections(found, self._starts)
        self._fences = _whole_fences(found, self._starts, self._largest)
        self._lines: list[int] = []  # starts of rows that are not blank and not inside a whole fence
        self._paragraphs: list[int] = []  # those of them that begin something; never what follows a heading
        before: Kind = "blank"
        headed = False
        for row, start in zip(found, self._starts, strict=False):
            kind = row.kind
            underline = kind == "heading" and not row.level
            if kind != "blank" and not underline and not (self._fences and self._in_fence(start)):
                self._lines.append(start)
                if not headed and (before != "text" or kind != "text"):
                    self._paragraphs.append(start)
            headed = kind == "heading" or (headed and kind == "blank")
            before = kind

    def line(self, at: int) -> int:
        """The line of the body that this position is in."""
        return self._numbers[bisect_right(self._starts, at) - 1]

    def headings(self, start: int, end: int) -> tuple[str, ...]:
        """The headings that all of this range stands under; those of a first subsection if no other follows."""
        first = bisect_right(self._sections, start) - 1
        path = self._paths[first]
        narrowed = False
        for other in self._paths[first + 1 : bisect_left(self._sections, end)]:
            if not narrowed and other[: len(path)] == path:
                path = other
            else:
                narrowed = True
                path = path[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path, other)))]  # noqa: B905
        return path

    def slices(self) -> list[tuple[int, int]]:
        """Ranges that cover the text in order, each at most `LARGEST` long."""
        found: list[tuple[int, int]] = []
        for start, end in self._groups():
            while start < end:
                cut = self._cut(start, end)
                found.append((start, cut))
                start = cut
        if len(found) > 1:
            (before, start), (_, end) = found[-2:]
            if self._size(start, end) < self._short and end - before <= self._roomy:
                found[-2:] = [(before, end)]
        return found

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Sections, short ones joined with the next."""
        start = 0
        for end in [*self._sections[1:], len(self.text)]:
            if self._size(start, end) >= self._short or end == len(self.text):
                yield start, end
                start = end

    def _size(self, start: int, end: int) -> int:
        return len(self.text[start:end].strip())

    @property
    def _roomy(self) -> int:
        """A little more than the target is better than a rest."""
        return self._target + self._target // 4

    def _cut(self, start: int, end: int) -> int:
        """Where the chunk that begins at `start` ends.

        Even parts of about the target: best between paragraphs, else between lines, sentences, words; a text
        without any of these is cut where the part ends.
        """
        if end - start <= self._roomy:
            return end
        aim = start + (end - start) // -(-(end - start) // self._roomy)
        low = start + (aim - start) * 6 // 10
        high = min(start + (aim - start) * 13 // 10, start + self._largest)
        for places in (self._paragraphs, self._lines):
            if (place := _nearest(places, low, aim, high)) >= 0:
                return place
        index = bisect_right(self._lines, min(start + self._largest, end)) - 1
        last = self._lines[index] if index >= 0 else -1
        if last > start and (last >= low or self._in_fence(aim)):
            return last
        if self._in_fence(aim) and end - start <= self._largest:
            return end
        for ends in (_SENTENCE_END, _BLANK):
            places = [found.end() for found in ends.finditer(self.text, low, high)]
            if (place := _nearest(places, low, aim, high)) >= 0:
                return place
        while aim > low and unicodedata.category(self.text[aim])[0] == "M":
            aim -= 1
        return aim

    def _in_fence(self, at: int) -> bool:
        """Whether a cut here would divide a fence that fits into one chunk."""
        fence = bisect_left(self._fences, (at, 0)) - 1
        return fence >= 0 and at < self._fences[fence][1]


def _sections(found: list[Row], starts: list[int]) -> tuple[list[int], list[tuple[str, ...]]]:
    """Where sections begin, and the headings that lead to each. The first begins at 0."""
    sections: list[int] = [0]
    paths: list[tuple[str, ...]] = [()]
    path: list[tuple[int, str]] = []
    for row, start in zip(found, starts, strict=False):
        if row.level:
            path = [*(step for step in path if step[0] < row.level), (row.level, row.heading)]
            headings = tuple(heading for _, heading in path)
            if start == 0:
                paths = [headings]
            else:
                sections.append(start)
                paths.append(headings)
    return sections, paths


def _whole_fences(found: list[Row], starts: list[int], largest: int) -> list[tuple[int, int]]:
    """Ranges of the fences that fit into one chunk, from the opening row to the end of the closing one."""
    fences: list[tuple[int, int]] = []
    opened = -1
    for index, row in enumerate([*found, Row(0, "", "blank")]):
        if opened < 0:
            opened = index if row.kind == "fence" else -1
        elif row.kind != "code":
            after = index + (row.kind == "fence")
            if starts[after] - starts[opened] <= largest:
                fences.append((starts[opened], starts[after]))
            opened = -1
    return fences


def _nearest(places: Sequence[int], low: int, aim: int, high: int) -> int:
    """The place in [low, high] that is nearest to `aim`; -1 if there is none."""
    after = bisect_left(places, aim)
    near = [place for place in places[max(after - 1, 0) : after + 1] if low <= place <= high]
    return min(near, key=lambda place: abs(place - aim), default=-1)


def _breadcrumb(title: str, headings: Sequence[str]) -> str:
    """`title > h1 > h2`, without a first heading that repeats the title, of bounded length."""
    if headings and headings[0].strip().casefold() == title.strip().casefold():
        headings = headings[1:]
    steps = [_shortened(title, _LONGEST_TITLE), *(_shortened(heading, _LONGEST_HEADING) for heading in headings)]
    steps = [step for step in steps if step]
    while len(steps) > 2 and sum(map(len, steps)) > _LONGEST_BREADCRUMB:
        del steps[1]  # the title and the nearest heading say most
    return " > ".join(steps)


def _shortened(text: str, longest: int) -> str:
    text = " ".join(text[: 4 * longest].split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
