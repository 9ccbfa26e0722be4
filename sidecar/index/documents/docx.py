"""Texts of Word (.docx), through python-docx: each paragraph under its last heading, tables as rows.

The elements are walked here, because the library's own texts leave out what
is in text boxes, content controls and insertions that await their review.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import docx
from docx.document import Document
from docx.oxml.ns import qn
from docx.oxml.parser import parse_xml

from sidecar.index.documents.container import harmless
from sidecar.index.documents.document import LONGEST
from sidecar.index.documents.passages import parts, rows_together

Element = Any
"""One of lxml, which has no types of its own."""

_LONGEST_HEADING: Final = 200
_NO_HEADING: Final = 9  # the outline level of plain text

_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
_STYLE, _OUTLINE, _VALUE = qn("w:pStyle"), qn("w:outlineLvl"), qn("w:val")
_BOX: Final = qn("w:txbxContent")
_TEXT: Final = frozenset({qn("w:t"), qn("m:t")})
_SIGNS: Final = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_LEFT_OUT: Final = frozenset(
    {
        *(qn("w:del"), qn("w:moveFrom")),  # deleted, though still in the file
        *(qn("w:pPr"), qn("w:rPr"), qn("w:tblPr"), qn("w:sectPr"), qn("w:rt")),
        "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",  # the same once more
    }
)
_NOTES: Final = ("/footnotes", "/endnotes")


def passages(data: bytes) -> Iterator[str]:
    """Paragraphs and tables in reading order, notes last; each begins with the heading it stands under.

    Raises:
        Refused: it can't be unpacked.
    """
    document = docx.Document(io.BytesIO(harmless(data)))
    headings = _heading_styles(document)
    heading = ""
    is_alone = False
    for block in _blocks(cast("Element", document.element).body):
        if block.tag == _PARAGRAPH and _is_heading(block, headings):
            if is_alone:
                yield from parts(heading)
            heading = _text(block)
            is_alone = bool(heading)
            continue
        for passage in _under(heading, block):
            if is_alone and len(heading) > _LONGEST_HEADING:
                yield from parts(heading)
            is_alone = False
            yield passage
    if is_alone:
        yield from parts(heading)
    yield from _notes(document)


def _under(heading: str, block: Element) -> Iterator[str]:
    """Passages of a paragraph or table, the heading in front of each."""
    crumb = heading if len(heading) <= _LONGEST_HEADING else heading[: _LONGEST_HEADING - 1] + "…"
    room = LONGEST - len(crumb) - 1
    found = rows_together(_rows(block), room) if block.tag == _TABLE else parts(_text(block), room)
    for passage in found:
        yield f"{crumb}\n{passage}" if crumb else passage


def _blocks(element: Element) -> Iterator[Element]:
    """Paragraphs and tables in an element, whatever is around them; text boxes follow their paragraph."""
    for child in element:
        if child.tag in _LEFT_OUT:
            continue
        if child.tag == _PARAGRAPH:
            yield child
            for box in _boxes(child):
                yield from _blocks(box)
        elif child.tag == _TABLE:
            yield child
        elif child.tag != _BOX:
            yield from _blocks(child)


def _boxes(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == _BOX:
            yield child
        elif child.tag not in _LEFT_OUT:
            yield from _boxes(child)


def _text(element: Element) -> str:
    return "".join(_texts(element)).strip()


def _texts(element: Element) -> Iterator[str]:
    for child in element:
        if child.tag in _TEXT:
            yield child.text or ""
        elif child.tag in _SIGNS:
            yield _SIGNS[child.tag]
        elif child.tag not in _LEFT_OUT and child.tag != _BOX:
            yield from _texts(child)


def _rows(table: Element) -> Iterator[str]:
    """Each row as a line, ` | ` between its cells; empty rows are left out."""
    for row in table.iter(_ROW):
        if next(row.iterancestors(_TABLE)) is not table:
            continue  # of a table in one of the cells, and in that cell's text
        cells = [" ".join(" ".join(_text(block) for block in cell.iter(_PARAGRAPH)).split()) for cell in _cells(row)]
        if any(cells):
            yield " | ".join(cells)


def _cells(row: Element) -> Iterator[Element]:
    for child in row:
        if child.tag == _CELL:
            yield child
        elif child.tag not in _LEFT_OUT:
            yield from _cells(child)


def _heading_styles(document: Document) -> frozenset[str]:
    """Ids of the styles that make a paragraph a heading: by name, by outline level, or by the style they build on."""
    found: set[str] = set()
    base: dict[str, str] = {}
    for style in cast("Iterable[Any]", document.styles):
        name = (style.name or "").lower()
        levels = [level.get(_VALUE) for level in style.element.iter(_OUTLINE)]
        if name == "title" or name.startswith("heading") or any(map(_is_level, levels)):
            found.add(style.style_id)
        elif not levels and (parent := style.element.basedOn_val):
            base[style.style_id] = parent
    grown = True
    while grown:
        new = {style for style, parent in base.items() if parent in found} - found
        found |= new
        grown = bool(new)
    return frozenset(found)


def _is_heading(paragraph: Element, styles: frozenset[str]) -> bool:
    properties = paragraph.pPr
    if properties is None:
        return False
    outline = properties.find(_OUTLINE)
    if outline is not None:
        return _is_level(outline.get(_VALUE))
    style = properties.find(_STYLE)
    return style is not None and style.get(_VALUE) in styles


def _is_level(value: str | None) -> bool:
    return value is not None and value.isdecimal() and int(value) < _NO_HEADING


def _notes(document: Document) -> Iterator[str]:
    for relation in document.part.rels.values():
        if not relation.is_external and relation.reltype.endswith(_NOTES):
            for block in _blocks(cast("Element", parse_xml(relation.target_part.blob))):
                yield from _under("", block)
