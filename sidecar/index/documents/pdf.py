"""PDF files: page by page, paragraph by paragraph, through PDFium.

PDFium gives characters and where they stand. Lines and paragraphs are told
from that: a gap, a step to another column, another size of letters, a first
line that is set in.
"""

from __future__ import annotations

import ctypes
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, cast

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]: it has none
import pypdfium2.raw as pdfium  # pyright: ignore[reportMissingTypeStubs]: it has none

from sidecar.index.documents.document import Refused
from sidecar.index.documents.passages import parts

_GAP: Final = 1.35  # times the usual distance of lines
_WIDEST: Final = 2.0  # times the size of the letters: lines farther apart are paragraphs, even if all of them are
_OTHER_SIZE: Final = 1.15
_SET_IN: Final = 0.8  # times the size of the letters
_FULL: Final = 0.88  # of the column's width: a line that ends before was ended on purpose

_HYPHEN: Final = 0x02  # PDFium's sign for a word that goes on in the next line
_NOT_A_CHARACTER: Final = frozenset({0x00, 0x0D, 0xFFFE, 0xFFFF})  # lines end with CR and LF


@dataclass(slots=True)
class _Line:
    """A line of a page; lengths in points, y grows upwards."""

    text: str
    left: float
    right: float
    base: float
    size: float
    broken: bool
    """Its last word goes on in the next line."""


def passages(data: bytes) -> Iterator[str]:
    """Paragraphs of all pages in order, those that are too long in parts.

    Raises:
        Refused: it is protected by a password, no PDF, or has no text.
    """
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as failed:
        is_locked = getattr(failed, "err_code", None) == pdfium.FPDF_ERR_PASSWORD
        raise Refused("it is protected by a password" if is_locked else "it can't be read as PDF") from failed
    found = False
    with closing(document):
        for number in range(len(document)):
            for paragraph in _paragraphs(_lines(document, number)):
                found = True
                yield from parts(paragraph)
    if not found:
        raise Refused("it holds no text, only pictures of pages")


def _lines(document: pypdfium2.PdfDocument, number: int) -> list[_Line]:
    """Lines of a page in reading order; none of a page that can't be read."""
    with ExitStack() as stack:
        try:
            page = stack.enter_context(closing(document[number]))
            text_page = stack.enter_context(closing(page.get_textpage()))
        except pypdfium2.PdfiumError:
            return []
        raw = cast("Any", text_page).raw
        lines: list[_Line] = []
        characters: list[tuple[int, int]] = []  # index in the page and code
        for index in range(pdfium.FPDFText_CountChars(raw)):
            code = pdfium.FPDFText_GetUnicode(raw, index)
            if code not in (0x0A, _HYPHEN):
                if code not in _NOT_A_CHARACTER:
                    characters.append((index, code))
                continue
            _end_line(raw, characters, lines, broken=code == _HYPHEN)
            characters = []
        _end_line(raw, characters, lines, broken=False)
        return lines


def _end_line(raw: Any, characters: Sequence[tuple[int, int]], lines: list[_Line], *, broken: bool) -> None:
    text = _text([code for _, code in characters])
    if not text.strip():
        return
    inked = [index for index, code in characters if not chr(code).isspace()]
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetCharOrigin(raw, inked[0], x, y)
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    pdfium.FPDFText_GetCharBox(raw, inked[-1], left, right, bottom, top)
    size = pdfium.FPDFText_GetFontSize(raw, inked[0]) or 1.0
    lines.append(_Line(text.strip(), x.value, right.value, y.value, size, broken))


def _text(codes: Sequence[int]) -> str:
    """Characters of UTF-16 units or code points, letters written together such as "ﬁ" taken apart."""
    try:
        text = "".join(map(chr, codes))
        if any(0xD800 <= code < 0xE000 for code in codes):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except (ValueError, UnicodeError):
        return ""
    if any("\ufb00" <= letter <= "\ufb06" for letter in text):
        text = "".join(unicodedata.normalize("NFKC", c) if "\ufb00" <= c <= "\ufb06" else c for c in text)
    return text.replace("\u00ad", "")


def _paragraphs(lines: Sequence[_Line]) -> Iterator[str]:
    steps = sorted(step for above, below in pairwise(lines) if (step := above.base - below.base) > 0)
    # not the middle one: a page of short paragraphs has more gaps than lines that follow each other
    usual = steps[len(steps) // 5] if steps else 0.0
    paragraph: list[_Line] = []
    for index, line in enumerate(lines):
        after = lines[index + 1] if index + 1 < len(lines) else None
        if paragraph and _begins(line, paragraph, after, usual):
            yield _joined(paragraph)
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield _joined(paragraph)


def _begins(line: _Line, before: Sequence[_Line], after: _Line | None, usual: float) -> bool:
    """Whether a paragraph begins with this line."""
    last = before[-1]
    if last.broken:
        return False
    step = last.base - line.base
    near = min(max(usual, line.size), _WIDEST * line.size)
    if step > _GAP * near or step < -0.5 * line.size:
        return True
    if max(line.size, last.size) > _OTHER_SIZE * min(line.size, last.size):
        return True
    inset = _SET_IN * line.size
    return line.left > last.left + inset and after is not None and line.left > after.left + inset


def _joined(lines: Sequence[_Line]) -> str:
    """The lines as running text. A line that ends early keeps its end: verse, lists and addresses are made of them."""
    left, right = min(line.left for line in lines), max(line.right for line in lines)
    text = lines[0].text
    for above, below in pairwise(lines):
        if above.broken:
            text += below.text
        elif above.right - left < _FULL * (right - left):
            text += "\n" + below.text
        else:
            text += ("" if _is_wide(text[-1]) and _is_wide(below.text[0]) else " ") + below.text
    return text


def _is_wide(character: str) -> bool:
    """Whether it is of a script without blanks between words: Chinese, Japanese and their punctuation."""
    return unicodedata.east_asian_width(character) in "WF" and not "\uac00" <= character <= "\ud7a3"
