"""Office files made to do harm. Each has a control that shows the harm without what keeps it off."""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import etree

from sidecar.index.documents import container
from sidecar.index.documents.container import MOST_UNPACKED, harmless
from sidecar.index.documents.document import Refused
from sidecar.index.documents.read import read
from tests.index.documents import files

CANARY = "canary-6f1d"
NAMES = {"a.docx": "word/document.xml", "a.pptx": "ppt/slides/slide1.xml", "a.xlsx": "xl/worksheets/sheet1.xml"}

TEXTS = {**NAMES, "a.xlsx": "xl/sharedStrings.xml"}
"""Where the word is."""


def good(name: str) -> bytes:
    if name == "a.docx":
        return files.word(lambda document: document.add_paragraph("known"))
    if name == "a.pptx":
        return files.slides(lambda presentation: files.slide(presentation, "known"))
    return files.workbook(lambda book: files.sheet(book, "S", [["known"]]))


def bomb(name: str, size: int) -> bytes:
    """The text of one part is so many zeros."""
    return files.changed(good(name), TEXTS[name], lambda old: old.replace(b"known", b"0" * size))


def with_entities(name: str, declared: str, encoding: str = "utf-8") -> bytes:
    def change(old: bytes) -> bytes:
        text = old.decode()
        head, _, rest = text.partition("?>")
        head = f'<?xml version="1.0" encoding="{encoding}" standalone="yes"'
        return f"{head}?>{declared}{rest.replace('known', '&e;')}".encode(encoding)

    return files.changed(good(name), TEXTS[name], change)


def laughs(levels: int) -> str:
    """Entities of which each is ten times the one before."""
    steps = [f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, levels)]
    return f'<!DOCTYPE x [<!ENTITY e0 "{CANARY}">{"".join(steps)}<!ENTITY e "&e{levels - 1};">]>'


@pytest.mark.parametrize("name", NAMES)
def test_an_office_file_is_read_through_the_harmless_copy(name: str) -> None:
    assert "known" in read(name, good(name)).chunks[0]


# bombs


@pytest.mark.parametrize("name", NAMES)
def test_a_zip_bomb_is_refused_for_its_ratio(name: str) -> None:
    data = bomb(name, 40 << 20)
    assert len(data) < 1 << 20
    assert read(name, data).warning == "a part of it unpacks to more than 200 times its size"


def test_a_bomb_is_stopped_while_it_goes_off() -> None:
    data = bomb("a.docx", 200 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            harmless(data)
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


def test_without_the_count_a_bomb_goes_off() -> None:
    """Control: what libraries do with the container themselves."""
    data = bomb("a.docx", 200 << 20)
    tracemalloc.start()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            assert len(packed.read("word/document.xml")) > 200 << 20
        assert tracemalloc.get_traced_memory()[1] > 200 << 20
    finally:
        tracemalloc.stop()


def test_what_a_container_says_of_its_sizes_is_not_believed() -> None:
    size = 40 << 20
    data = bomb("a.docx", size)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        told = packed.getinfo("word/document.xml").file_size
    assert told > size
    lying = data.replace(told.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert lying != data
    assert "200 times" in (read("a.docx", lying).warning or "")


def test_many_parts_that_are_small_alone_are_too_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    data = good("a.docx")
    for number in range(5):
        text = zlib.compress(bytes(range(256)) * 4096, 0).hex()[: 1 << 20]
        data = files.changed(data, f"word/{number}.xml", lambda _, text=text: f"<x>{text}</x>".encode())
    assert read("a.docx", data).warning is None
    monkeypatch.setattr(container, "MOST_UNPACKED", 4 << 20)
    assert read("a.docx", data).warning == "it unpacks to more than 4 MiB"
    assert MOST_UNPACKED == 256 << 20


def test_too_many_parts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MOST_PARTS", 5)
    assert "more than 5 parts" in (read("a.docx", good("a.docx")).warning or "")


@pytest.mark.parametrize("inner", ["word/embeddings/inner.docx", "word/media/inner.zip", "inner.zip"])
def test_a_container_in_a_container_is_not_unpacked(inner: str) -> None:
    data = files.changed(good("a.docx"), inner, lambda _: bomb("a.docx", 40 << 20))
    assert read("a.docx", data).chunks == ("known",)
    with zipfile.ZipFile(io.BytesIO(harmless(data))) as plain:
        assert plain.read(inner) == b""


def test_pictures_and_macros_do_not_reach_the_parsers() -> None:
    data = good("a.docx")
    for part in ("word/vbaProject.bin", "word/media/image1.png", "word/oleObject1.bin"):
        data = files.changed(data, part, lambda _: CANARY.encode())
    assert CANARY.encode() not in harmless(data)
    assert read("a.docx", data).chunks == ("known",)


def test_a_part_with_a_password_is_a_warning() -> None:
    data = bytearray(good("a.docx"))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            data[place + at] |= 1
            place = data.find(mark, place + 1)
    assert read("a.docx", bytes(data)).warning == "it is protected by a password"


# entities


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("name", NAMES)
def test_entities_are_refused(name: str, encoding: str) -> None:
    assert "declares entities" in (read(name, with_entities(name, laughs(9), encoding)).warning or "")


@pytest.mark.parametrize("name", NAMES)
def test_an_external_entity_is_refused(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    data = with_entities(name, f'<!DOCTYPE x [<!ENTITY e SYSTEM "{secret.as_uri()}">]>')
    document = read(name, data)
    assert document.chunks == ()
    assert "declares entities" in (document.warning or "")


def test_a_declaration_that_declares_nothing_is_refused_as_well() -> None:
    data = with_entities("a.docx", '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">').replace(b"&e;", b"x")
    assert "declares entities" in (read("a.docx", data).warning or "")


def test_without_the_refusal_entities_expand() -> None:
    """Control: a thousandfold, well below where the parser itself gives up."""
    with zipfile.ZipFile(io.BytesIO(with_entities("a.docx", laughs(4)))) as packed:
        tree = ElementTree.fromstring(packed.read("word/document.xml"))
    assert "".join(tree.itertext()).count(CANARY) == 1000


def test_without_the_refusal_a_parser_can_be_had_to_read_another_file(tmp_path: Path) -> None:
    """Control: with the setting that was lxml's own for long."""
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    data = with_entities("a.docx", f'<!DOCTYPE x [<!ENTITY e SYSTEM "{secret.as_uri()}">]>')
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        tree = etree.fromstring(packed.read("word/document.xml"), etree.XMLParser(resolve_entities=True))
    assert CANARY in "".join(tree.itertext())


# workbooks


def empty_cells(count: int) -> bytes:
    def change(old: bytes) -> bytes:
        head, mark, tail = old.partition(b"</sheetData>")
        rows = (
            b'<row r="%d">%s</row>' % (row, b"".join(b'<c r="%s%d" s="0"/>' % (column, row) for column in columns))
            for row in range(2, 2 + count // 100)
        )
        return head + b"".join(rows) + mark + tail

    letters = [bytes([65 + number]) for number in range(26)]
    columns = (letters + [a + b for a in letters for b in letters])[:100]
    return files.changed(good("a.xlsx"), NAMES["a.xlsx"], change)


def processor_s(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def test_a_million_empty_cells_are_cheap() -> None:
    """They cost less than a fiftieth as many full ones would, through the same code: about a third of a second."""
    data = empty_cells(1_000_000)
    assert read("a.xlsx", data).chunks == ("S\nknown",)
    full = files.workbook(lambda book: files.sheet(book, "S", [[f"v{n}" for n in range(100)] for _ in range(1000)]))
    assert processor_s(lambda: read("a.xlsx", data)) < 10 * processor_s(lambda: read("a.xlsx", full))


@pytest.mark.skipif(sys.platform != "linux", reason="this system limits no memory")
def test_a_cell_at_the_far_end_does_not_take_the_memory_of_all_between() -> None:
    """It ends the process, which the readers see to; here it is given one of its own."""
    data = files.workbook(lambda book: files.sheet(book, "S", [["a"]]).write(1_048_575, 16_383, "z"))
    code = (
        "import sys; from sidecar.index.documents.worker import limit_memory; limit_memory(1 << 30);"
        "from sidecar.index.documents.read import read; read('a.xlsx', sys.stdin.buffer.read())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert done.returncode != 0
    control = subprocess.run([sys.executable, "-c", code], input=good("a.xlsx"), capture_output=True)
    assert control.returncode == 0, control.stderr
