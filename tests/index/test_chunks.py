from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.index.chunks import LARGEST, SHORT, Chunk, chunks_of
from sidecar.index.clean import INDEXED_CHARACTERS, rows
from sidecar.vault.blocks import lines

LOREM = "The quick brown fox jumps over the lazy dog and runs into the dark wood. "


def texts(body: str) -> list[str]:
    return [chunk.text for chunk in chunks_of("Title", body)]


def whole(body: str) -> str:
    return "\n".join(texts(body))


def cleaned(body: str) -> str:
    return "\n".join(row.text for row in rows(body))


def unspaced(text: str) -> str:
    return "".join(text.split())


def section(heading: str, characters: int = 600) -> str:
    return f"{heading}\n\n{(LOREM * 40)[:characters].strip()}\n\n"


# --- sections and breadcrumbs ---


def test_each_section_is_a_chunk_under_the_headings_that_lead_to_it() -> None:
    body = section("# Alpha") + section("## Beta") + section("### Gamma") + section("## Delta") + section("# Omega")
    assert [chunk.breadcrumb for chunk in chunks_of("Title", body)] == [
        "Title > Alpha",
        "Title > Alpha > Beta",
        "Title > Alpha > Beta > Gamma",
        "Title > Alpha > Delta",
        "Title > Omega",
    ]


def test_text_before_the_first_heading_stands_under_the_title() -> None:
    chunks = chunks_of("Title", LOREM * 6 + "\n\n" + section("# Alpha"))
    assert [chunk.breadcrumb for chunk in chunks] == ["Title", "Title > Alpha"]


def test_a_title_that_the_first_heading_repeats_is_said_once() -> None:
    chunks = chunks_of("The plan", section("# The Plan") + section("## Costs"))
    assert [chunk.breadcrumb for chunk in chunks] == ["The plan", "The plan > Costs"]


def test_underlined_headings_begin_sections_too() -> None:
    chunks = chunks_of("Title", section("Alpha\n=====") + section("Beta\n----"))
    assert [chunk.breadcrumb for chunk in chunks] == ["Title > Alpha", "Title > Alpha > Beta"]
    assert chunks[1].text.startswith("Beta\n----\n\nThe quick")


def test_a_heading_without_text_leads_to_its_first_subsection() -> None:
    (chunk,) = chunks_of("Title", "# Alpha\n\n## Beta\n\nsome text")
    assert chunk.breadcrumb == "Title > Alpha > Beta"
    assert chunk.text == "# Alpha\n\n## Beta\n\nsome text"


def test_short_sections_are_joined_under_what_they_have_in_common() -> None:
    (chunk,) = chunks_of("Title", "# Alpha\n\n## Beta\none\n\n## Gamma\ntwo\n\n## Delta\nthree\n")
    assert chunk.breadcrumb == "Title > Alpha"
    assert "one" in chunk.text and "## Gamma" in chunk.text and "three" in chunk.text


def test_a_short_last_section_goes_to_the_chunk_before_it() -> None:
    chunks = chunks_of("Title", section("# Alpha") + "# End\nshort")
    assert len(chunks) == 1
    assert chunks[0].text.endswith("# End\nshort")


def test_every_chunk_but_a_lonely_one_is_longer_than_a_short_section() -> None:
    body = "".join(section(f"# H{n}", random.Random(n).choice([10, 50, 150, 400, 2500])) for n in range(60))
    assert all(len(text) >= SHORT / 2 for text in texts(body))


def test_headings_in_code_begin_no_section() -> None:
    chunks = chunks_of("Title", "# Alpha\n" + LOREM * 4 + "\n```sh\n# comment\n" + "ls -l\n" * 40 + "```\n")
    assert {chunk.breadcrumb for chunk in chunks} == {"Title > Alpha"}


def test_a_breadcrumb_is_bounded_and_keeps_title_and_last_heading() -> None:
    body = "".join(f"{'#' * n} level {n} {'x' * 200}\n" for n in range(1, 7)) + LOREM * 5
    (chunk,) = chunks_of("t" * 250, body)[-1:]
    assert len(chunk.breadcrumb) <= 700
    assert chunk.breadcrumb.startswith("t" * 250)
    assert " > level 6 xxx" in chunk.breadcrumb


def test_a_title_of_several_lines_stays_on_one() -> None:
    assert chunks_of("a\n b", "text")[0].breadcrumb == "a b"


# --- sizes ---


def test_long_text_is_cut_between_paragraphs_near_the_target() -> None:
    paragraphs = [f"{n}. {LOREM * 3}".strip() for n in range(30)]
    found = texts("\n\n".join(paragraphs))
    assert all(text.split(".")[0].isdigit() and text.endswith("wood.") for text in found)
    assert all(600 <= len(text) <= LARGEST for text in found[:-1])


def test_a_long_list_is_cut_between_its_items() -> None:
    found = texts("\n".join(f"- item {n} {LOREM}" for n in range(60)))
    assert len(found) > 3
    assert all(text.startswith("- item") for text in found)


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    found = texts(LOREM * 60)
    assert len(found) > 3
    assert all(text.startswith("The quick") and text.endswith("wood.") for text in found)


def test_a_fence_is_never_cut_if_it_fits() -> None:
    fence = "```py\n" + "\n\n".join(f"value_{n} = {n}" for n in range(70)) + "\n```"
    assert 1000 < len(fence) <= LARGEST
    body = f"{LOREM * 9}\n\n{fence}\n\n{LOREM * 9}\n\n{fence}\n{LOREM * 20}"
    assert whole(body).count(fence) == 2


def test_a_fence_larger_than_a_chunk_is_cut_between_its_lines() -> None:
    found = texts("```py\n" + "".join(f"value_{n} = {n}\n" for n in range(400)) + "```")
    assert len(found) > 4
    assert all(text.startswith(("```py", "value_")) for text in found)


@pytest.mark.parametrize(
    "body",
    ["机" * 20_000, "x" * 3_000_000, "ก" * 20_000, "a\u0301" * 20_000, "😀" * 20_000],
    ids=["han", "letters", "thai", "marks", "emoji"],
)
def test_text_without_blanks_is_cut_hard(body: str) -> None:
    found = texts(body)
    assert "".join(found) == body
    assert max(map(len, found)) <= LARGEST
    assert len(found) < len(body) / 300


def test_a_hard_cut_keeps_marks_with_their_letter() -> None:
    assert all(text.startswith("a") for text in texts("a\u0301" * 20_000))


def test_chinese_and_japanese_are_cut_at_half_the_size_because_a_character_says_twice_as_much() -> None:
    assert max(map(len, texts("今日は天気がいいから散歩しましょう。" * 200))) <= LARGEST // 2


def test_only_the_first_part_of_a_giant_note_is_indexed() -> None:
    body = "word " * (INDEXED_CHARACTERS // 4)
    assert unspaced(whole(body)) == unspaced(body[:INDEXED_CHARACTERS])


# --- what is left out ---


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a ![x](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAA) b", "a ![x]() b"),
        ('<img src="data:image/svg+xml;utf8,%3Csvg%20xmlns=%22http://www.w3.org/2000/svg%22%3E">', '<img src="">'),
        ("the data: it, is here and data:nothing", "the data: it, is here and data:nothing"),
        ("see %%hidden%% here", "see  here"),
        ("a\n%%\nhidden\n\n# also hidden\n%%\nb", "a\nb"),
        ("a %%begin\nhidden\nend%% b", "a \n b"),
        ("100%% sure", "100%% sure"),
        ("%%gone%% 100%% sure", " 100%% sure"),
        ("`%%` kept `%%`", "`%%` kept `%%`"),
        ("```\n%% kept %%\n```", "```\n%% kept %%\n```"),
        ("text ^a1b2c3", "text"),
        ("| table |\n^id-1\n\nb", "| table |\n\nb"),
        ("x^2 and 2^n", "x^2 and 2^n"),
        ("a\0b", "ab"),
        ("```dataview\nLIST FROM #x\n```\na", "a"),
        ("~~~~DataviewJS\ndv.pages()\n~~~~\na", "a"),
        ("```dataview\n```\n```js\na\n```", "```js\na\n```"),
        ("a\n```dataview\nnever closed", "a"),
    ],
)
def test_what_says_nothing_is_left_out(body: str, left: str) -> None:
    assert cleaned(body).strip() == "\n".join(line.rstrip() for line in left.split("\n")).strip()


def test_encoded_data_is_left_out_and_long_words_are_not() -> None:
    data = base64.b64encode(random.Random(1).randbytes(3000)).decode()
    wrapped = "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    assert cleaned(f"a {data} b") == "a  b"
    assert len(cleaned(f"```\n{wrapped}\n```")) < 80
    assert cleaned("x" * 500) == "x" * 500
    assert cleaned("https://example.org/" + "path/" * 60) == "https://example.org/" + "path/" * 60


def test_of_a_drawing_its_text_elements_remain() -> None:
    payload = base64.b64encode(random.Random(2).randbytes(200)).decode()
    body = (
        "==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠==\n\nMy notes\n\n"
        "%%\n# Excalidraw Data\n\n## Text Elements\nheat pump ^abcd1234\n\nsolar roof ^efgh5678\n\n"
        "## Embedded Files\n1a2b3c: [[photo.png]]\n\n"
        f"%%\n## Drawing\n```compressed-json\n{payload}\n\n{payload}\n```\n%%\n"
    )
    assert unspaced(cleaned(body)) == unspaced("My notes # Excalidraw Data ## Text Elements heat pump solar roof")


def test_a_drawing_of_the_older_form_is_left_out_too() -> None:
    body = '# Text Elements\nheat pump ^abcd1234\n\n%%\n# Drawing\n```json\n{"type":"excalidraw"}\n```\n%%'
    assert unspaced(cleaned(body)) == "#TextElementsheatpump"


def test_the_comment_in_a_heading_is_not_in_the_breadcrumb() -> None:
    assert chunks_of("T", "# Plan %%draft%%\ntext")[0].breadcrumb == "T > Plan"


# --- lines, extra, identity ---


def test_a_chunk_says_in_which_line_of_the_body_it_begins() -> None:
    body = "\n\n" + section("# Alpha", 700) + "```dataview\nLIST\n```\n\n" + section("# Beta", 2500)
    source = body.split("\n")
    for chunk in chunks_of("T", body):
        first = chunk.text.split("\n")[0]
        assert first in source[chunk.line - 1]


def test_the_first_chunk_alone_carries_aliases_tags_and_stem() -> None:
    chunks = chunks_of("Winter", section("# A") + section("# B"), aliases=["Cold"], tags=["a/b", "c"], stem="2026-01")
    assert chunks[0].extra == "Cold\n#a/b\n#c\n2026-01"
    assert [chunk.extra for chunk in chunks[1:]] == [""]
    assert "#a/b" in chunks[0].words and "#a/b" not in chunks[0].full


def test_a_stem_that_is_the_title_is_not_said_again() -> None:
    assert chunks_of("Plan", "text", stem="Plan")[0].extra == ""


@pytest.mark.parametrize("body", ["", "\n\n", "  \n\t\n", "%%hidden%%", "```dataview\nLIST\n```"])
def test_a_note_without_text_is_found_by_its_words_and_never_embedded(body: str) -> None:
    (chunk,) = chunks_of("Plan", body, aliases=["Idea"], tags=["todo"])
    assert not chunk.embeddable
    assert chunk.text == ""
    assert chunk.words == "Plan\nIdea\n#todo"


def test_a_chunk_is_known_by_what_is_embedded() -> None:
    one, other = chunks_of("T", "text", tags=["a"])[0], chunks_of("T", "text", tags=["b"])[0]
    assert one.key == other.key and len(one.key) == 16
    assert one.key != chunks_of("U", "text")[0].key
    assert Chunk(0, "T", "text", 1).full == "T\ntext"
    assert Chunk(0, "", "text", 1).full == "text"


# --- properties ---

PIECES = st.sampled_from(
    ["# One", "## Two", "### Three", "Under\n---", "", "```", "~~~", "```dataview", "%%", "- item ^id", "> quote"]
) | st.builds(
    lambda word, times: (word * times).strip(), st.sampled_from(["word ", "x", "机器。", "A b. "]), st.integers(1, 900)
)
BODIES = st.lists(PIECES | st.text(max_size=20), max_size=25).map("\n".join)


@given(body=BODIES)
@settings(max_examples=300)
def test_the_chunks_in_order_are_the_cleaned_body(body: str) -> None:
    left = cleaned(body)
    assert unspaced(whole(body)) == unspaced(left)
    at = 0
    for text in texts(body):
        found = left.find(text, at) if text else at
        assert found >= 0 and not left[at:found].strip()
        at = found + len(text)


@given(body=BODIES)
@settings(max_examples=300)
def test_sizes_and_numbers_hold_for_any_body(body: str) -> None:
    chunks = chunks_of("Title", body, tags=["t"])
    count = len(list(lines(body)))
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert all(len(chunk.text) <= LARGEST for chunk in chunks)
    assert all(chunk.text.strip() for chunk in chunks) or len(chunks) == 1
    assert all(1 <= chunk.line <= max(count, 1) for chunk in chunks)
    assert sorted(chunk.line for chunk in chunks) == [chunk.line for chunk in chunks]


@given(body=BODIES)
@settings(max_examples=200)
def test_a_whole_fence_is_in_one_chunk(body: str) -> None:
    found = rows(body)
    opened = -1
    for index, row in enumerate(found):
        if opened < 0:
            opened = index if row.kind == "fence" else -1
        elif row.kind != "code":
            fence = "\n".join(row.text for row in found[opened : index + (row.kind == "fence")]).rstrip()
            assert len(fence) > LARGEST // 2 or any(fence in text for text in texts(body))
            opened = -1
