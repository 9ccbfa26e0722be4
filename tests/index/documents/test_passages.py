"""Cutting plain text and tables: nothing but blanks is lost, the order stays, no passage is too long."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.documents.document import LONGEST, LONGEST_WHOLE, MOST_CHUNKS, gathered
from sidecar.index.documents.passages import paragraphs, parts, passages, rows_together
from sidecar.index.documents.tables import ROWS, table
from tests.effort import growth

WORDS = ["word", "Sentence. ", "长城。", "ประเทศไทย", "न्याय। ", "é", "😀", "\U0001f469\u200d\U0001f467", "!?…"]
BLANKS = ["\n", "\n\n", "\r\n", " ", "\t", "\u2028", "\x0c", "\u3000", "\ufeff", "\0"]
LONG = ["x" * 700, "字" * 900, "กำ" * 800]
PIECES = st.sampled_from(WORDS + BLANKS + LONG)
TEXTS = st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=300)


def ink(text: str) -> str:
    """All that is not blank, and neither NUL nor a byte order mark."""
    return "".join(text.translate({0: None, 0xFEFF: None}).split())


@given(TEXTS)
def test_passages_hold_all_but_blanks_in_their_order(text: str) -> None:
    found = list(passages(text))
    assert ink("".join(found)) == ink(text)
    assert all(0 < len(passage) <= LONGEST and passage == passage.strip() for passage in found)


@given(TEXTS, st.integers(2, 50))
def test_parts_of_any_size_hold_all_but_blanks(text: str, longest: int) -> None:
    found = list(parts(text, longest))
    assert ink("".join(found)) == ink(text)
    assert all(0 < len(part) <= longest for part in found)


@given(st.lists(st.text(max_size=40), max_size=20), st.integers(2, 30))
def test_rows_that_are_put_together_hold_all_but_blanks(rows: list[str], longest: int) -> None:
    found = list(rows_together(rows, longest))
    assert ink("".join(found)) == ink("".join(rows))
    assert all(len(part) <= longest for part in found)


@given(TEXTS)
def test_no_paragraph_holds_a_blank_line(text: str) -> None:
    for paragraph in paragraphs(text):
        assert all(line.strip() for line in paragraph.split("\n"))


CELLS = st.text(max_size=12) | st.sampled_from(["", "", "name", "a=b, c", "x" * 3000, "zwei\nZeilen"])


@given(st.lists(st.lists(CELLS, max_size=6), max_size=80), st.sampled_from(["", "Sheet"]))
def test_a_table_has_every_value_of_its_rows_and_every_name(rows: list[list[str]], title: str) -> None:
    found = list(table(rows, title))
    all_of_it = ink("".join(found))
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    assert bool(found) == bool(filled)
    assert all(ink(cell) in all_of_it for row in filled for cell in row if len(cell) < 100)
    assert all(chunk.startswith(title) and chunk.count("\n[") <= ROWS for chunk in found)
    assert all(len(chunk) <= LONGEST_WHOLE + 2 * LONGEST + len(title) + 10 for chunk in found)


def test_chinese_is_cut_behind_its_full_stop() -> None:
    sentence = "这是一个关于长城的句子。"
    found = list(parts(sentence * 400))
    assert len(found) > 1
    assert all(part.endswith("。") for part in found)


def test_thai_is_cut_without_taking_a_sign_apart() -> None:
    text = "ภาษาไทยเขียนติดกันโดยไม่มีการเว้นวรรคระหว่างคำ" * 120
    found = list(parts(text))
    assert "".join(found) == text
    for part in found:
        assert unicodedata.category(part[0])[0] != "M"
        assert part[0] not in "ะาำ"
        assert part[-1] not in "เแโใไ"


def test_a_sentence_is_preferred_to_a_line_and_a_line_to_a_word() -> None:
    filling = "word " * 250
    assert next(parts(f"{filling}End. Next\nline {filling}")).endswith("End.")
    assert next(parts(f"{filling}end next\nline {filling}")).endswith("next")
    assert next(parts(filling * 2)).endswith("word")


def test_a_row_of_full_stops_is_not_crossed_from_each_of_them() -> None:
    """As leaders in a table of contents are: ten times as long a row took a hundred times."""

    def cut(length: int) -> None:
        assert len(list(parts("." * (2 * length), 2 * length - 1))) == 2

    assert growth(cut, 2_000, 10, enough=40) <= 40


def test_a_full_stop_in_a_number_or_name_ends_no_sentence() -> None:
    assert next(parts("a" * 1500 + " 3.14 and example.org " + "b" * 1000)).endswith("example.org")


def test_a_document_has_a_largest_number_of_passages_and_of_characters() -> None:
    many = gathered(f"{number}" for number in range(MOST_CHUNKS + 5))
    assert len(many.chunks) == MOST_CHUNKS
    assert many.warning == "only its first 100,000 passages are indexed"
    long = gathered("x" * (1 << 20) for _ in range(200))
    assert len(long.chunks) == 128
    assert long.warning
    assert gathered(["a"]).warning is None


def test_names_of_columns_that_are_too_long_are_not_repeated_in_every_row() -> None:
    found = list(table([["n" * 5000, "b"], *(["1", "2"] for _ in range(100))]))
    assert "".join(found[:3]).count("n") >= 5000
    assert all(len(chunk) < LONGEST + ROWS * 150 for chunk in found[3:])
