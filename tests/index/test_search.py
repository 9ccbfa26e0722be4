"""Ranked search over a corpus: one row a note, best first, in every script, and nothing for nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.index.corpus import Corpus
from sidecar.index.manifest_file import FILE_NAME
from sidecar.index.manifest_reader import ManifestReader
from tests.index.vaults import PATIENCE_S, opened

NOTES = {
    "Heat.md": "---\naliases: [boiler]\ntags: [home/heating]\n---\n# Heat pump\nWe take it; the offer is valid.\n",
    "Wärme.md": "# Wärmepumpe\nDie Angebote für die Wärmepumpen liegen vor.\n",
    "Путь.md": "# Поездка\nМы купили билеты на поезда.\n",
    "京都.md": "# 京都旅行\n来週、京都へ旅行します。\n",
    "long.md": "\n\n".join(f"## Part {n}\n" + "filler text here " * 60 + "needleword" for n in range(6)),
    "Code.md": "call `readNoteFile` or snake_case_name\n",
}


@pytest.fixture
async def corpus(tmp_path: Path) -> AsyncIterator[Corpus]:
    vault = tmp_path / "vault"
    vault.mkdir()
    for name, text in NOTES.items():
        (vault / name).write_text(text)
    async with opened(vault, tmp_path / "state") as corpus:
        yield corpus


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("heat pumps", "Heat.md"),
        ("boiler", "Heat.md"),
        ("#home/heating", "Heat.md"),
        ("Wärmepumpe Angebot", "Wärme.md"),
        ("waermepumpe angebote wärmepumpe", "Wärme.md"),
        ("билет", "Путь.md"),
        ("京都 旅行", "京都.md"),
        ("旅", "京都.md"),
        ("note file", "Code.md"),
        ("snake case", "Code.md"),
    ],
)
async def test_the_right_note_comes_first(corpus: Corpus, query: str, path: str) -> None:
    answer = await corpus.search(query, 5)
    assert answer.mode == "keyword"
    assert answer.hits[0].path == path


async def test_a_note_with_many_matching_chunks_is_one_row(corpus: Corpus) -> None:
    answer = await corpus.search("needleword", 10)
    assert [hit.path for hit in answer.hits] == ["long.md"]
    assert "[needleword]" in answer.hits[0].snippet


async def test_an_answer_is_of_one_moment_though_notes_are_stored_meanwhile(corpus: Corpus, tmp_path: Path) -> None:
    def question(reader: ManifestReader) -> None:
        [chunk] = reader.chunks_of(["Code.md"]).tolist()
        (tmp_path / "new.md").write_text("A zeppelin.\n")
        (tmp_path / "new.md").replace(tmp_path / "vault" / "Code.md")  # else it would be empty for a moment
        with closing(ManifestReader(tmp_path / "state" / FILE_NAME)) as other:
            give_up = time.monotonic() + PATIENCE_S
            while chunk in other.chunks_of(["Code.md"]):
                assert time.monotonic() < give_up
        assert "snake_case_name" in reader.chunk_rows([chunk])[chunk].text
        live = corpus._live  # what is ranked anew is of now, and so are the notes of it
        hits, notes = live.rank_with_notes(reader, live.words("zeppelin"), 5)
        assert [chunk_id for chunk_id, _ in hits] == list(notes) != [chunk]
        assert reader.chunk_rows([chunk]) == {}
        assert "zeppelin" in reader.chunk_rows([hits[0][0]])[hits[0][0]].text

    await corpus.ask(question)


async def test_rows_are_best_first_and_no_more_than_asked(corpus: Corpus) -> None:
    answer = await corpus.search("heat pump text offer Angebote", 2)
    scores = [hit.score for hit in answer.hits]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


async def test_the_line_is_that_of_the_file(corpus: Corpus, tmp_path: Path) -> None:
    [hit] = (await corpus.search("boiler", 1)).hits
    assert NOTES["Heat.md"].split("\n")[hit.line - 1] == "# Heat pump"


@pytest.mark.parametrize("query", ["zeppelin", "!!! ???", "()[]"])
async def test_text_without_a_match_gives_an_empty_list(corpus: Corpus, query: str) -> None:
    assert (await corpus.search(query, 5)).hits == []
