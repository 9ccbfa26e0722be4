"""Each type of file: a known word in a known passage, and what is left out."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]: it has none
import pytest
from docx.document import Document as Word
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn

from sidecar.index.documents.document import LONGEST
from sidecar.index.documents.read import read, takes
from tests.index.documents import files

CHINESE = "检索增强生成把检索与生成\n结合起来。"
RUSSIAN = "Транссибирская магистраль соединяет\nМоскву и Владивосток."
GERMAN = "Die Donaudampfschifffahrt führt\nüber süße Äpfel."


def chunks(name: str, data: bytes) -> list[str]:
    document = read(name, data)
    assert document.warning is None
    return list(document.chunks)


def warning(name: str, data: bytes) -> str:
    document = read(name, data)
    assert document.chunks == ()
    assert document.warning is not None
    return document.warning


# text


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "Makefile", "a.unknown", "A.TXT"])
def test_text_of_any_name_is_one_passage_a_paragraph(name: str) -> None:
    text = "  one\ntwo\n\n\n \t \n\tthree 维 \r\n\r\nfour\n"
    assert chunks(name, text.encode()) == ["one\ntwo", "three 维", "four"]


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"], ids=["empty", "blank", "a mark"])
def test_text_without_text_has_no_passages(text: str) -> None:
    assert chunks("a.txt", text.encode()) == []


@pytest.mark.parametrize(
    "data",
    [b"text\0text", b"\xff\xfe" + "text".encode("utf-16-le"), b"text \xff text", b"a" * 8190 + b"\xff"],
    ids=["NUL", "UTF-16", "not UTF-8", "at the end of 8 KiB"],
)
def test_what_is_no_text_in_its_first_8_kib_has_no_passages(data: bytes) -> None:
    assert chunks("a.dat", data) == []


def test_later_bytes_do_not_count_and_the_cut_may_go_through_a_character() -> None:
    assert chunks("a.dat", ("a" * 8191 + "ä\n\nword").encode() + b"\xff\0")[-1].startswith("word")


def test_signs_alone_keep_their_number_and_are_no_passage() -> None:
    assert chunks("a.md", "---\n\none\n\n-\n\n* * *\n\n二".encode()) == ["", "one", "", "", "二"]


# tables


def test_values_stand_behind_the_names_of_their_columns() -> None:
    text = 'Name,,"Größe, m"\nAnna,x,"1,70"\n,,\n"zwei\nZeilen",,\n\n,,,fourth\n'
    assert chunks("a.csv", text.encode("utf-8-sig")) == [
        "Name, col2, Größe, m\n[1] Name=Anna, col2=x, Größe, m=1,70\n[3] Name=zwei Zeilen\n[5] col4=fourth"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "a;b,c\n1;2"), ("a.csv", "a\tb,c\n1\t2"), ("a.tsv", "a\tb,c\n1\t2"), ("a.csv", 'a,"b,c"\n1,2')],
)
def test_the_separator_is_found_out(name: str, text: str) -> None:
    assert chunks(name, text.encode()) == ["a, b,c\n[1] a=1, b,c=2"]


def test_32_rows_a_chunk_each_under_the_names() -> None:
    rows = [f"{number},word{number}" for number in range(1, 71)]
    found = chunks("a.csv", "\n".join(["n,w", *rows]).encode())
    assert [len(chunk.splitlines()) for chunk in found] == [33, 33, 7]
    assert all(chunk.startswith("n, w\n[") for chunk in found)
    assert "[33] n=33, w=word33" in found[1]


def test_a_table_of_names_alone_is_found() -> None:
    assert chunks("a.csv", b"only,names\n\n") == ["only, names"]


def test_old_letters_are_guessed_and_that_is_said() -> None:
    document = read("a.csv", "Größe\n1".encode("cp1252"))
    assert document.chunks == ("Größe\n[1] Größe=1",)
    assert "not UTF-8" in (document.warning or "")


def test_a_sheet_has_its_name_before_its_rows() -> None:
    def fill(book) -> None:
        files.sheet(book, "Zahlen", [["n", "", "wann"], *([number, "x", ""] for number in range(40))])
        files.sheet(book, "leer", [])
        sheet = files.sheet(book, "Ende", [["wort", "wann", "ja"], ["жираф", "", True], [0.5]])
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        sheet.write_datetime(1, 1, datetime.datetime(2024, 3, 1), day)

    found = chunks("a.xlsx", files.workbook(fill))
    assert [chunk.splitlines()[0] for chunk in found] == ["Zahlen", "Zahlen", "Ende"]
    assert found[1].splitlines()[1:3] == ["n, col2, wann", "[33] n=32, col2=x"]
    assert found[2] == "Ende\nwort, wann, ja\n[1] wort=жираф, wann=2024-03-01, ja=TRUE\n[2] wort=0.5"


def test_a_formula_shows_the_value_that_was_stored_and_is_not_worked_out() -> None:
    def fill(book) -> None:
        sheet = files.sheet(book, "S", [["a", "b", "c"]])
        sheet.write_formula(1, 0, "=1+1", None, 7)
        sheet.write_formula(1, 1, '=WEBSERVICE("http://127.0.0.1:9/x")', None, "stored")
        sheet.write_formula(1, 2, "='[other.xlsx]S'!A1", None, "")

    assert chunks("a.xlsx", files.workbook(fill)) == ["S\na, b, c\n[1] a=7, b=stored"]


# PDF


def test_a_pdf_is_read_page_by_page_and_paragraph_by_paragraph() -> None:
    data = files.pdf([CHINESE, RUSSIAN], [GERMAN, "End."], [])
    assert chunks("a.PDF", data) == [
        "检索增强生成把检索与生成结合起来。",
        "Транссибирская магистраль соединяет Москву и Владивосток.",
        "Die Donaudampfschifffahrt führt über süße Äpfel.",
        "End.",
    ]


@pytest.mark.parametrize("step", ["__getitem__", "get_textpage"])
def test_a_page_that_cannot_be_read_costs_no_other_page(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = pypdfium2.PdfDocument if step == "__getitem__" else pypdfium2.PdfPage
    sound = getattr(of, step)
    calls = iter(range(3))

    def second_fails(*args: object) -> object:
        if next(calls) == 1:
            raise pypdfium2.PdfiumError("Failed to load.")
        return sound(*args)

    monkeypatch.setattr(of, step, second_fails)
    assert chunks("a.pdf", files.pdf(["One."], ["Two."], ["Three."])) == ["One.", "Three."]


def test_a_word_that_goes_on_in_the_next_line_is_whole() -> None:
    assert chunks("a.pdf", files.pdf(["the manip\u00adulation of it"])) == ["the manipulation of it"]
    assert "manipulation" in chunks("a.pdf", files.pdf(["this is the manip-\nulation of many words"]))[0]


def test_lines_that_end_early_keep_their_ends() -> None:
    assert chunks("a.pdf", files.pdf(["A street\n12345 Town\nin a country with a long, long name"])) == [
        "A street\n12345 Town\nin a country with a long, long name"
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (files.pdf(["secret"], locked=True), "it is protected by a password"),
        (files.pdf([""], images_only=True), "it holds no text, only pictures of pages"),
        (b"%PDF-1.7 and no more", "it can't be read as PDF"),
        (files.pdf(["text"])[:200], "it can't be read as PDF"),
        (b"", "it can't be read as PDF"),
    ],
    ids=["password", "pictures", "broken", "half", "empty"],
)
def test_a_pdf_without_text_to_read_has_no_passages_and_a_warning(data: bytes, expected: str) -> None:
    assert warning("a.pdf", data) == expected


def test_without_its_lock_that_pdf_is_read() -> None:
    """Control of the password."""
    assert chunks("a.pdf", files.pdf(["secret"])) == ["secret"]


# Word


def test_paragraphs_stand_under_their_last_heading_and_tables_are_rows() -> None:
    def fill(document: Word) -> None:
        document.add_paragraph("before")
        document.add_heading("Titel", 0)
        document.add_heading("Kapitel", 1)
        document.add_paragraph("Ein жираф.\nZweite Zeile")
        document.add_paragraph("   ")
        table = document.add_table(2, 2)
        for at, cell in enumerate(["a", "b\nc", "", "d"]):
            table.cell(at // 2, at % 2).text = cell
        document.add_paragraph("长城", style="List Bullet")
        document.add_heading("Ende", 2)

    assert chunks("a.docx", files.word(fill)) == [
        "before",
        "Titel",
        "Kapitel\nEin жираф.\nZweite Zeile",
        "Kapitel\na | b c\n | d",
        "Kapitel\n长城",
        "Ende",
    ]


def test_a_style_that_builds_on_a_heading_makes_a_heading() -> None:
    def fill(document: Word) -> None:
        own = document.styles.add_style("Own", 1)
        own.base_style = document.styles["Heading 2"]
        document.add_paragraph("Head", style="Own")
        outlined = document.add_paragraph("below")
        assert outlined.text
        level = OxmlElement("w:outlineLvl")
        level.set(qn("w:val"), "0")
        document.add_paragraph("text")
        last = document.add_paragraph("Outlined")
        last._p.get_or_add_pPr().append(level)
        document.add_paragraph("more")

    assert chunks("a.docx", files.word(fill)) == ["Head\nbelow", "Head\ntext", "Outlined\nmore"]


W = nsdecls("w")
FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006"


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (f"<w:p {W}><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins></w:p>", ["inserted"]),
        (f"<w:p {W}><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>", []),
        (
            f"<w:sdt {W}><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>",
            ["controlled"],
        ),
        (
            f"<w:p {W}><w:r><w:t>outer</w:t><w:pict><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p>"
            f'</w:txbxContent></w:pict><x:Fallback xmlns:x="{FALLBACK}"><w:t>again</w:t></x:Fallback></w:r></w:p>',
            ["outer", "boxed"],
        ),
        (f"<w:p {W}><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", ["a\tb\nc"]),
        (f"<w:p {W}><w:r><w:instrText>DDEAUTO c:\\\\x</w:instrText></w:r><w:r><w:t>shown</w:t></w:r></w:p>", ["shown"]),
    ],
    ids=["insertion", "deletion", "control", "text box", "tab and break", "field code"],
)
def test_text_that_is_shown_is_read_wherever_it_is(xml: str, expected: list[str]) -> None:
    assert chunks("a.docx", files.word(lambda document: document.element.body.insert(0, parse_xml(xml)))) == expected


def test_long_paragraphs_are_cut_and_each_part_has_the_heading() -> None:
    def fill(document: Word) -> None:
        document.add_heading("H" * 500, 1)
        document.add_paragraph("A sentence of words. " * 300)

    found = chunks("a.docx", files.word(fill))
    assert found[0] == "H" * 500
    assert len(found) > 3
    assert all(part.startswith("H" * 199 + "…\nA sentence") and part.endswith("words.") for part in found[1:])
    assert max(map(len, found)) <= LONGEST


# slides


def test_a_slide_is_a_chunk_with_its_title_first_and_its_notes_last() -> None:
    def fill(presentation) -> None:
        files.slide(presentation, "Eins", "Inhalt\nmehr", "eine Notiz")
        files.slide(presentation)
        files.slide(presentation, "Три", "жираф")
        table = presentation.slides[2].shapes.add_table(1, 2, 0, 0, 100, 100).table
        table.cell(0, 0).text, table.cell(0, 1).text = "k", "v"
        group = presentation.slides[2].shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, 100, 100).text_frame.text = "in a group"

    assert chunks("a.pptx", files.slides(fill)) == [
        "Eins\nInhalt\nmehr\neine Notiz",
        "",
        "Три\nжираф\nk | v\nin a group",
    ]


# names


@pytest.mark.parametrize("name", ["a.md", "b/a.PDF", "x.obj", "README", "a.b.c", "ä"])
def test_names_of_documents(name: str) -> None:
    assert takes(name)


@pytest.mark.parametrize("name", ["a.png", "b/a.JPG", "x.zip", "~$a.docx", "b/~$a.docx"])
def test_names_of_what_is_never_opened(name: str) -> None:
    assert not takes(name)


OFFICE: list[tuple[str, Callable[[], bytes]]] = [
    ("a.docx", lambda: files.word(lambda document: document.add_paragraph("x"))),
    ("a.pptx", lambda: files.slides(lambda presentation: files.slide(presentation, "x"))),
    ("a.xlsx", lambda: files.workbook(lambda book: files.sheet(book, "x", [["x"]]))),
]


@pytest.mark.parametrize(("name", "made"), OFFICE, ids=[name for name, _ in OFFICE])
def test_a_half_written_or_wrong_office_file_is_a_warning(name: str, made: Callable[[], bytes]) -> None:
    data = made()
    assert chunks(name, data)
    for broken in (data[: len(data) // 2], data[:100], b"", b"PK\x03\x04", b"plain text", files.pdf(["x"])):
        assert "damaged" in warning(name, broken)
    for other, wrong in OFFICE:
        if other != name:
            assert warning(name, wrong())


def test_an_office_file_with_a_password_is_a_warning() -> None:
    assert "password" in warning("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000))


def test_the_parsers_are_not_loaded_for_text(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from sidecar.index.documents.read import read; import sidecar.daemon;"
        " assert read('a.md', b'x').chunks == ('x',);"
        " print([m for m in ('docx', 'pptx', 'lxml', 'pypdfium2', 'python_calamine') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
