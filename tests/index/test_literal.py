"""Plain-text search: what matches, in which order, and which piece of a line is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.literal import EXCERPT_CHARS, LiteralIndex, entry, excerpts, fold, matches


def found(query: str, **notes: str) -> list[str]:
    index = LiteralIndex()
    for key, (name, text) in enumerate(notes.items()):
        index.put(key, entry(name, text))
    return [match.path for match in matches(index.snapshot(), query)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        pytest.param("Die Straße ist lang", "STRASSE", id="sharp s"),
        pytest.param("STRASSE", "straße", id="sharp s in the query"),
        pytest.param("İstanbul", "İSTANBUL", id="dotted capital i"),
        pytest.param("東京へ行く", "京へ", id="Japanese inside a run"),
        pytest.param(unicodedata.normalize("NFD", "Übung"), "übung", id="decomposed text"),
        pytest.param("Übung", unicodedata.normalize("NFD", "ÜBUNG"), id="decomposed query"),
        pytest.param("ΣΊΣΥΦΟΣ", "σίσυφος", id="final sigma"),
        pytest.param('a (a+)+$ [x] \\ " * ?', '(a+)+$ [x] \\ " *', id="N24 pattern characters"),
        pytest.param("a\u0000b", "a\u0000b", id="NUL"),
    ],
)
def test_case_and_unicode_form_do_not_matter(text: str, query: str) -> None:
    assert found(query, note=f"first\n{text}\nlast") == ["note"]


@pytest.mark.parametrize("query", ["a.c", "a*", ".*", "%", "_"])
def test_a_query_is_never_a_pattern(query: str) -> None:
    assert found(query, note="abc") == []


def test_a_match_does_not_span_lines() -> None:
    assert found("one\ntwo", note="one\ntwo") == []
    assert found("onetwo", note="one\ntwo") == []


def test_names_come_first_then_more_lines_then_path() -> None:
    order = found(
        "plan",
        **{
            "z/few.md": "plan",
            "a/few.md": "plan plan plan",
            "many.md": "plan\nplan",
            "Plan/inside.md": "nothing here",
            "x/My Plan.md": "nothing here",
        },
    )
    assert order == ["x/My Plan.md", "many.md", "a/few.md", "z/few.md", "Plan/inside.md"]


def test_lines_are_numbered_over_all_kinds_of_line_ends() -> None:
    text = "---\r\ntitle: x\r\n---\rneedle one\nplain\nNEEDLE two\n"
    assert list(excerpts(text, "needle")) == [(4, "needle one"), (6, "NEEDLE two")]


def test_five_lines_are_shown_of_six() -> None:
    assert [number for number, _ in excerpts("needle\n" * 6, "needle")] == [1, 2, 3, 4, 5]


def test_a_long_line_is_cut_around_the_match_with_marks_at_cut_ends() -> None:
    line = "a" * 300 + " needle " + "b" * 300
    [(_, excerpt)] = list(excerpts(line, "needle"))
    assert "needle" in excerpt
    assert excerpt.startswith("…") and excerpt.endswith("…")
    assert len(excerpt) == EXCERPT_CHARS
    [(_, start)] = list(excerpts("needle " + "b" * 300, "needle"))
    assert start.startswith("needle") and start.endswith("…")


def test_an_excerpt_of_a_line_that_grows_when_folded_still_holds_the_match() -> None:
    line = "ß" * 400 + " needle " + "ß" * 400
    [(_, excerpt)] = list(excerpts(line, "NEEDLE"))
    assert "needle" in excerpt and len(excerpt) <= EXCERPT_CHARS


@given(st.text(max_size=300), st.text(min_size=1, max_size=4))
def test_excerpts_agree_with_folding_every_line(text: str, query: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    wanted = [number for number, line in enumerate(lines, 1) if fold(query) in fold(line)]
    got = list(excerpts(text, query))
    assert [number for number, _ in got] == wanted[:5]
    assert all(len(excerpt) <= EXCERPT_CHARS for _, excerpt in got)


@given(st.text(max_size=60), st.data())
def test_every_piece_of_a_line_is_found(line: str, data: st.DataObject) -> None:
    line = line.replace("\n", " ").replace("\r", " ")
    folded = fold(line)
    if not folded:
        return
    start = data.draw(st.integers(0, len(folded) - 1))
    end = data.draw(st.integers(start + 1, len(folded)))
    piece = folded[start:end]
    if fold(piece) == piece:  # a piece that begins with a mark may compose differently by itself
        assert found(piece, note=line) == ["note"]


def test_dropped_notes_are_not_found() -> None:
    index = LiteralIndex()
    index.put(1, entry("a.md", "needle"))
    before = index.snapshot()
    index.drop(1)
    assert matches(index.snapshot(), "needle") == []
    assert len(matches(before, "needle")) == 1  # a search that began earlier keeps its view
