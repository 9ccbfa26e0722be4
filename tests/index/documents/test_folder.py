"""A folder of documents as a corpus: live like a vault, and no file of it harms the others."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from sidecar.index import opening
from sidecar.index.corpus import Corpus
from sidecar.index.documents.prepare import DocumentPreparers
from sidecar.index.documents.read import read
from sidecar.index.documents.readers import READ, DocumentReaders, _Reader
from sidecar.index.documents.reading import Reading
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.opening import CorpusOptions, open_corpus
from sidecar.index.profile import DOCUMENTS, MOST_DOCUMENT_BYTES, Profile
from sidecar.index.tokens import Tokenizer
from sidecar.vault.jail import FileStat, NoteFile
from sidecar.vault.paths import VaultPath
from tests.index.documents import files, nasty
from tests.index.documents.test_container import bomb, empty_cells, laughs, with_entities
from tests.index.vaults import PATIENCE_S, settled

CANARY = "canaryword"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@asynccontextmanager
async def opened(folder: Path, *, read: str = READ, most_bytes: int = MOST_DOCUMENT_BYTES) -> AsyncIterator[Corpus]:
    """The documents of a folder, after the first scan."""
    state = folder.parent / "state"
    state.mkdir(exist_ok=True)
    async with (
        DocumentReaders(os.environ, state, read=read) as readers,
        open_corpus(folder, state, CorpusOptions(most_bytes), lambda progress: None, documents=readers) as corpus,
    ):
        await settled(corpus)
        yield corpus


def chunks(corpus: Corpus) -> list[tuple[str, int, str, int]]:
    """All that is indexed: path, number of the chunk from 1, the chunk, its id. Blocks."""
    query = "SELECT path, ordinal + 1, text, chunk_id FROM chunks JOIN notes USING (note_key) ORDER BY path, ordinal"
    with closing(ManifestReader(corpus._asking._path)) as reader:
        return reader._db.execute(query).fetchall()


async def found(corpus: Corpus, word: str) -> list[tuple[str, int]]:
    """Where the word is, by the keyword search and by the manifest: path, number of the chunk from 1."""
    hits = {hit.path for hit in (await corpus.search(word, 100, "keyword")).hits}
    rows = await asyncio.to_thread(chunks, corpus)
    return [(path, number) for path, number, text, _ in rows if word in text and path in hits]


async def until_found(corpus: Corpus, word: str, expected: list[tuple[str, int]]) -> None:
    seen: list[tuple[str, int]] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (seen := await found(corpus, word)) != expected:
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(seen) from None


async def skipped(corpus: Corpus) -> dict[str, str]:
    return dict((await corpus.status()).skipped)


DOCUMENTS_MADE: dict[str, Callable[[], bytes]] = {
    "a.txt": lambda: b"first\n\nsecond word1",
    "b.csv": lambda: "\n".join(["n", *("x" for _ in range(40)), "word2"]).encode(),
    "c.xlsx": lambda: files.workbook(
        lambda book: [files.sheet(book, "1", [["a"]]), files.sheet(book, "2", [["word3"]])]
    ),
    "sub/d.pdf": lambda: files.pdf(["one", "another"], ["word4 維基百科", "Größe и жираф"]),
    "sub/e.docx": lambda: files.word(lambda document: [document.add_paragraph(text) for text in ("a", "b", "word5")]),
    "sub/deep/f.pptx": lambda: files.slides(
        lambda presentation: [files.slide(presentation), files.slide(presentation, "word6")]
    ),
    "LICENSE": lambda: b"word7",
}
CHUNKS = {"word1": 2, "word2": 2, "word3": 2, "word4": 3, "word5": 3, "word6": 2, "word7": 1}


def lay(folder: Path) -> None:
    for name, make in DOCUMENTS_MADE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(make())


async def test_each_type_is_found_with_the_number_of_its_chunk(folder: Path) -> None:
    lay(folder)
    (folder / "picture.png").write_bytes(b"word1")
    (folder / "data.bin").write_bytes(b"\0\1 word1")
    (folder / ".hidden.txt").write_text("word1")
    (folder / "link.txt").symlink_to(folder / "a.txt")
    async with opened(folder) as corpus:
        for (word, chunk), name in zip(CHUNKS.items(), DOCUMENTS_MADE, strict=True):
            assert await found(corpus, word) == [(name, chunk)]
        for word in ("百科", "Größe", "жираф"):
            assert [(path, number >= 3) for path, number in await found(corpus, word)] == [("sub/d.pdf", True)]
        assert list(await skipped(corpus)) == ["link.txt"]
        assert "data.bin" in corpus.names()


async def test_the_folder_is_watched(folder: Path) -> None:
    lay(folder)
    async with opened(folder) as corpus:
        (folder / "new.pdf").write_bytes(files.pdf(["a", CANARY]))
        await until_found(corpus, CANARY, [("new.pdf", 2)])
        (folder / "new.pdf").rename(folder / "sub" / "other.pdf")
        await until_found(corpus, CANARY, [("sub/other.pdf", 2)])
        (folder / "sub" / "other.pdf").write_bytes(files.pdf([CANARY]))
        await until_found(corpus, CANARY, [("sub/other.pdf", 1)])
        (folder / "sub" / "other.pdf").unlink()
        await until_found(corpus, CANARY, [])
        shutil.rmtree(folder / "sub")
        await until_found(corpus, "word5", [])
        await until_found(corpus, "word1", [("a.txt", 2)])


async def test_unchanged_passages_of_a_changed_file_keep_their_rows(folder: Path) -> None:
    async def rows(corpus: Corpus) -> dict[str, int]:
        return {text: chunk_id for _, _, text, chunk_id in await asyncio.to_thread(chunks, corpus)}

    (folder / "a.txt").write_text("one\n\ntwo\n\nthree")
    async with opened(folder) as corpus:
        before = await rows(corpus)
        (folder / "a.txt").write_text(f"{CANARY}\n\none\n\nthree")
        await until_found(corpus, CANARY, [("a.txt", 1)])
        after = await rows(corpus)
    assert {text: after[text] for text in ("one", "three")} == {text: before[text] for text in ("one", "three")}
    assert "two" not in after


async def test_a_file_that_is_half_written_is_a_warning_until_it_is_whole(folder: Path) -> None:
    whole = files.word(lambda document: document.add_paragraph(CANARY))
    (folder / "a.docx").write_bytes(whole)
    async with opened(folder) as corpus:
        await until_found(corpus, CANARY, [("a.docx", 1)])
        (folder / "a.docx").write_bytes(whole[: len(whole) // 2])
        await until_found(corpus, CANARY, [])
        assert "damaged" in (await skipped(corpus))["a.docx"]
        (folder / "a.docx").write_bytes(whole)
        await until_found(corpus, CANARY, [("a.docx", 1)])
        assert await skipped(corpus) == {}


async def test_a_file_that_failed_is_not_read_again_until_it_changes(folder: Path) -> None:
    (folder / "a.pdf").write_bytes(b"broken")
    async with opened(folder) as corpus:
        assert list(await skipped(corpus)) == ["a.pdf"]
    (folder / "crash.txt").write_bytes(b"x")
    async with opened(folder, read=nasty.READ) as corpus:  # whatever it would say now
        assert (await skipped(corpus))["a.pdf"] == "it can't be read as PDF"
        assert corpus.generation < 10


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "ratio.docx": (lambda: bomb("a.docx", 40 << 20), "unpacks to more than 200 times"),
    "entities.xlsx": (lambda: with_entities("a.xlsx", laughs(9)), "declares entities"),
    "entities.pptx": (lambda: with_entities("a.pptx", laughs(9)), "declares entities"),
    "broken.pdf": (lambda: files.pdf(["x"])[:300], "can't be read as PDF"),
    "locked.pdf": (lambda: files.pdf(["x"], locked=True), "password"),
    "pictures.pdf": (lambda: files.pdf([""], images_only=True), "pictures of pages"),
    "hang.pdf": (lambda: b"x", "takes longer than 3 s"),
    "crash.docx": (lambda: b"x", "was ended by SIGSEGV"),
    "greedy.pptx": (lambda: str(2 << 30).encode(), "takes more memory than 1,024 MiB"),
}
HARMLESS = {
    "cells.xlsx": lambda: empty_cells(1_000_000),
    "formula.xlsx": lambda: files.workbook(
        lambda book: files.sheet(book, "S", [["a"]]).write_formula(
            1, 0, "='[http://127.0.0.1:9/x.xlsx]S'!A1", None, "v"
        )
    ),
}


async def test_hostile_files_cost_a_warning_each_and_the_others_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _Reader.read

    def read_in_time(reader: _Reader, name: str, data: bytes, limit_s: float) -> Awaitable[Reading]:
        return real(reader, name, data, 3.0 if name == "hang.pdf" else limit_s)

    monkeypatch.setattr(_Reader, "read", read_in_time)
    lay(folder)
    for name, (make, _) in HOSTILE.items():
        (folder / name).write_bytes(make())
    for name, make in HARMLESS.items():
        (folder / name).write_bytes(make())
    async with opened(folder, read=nasty.READ) as corpus:
        reasons = await skipped(corpus)
        assert {name: expected in reasons[name] for name, (_, expected) in HOSTILE.items()} == dict.fromkeys(
            HOSTILE, True
        )
        assert reasons.keys() == HOSTILE.keys()
        for (word, chunk), name in zip(CHUNKS.items(), DOCUMENTS_MADE, strict=True):
            assert await found(corpus, word) == [(name, chunk)]
        (folder / "after.txt").write_text(CANARY)
        await until_found(corpus, CANARY, [("after.txt", 1)])


async def test_without_processes_of_their_own_a_crash_would_be_ours(folder: Path) -> None:
    """Control: the same file, read in the process that asks."""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", "from tests.index.documents import nasty; nasty.read('crash', b'')"])
    assert done.returncode < 0


async def test_a_file_over_the_limit_is_left_out_with_a_reason(folder: Path) -> None:
    (folder / "a.txt").write_text(f"{CANARY} " * 100)
    (folder / "b.txt").write_text(CANARY)
    async with opened(folder) as corpus:
        await until_found(corpus, CANARY, [("a.txt", 1), ("b.txt", 1)])
    async with opened(folder, most_bytes=500) as corpus:
        (folder / "a.txt").write_text(f"{CANARY} " * 101)
        await until_found(corpus, CANARY, [("b.txt", 1)])
        assert "is larger than" in (await skipped(corpus))["a.txt"]


async def test_files_beyond_the_number_are_left_out_and_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "DOCUMENTS", Profile(DOCUMENTS.takes, DOCUMENTS.version, most_files=3))
    assert DOCUMENTS.most_files == 50_000
    for number in range(5):
        (folder / f"{number}.txt").write_text(CANARY)
    async with opened(folder) as corpus:
        assert [path for path, _ in await found(corpus, CANARY)] == ["0.txt", "1.txt", "2.txt"]
        assert (await corpus.status()).problem == "2 files are left out: at most 3 of one folder are indexed."
        (folder / "00.txt").write_text("late")
        (folder / "1.txt").write_text("other")
        await until_found(corpus, CANARY, [("0.txt", 1), ("2.txt", 1)])
        assert await found(corpus, "late") == []
        assert "00.txt" not in corpus.names()
        (folder / "2.txt").unlink()
        await until_found(corpus, CANARY, [("0.txt", 1)])
        (folder / "00.txt").write_text("late again")
        await until_found(corpus, "late", [("00.txt", 1)])


async def test_rebuilding_reads_everything_again(folder: Path) -> None:
    lay(folder)
    async with opened(folder) as corpus:
        generation = corpus.generation
        corpus.rebuild()
        await corpus.wait_beyond(generation)
        await settled(corpus)
        await until_found(corpus, "word4", [("sub/d.pdf", 3)])


def wide_table(size: int) -> bytes:
    """Half of it is long names of columns, half short values, before each of which its name will stand."""
    columns = size // 2 // 121
    rows = size // 2 // (2 * columns)
    return "\n".join([",".join(f"{at:0120}" for at in range(columns)), *(",".join("1" * columns),) * rows]).encode()


@pytest.mark.parametrize(
    ("name", "data", "elsewhere"),
    [
        ("a.csv", wide_table(1 << 18), True),
        ("a.csv", b"a,b\n1,2\n", False),
        ("a.txt", b"word\n\n" * (1 << 15), False),
        ("a.txt", b"word\n\n" * (1 << 18), True),
    ],
    ids=["a table that grows", "a small table", "a text", "a long text"],
)
async def test_what_is_much_work_is_not_done_in_our_own_process(
    tmp_path: Path, name: str, data: bytes, elsewhere: bool
) -> None:
    async with DocumentReaders(os.environ, tmp_path) as readers:
        preparers = DocumentPreparers(readers, Tokenizer())
        pids = set(readers.pids)
        lot = asyncio.create_task(preparers.prepare_here([(VaultPath(name), NoteFile(data, FileStat(1, 2, 3, 4)))]))
        while not lot.done():
            pids.update(readers.pids)
            await asyncio.sleep(0.01)
        await lot
        await preparers.close()
    assert bool(pids) == elsewhere


def test_a_table_made_to_grow_comes_to_many_times_its_size() -> None:
    """Control: why it is not read where longer texts are."""
    data = wide_table(1 << 18)
    assert sum(map(len, read("a.csv", data).chunks)) > 25 * len(data)
    assert sum(map(len, read("a.txt", data).chunks)) <= len(data)


@pytest.mark.parametrize("many", [False, True], ids=["few files", "many files"])
async def test_a_document_is_the_same_wherever_it_is_read(tmp_path: Path, many: bool) -> None:
    reads = [
        (VaultPath("a.md"), NoteFile("Größe\n\nжираф".encode(), FileStat(1, 2, 3, 4))),
        (VaultPath("b.bin"), NoteFile(b"\0", FileStat(1, 2, 3, 4))),
        (VaultPath("c.csv"), NoteFile("Größe\n1".encode("cp1252"), FileStat(1, 2, 3, 4))),
        (VaultPath("d.md"), NoteFile(b"word", FileStat(1, 2, 3, 4))),
    ]
    async with DocumentReaders(os.environ, tmp_path) as readers:
        preparers = DocumentPreparers(readers, Tokenizer())
        preparers.expect(1000 if many else 1)
        there = await preparers.prepare(reads)
        assert bool(readers.pids) == many
        here = await preparers.prepare_here(reads)
        await preparers.close()
    assert here == there
    assert [piece.document for result in here.results if hasattr(result, "pieces") for piece in result.pieces] == [
        0,
        1,
        2,
        3,
    ]
