"""Makes documents for tests: PDF by hand, the others by the libraries that people make them with."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Sequence

import docx
import pptx
import xlsxwriter
from docx.document import Document
from pptx.presentation import Presentation

PAGE = 600
LINE = 14
SIZE = 10

CJK = "王维的诗中有画"


def pdf(
    *pages: Sequence[str], images_only: bool = False, locked: bool = False, made: Callable[[str], bytes] | None = None
) -> bytes:
    """A PDF of pages of paragraphs, each a text with a line end where the line ends.

    The font has two bytes a character and a table that says what they mean, as
    fonts that programs embed have; its shapes are left out, since nobody looks.
    """
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    def stream(content: bytes) -> bytes:
        packed = zlib.compress(content)
        return b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed)

    letters = sorted({letter for page in pages for text in page for letter in text if letter != "\n"})
    codes = {letter: number for number, letter in enumerate(letters, 1)}
    told = "\n".join(f"<{code:04x}> <{letter.encode('utf-16-be').hex()}>" for letter, code in codes.items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def\n"
        f"1 begincodespacerange <0000> <ffff> endcodespacerange {len(codes)} beginbfchar\n{told}\nendbfchar\n"
        "endcmap CMapName currentdict /CMap defineresource pop end end"
    )
    widths = " ".join("1000" if letter > "\u2e80" else "500" for letter in letters)
    meaning = add(stream(cmap.encode()))
    descriptor = add(
        b"<</Type/FontDescriptor/FontName/X/Flags 4/FontBBox[0 -200 1000 800]/ItalicAngle 0/Ascent 800"
        b"/Descent -200/CapHeight 700/StemV 80>>"
    )
    child = add(
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
        b"/Supplement 0>>/FontDescriptor %d 0 R/CIDToGIDMap/Identity/W[1 [%s]]>>" % (descriptor, widths.encode())
    )
    font = add(
        b"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[%d 0 R]/ToUnicode %d 0 R>>"
        % (child, meaning)
    )
    contents: list[int] = []
    for page in pages:
        drawn = [f"BT /F {SIZE} Tf"]
        y = PAGE - 40
        for text in page:
            for line in text.split("\n"):
                shown = "".join(f"{codes[letter]:04x}" for letter in line)
                drawn.append(f"1 0 0 1 40 {y} Tm <{shown}> Tj")
                y -= LINE
            y -= LINE
        drawn.append("ET")
        if images_only:
            drawn = ["q 100 0 0 100 40 400 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \0 EI Q"]
        contents.append(add(stream("\n".join(drawn).encode("latin-1"))))
    tree = len(objects) + len(contents) + 1
    leaves = [
        add(
            b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 %d %d]/Contents %d 0 R/Resources<</Font<</F %d 0 R>>>>>>"
            % (tree, PAGE, PAGE, content, font)
        )
        for content in contents
    ]
    kids = b" ".join(b"%d 0 R" % leaf for leaf in leaves)
    assert add(b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(leaves), kids)) == tree
    root = add(b"<</Type/Catalog/Pages %d 0 R>>" % tree)
    trailer = b"/Root %d 0 R" % root
    if locked:  # keys that fit no password
        lock = add(b"<</Filter/Standard/V 1/R 2/O<%s>/U<%s>/P -4>>" % (b"11" * 32, b"22" * 32))
        trailer += b"/Encrypt %d 0 R/ID[<00><00>]" % lock
    out = bytearray(b"%PDF-1.7\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer<</Size %d%s>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, start)
    return bytes(out)


def word(fill: Callable[[Document], object]) -> bytes:
    """A .docx, filled by a function."""
    document = docx.Document()
    fill(document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def slides(fill: Callable[[Presentation], object]) -> bytes:
    """A .pptx, filled by a function."""
    presentation = pptx.Presentation()
    fill(presentation)
    out = io.BytesIO()
    presentation.save(out)
    return out.getvalue()


def slide(presentation: Presentation, title: str = "", body: str = "", notes: str = "") -> None:
    """One more slide."""
    layout = presentation.slide_layouts[1 if title or body else 6]
    new = presentation.slides.add_slide(layout)
    if title or body:
        new.shapes.title.text = title
        new.placeholders[1].text = body
    if notes:
        new.notes_slide.notes_text_frame.text = notes


def workbook(fill: Callable[[xlsxwriter.Workbook], object]) -> bytes:
    """An .xlsx, filled by a function."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    fill(book)
    book.close()
    return out.getvalue()


def sheet(book: xlsxwriter.Workbook, name: str, rows: Sequence[Sequence[object]]) -> xlsxwriter.worksheet.Worksheet:
    """One more sheet with these rows."""
    new = book.add_worksheet(name)
    for number, row in enumerate(rows):
        new.write_row(number, 0, row)
    return new


def changed(container: bytes, part: str, change: Callable[[bytes], bytes]) -> bytes:
    """An office file with one of its parts changed, or added."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(container)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in dict.fromkeys([*old.namelist(), part]):
            content = old.read(name) if name in old.namelist() else b""
            new.writestr(name, change(content) if name == part else content)
    return out.getvalue()
