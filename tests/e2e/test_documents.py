"""Documents end to end: a folder as people have them, asked over MCP, and files that were made to do harm."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.index.embed.weights import is_present
from tests.conftest import unpack
from tests.e2e.test_databases import Library
from tests.index.documents import files
from tests.index.documents.test_container import bomb, empty_cells, good, laughs, with_entities

NOTES = ("vue-docs-zh-cn", "react-docs-ru", "gesetze-de-subset", "vue-docs-ja")

GERMAN = "Im Mai kommt der Installateur: Die\nWärmepumpe ersetzt den alten Ölkessel."
RUSSIAN = "Свёклу натереть, капусту нашинковать,\nмясо варить два часа, подавать со сметаной."
CHINESE = "我们沿着河边骑自行车，走了四十公里，\n晚上在小旅馆住了一夜。"

MADE: dict[str, Callable[[], bytes]] = {
    "Bericht.pdf": lambda: files.pdf(["Bericht für den Vorstand", "Zahlen und Tabellen"], ["Anhang", GERMAN]),
    "Борщ.pdf": lambda: files.pdf(["Домашняя кухня"], ["Вторая страница"], [RUSSIAN]),
    "骑行.pdf": lambda: files.pdf(["家庭日记", CHINESE]),
    "Nights.docx": lambda: files.word(
        lambda document: [
            document.add_heading("The baby", 1),
            document.add_paragraph("What we tried in spring."),
            document.add_paragraph("No screens after nine, the window open. Since then it wakes only once."),
        ]
    ),
    "Sourdough.pptx": lambda: files.slides(
        lambda presentation: [
            files.slide(presentation, "Agenda", "Three steps"),
            files.slide(presentation),
            files.slide(presentation, "Sourdough", "Feed the starter, fold every half hour", "Bake in the iron pot."),
        ]
    ),
    "Budget.xlsx": lambda: files.workbook(
        lambda book: [
            files.sheet(book, "2023", [["item", "amount"], ["nothing", 0]]),
            files.sheet(
                book, "2024", [["item", "amount", "remark"], ["rent", 1200, "a third of what the family earns"]]
            ),
        ]
    ),
    "beds.csv": lambda: b"plant;place\ntomatoes;under the glass roof\nbeans;along the fence\n",
}

BY_WORDS = [
    ("Ölkessel", "Bericht.pdf", 4),
    ("сметаной", "Борщ.pdf", 3),
    ("小旅馆", "骑行.pdf", 2),
    ("screens", "Nights.docx", 2),
    ("sourdough", "Sourdough.pptx", 3),
    ("earns", "Budget.xlsx", 2),
    ("tomatoes", "beds.csv", 1),
]

BY_MEANING = [
    ("Womit wird künftig geheizt?", "Bericht.pdf", 4),
    ("рецепт супа с говядиной", "Борщ.pdf", 3),
    ("a cycling trip with an overnight stay", "骑行.pdf", 2),
    ("单车旅行", "骑行.pdf", 2),
    ("how can an infant sleep better", "Nights.docx", 2),
    ("how to make bread at home", "Sourdough.pptx", 3),
    ("monthly housing costs", "Budget.xlsx", 2),
    ("what grows in our garden", "beds.csv", 1),
]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with closing(Library(tmp_path)) as made:
        yield made


@pytest.fixture(scope="module")
def notes(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(corpora / "vaults" / "i18n.tar.gz", tmp_path_factory.mktemp("i18n"))


def with_some_notes(library: Library, notes: Path, of_each: int) -> None:
    """The documents, and so many notes of each language beside them."""
    for name, make in MADE.items():
        (library.docs / name).write_bytes(make())
    for source in NOTES:
        chosen = sorted(path for path in notes.rglob(f"{source}/**/*.md") if 500 < path.stat().st_size < 4000)
        for path in chosen[:of_each]:
            target = library.docs / "notes" / path.relative_to(notes)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def found(library: Library, branch: str, query: str) -> dict[str, int]:
    """Files that a branch finds with the usual limit, in its order, and the best passage of each."""
    sources = library.search(db="docs", q=query, mode=branch)[branch]
    return {
        Path(source["source"]).relative_to(library.docs).as_posix(): source["matches"][0]["chunk"] for source in sources
    }


@pytest.fixture(scope="module")
def by_meaning(notes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    if not is_present("e5", Path("/nonexistent")):
        pytest.skip("the e5 weights are not installed on this system")
    with closing(Library(tmp_path_factory.mktemp("meaning"), embedder="e5")) as library:
        (library.docs / "many.txt").unlink()
        with_some_notes(library, notes, 3)
        library.add("docs")
        library.settle()
        yield library


@pytest.mark.parametrize(("word", "name", "chunk"), BY_WORDS)
def test_each_type_is_found_by_a_word_of_it(by_meaning: Library, word: str, name: str, chunk: int) -> None:
    assert next(iter(found(by_meaning, "keyword", word).items())) == (name, chunk)


@pytest.mark.parametrize(("question", "name", "chunk"), BY_MEANING)
def test_each_type_is_found_by_what_it_means(by_meaning: Library, question: str, name: str, chunk: int) -> None:
    assert found(by_meaning, "semantic", question)[name] == chunk


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_documents_are_found_among_all_notes_of_six_languages(notes: Path, tmp_path: Path) -> None:
    with closing(Library(tmp_path)) as library:
        shutil.copytree(notes, library.docs / "notes")
        for name, make in MADE.items():
            (library.docs / name).write_bytes(make())
        library.add("docs")
        library.settle(within_s=600)
        [state] = library.states()
        assert state["files"]["keyword"] >= 1700
        assert state["skipped"] == []
        for word, name, chunk in BY_WORDS:
            assert found(library, "keyword", word)[name] == chunk


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "bomb.docx": (lambda: bomb("a.docx", 40 << 20), "a part of it unpacks to more than 200 times its size"),
    "bomb.xlsx": (lambda: bomb("a.xlsx", 40 << 20), "a part of it unpacks to more than 200 times its size"),
    "entities.pptx": (lambda: with_entities("a.pptx", laughs(9)), "its XML declares entities"),
    "entities.docx": (lambda: with_entities("a.docx", laughs(9), "utf-16"), "its XML declares entities"),
    "broken.pdf": (lambda: files.pdf(["x"])[:300], "it can't be read as PDF"),
    "half.docx": (lambda: good("a.docx")[:5000], "it can't be unpacked; it may be damaged"),
    "locked.pdf": (lambda: files.pdf(["x"], locked=True), "it is protected by a password"),
    "pictures.pdf": (lambda: files.pdf([""], images_only=True), "it holds no text, only pictures of pages"),
    "far.xlsx": (
        lambda: files.workbook(lambda book: files.sheet(book, "S", [["a"]]).write(1_048_575, 16_383, "z")),
        "the process that read it was ended by SIGABRT",
    ),
    "large.txt": (lambda: b"a" * ((64 << 20) + 1), "is larger than 64 MiB"),
}
HARMLESS: dict[str, Callable[[], bytes]] = {
    "cells.xlsx": lambda: empty_cells(1_000_000),
    "formula.xlsx": lambda: files.workbook(
        lambda book: files.sheet(book, "S", [["a"]]).write_formula(
            1, 0, '=WEBSERVICE("http://127.0.0.1:9/")', None, "storedvalue"
        )
    ),
    "nested.docx": lambda: files.changed(good("a.docx"), "word/inner.docx", lambda _: bomb("a.docx", 40 << 20)),
}


def test_files_made_to_do_harm_are_told_of_and_the_others_are_found(library: Library) -> None:
    pid = library.daemon.process.pid
    for name, (make, _) in HOSTILE.items():
        (library.docs / name).write_bytes(make())
    for name, make in HARMLESS.items():
        (library.docs / name).write_bytes(make())
    library.add("docs")
    library.settle()
    [state] = library.states()
    reasons = {skip["path"]: skip["reason"] for skip in state["skipped"]}
    assert reasons.keys() == HOSTILE.keys()
    assert {name: wanted in reasons[name] for name, (_, wanted) in HOSTILE.items()} == dict.fromkeys(HOSTILE, True)
    assert found(library, "keyword", "lighthouses") == {"rag.md": 2}
    assert found(library, "keyword", "storedvalue") == {"formula.xlsx": 1}
    assert found(library, "keyword", "known") == {"cells.xlsx": 1, "nested.docx": 1}
    assert library.daemon.process.pid == pid and library.daemon.process.poll() is None


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_text_of_64_mib_is_indexed_and_the_daemon_answers_meanwhile(library: Library) -> None:
    words = " ".join(f"word{number:05}" for number in range(50_000))
    (library.docs / "large.txt").write_bytes((f"beginning {words} " * 200).encode()[: (64 << 20) - 20] + b" theveryend")
    library.add("docs")
    library.settle(within_s=600)
    [state] = library.states()
    assert state["skipped"] == []
    assert state["chunks"]["total"] > 33_000
    [source] = library.search(db="docs", q="theveryend", mode="keyword")["keyword"]
    assert source["source"].endswith("/large.txt") and source["matches"][0]["chunk"] == state["chunks"]["total"] - 252
