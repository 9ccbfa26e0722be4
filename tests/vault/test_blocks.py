from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.vault.blocks import Line, lines

ROWS = (
    ["# a", "## b ##", "#", "#tag", "   ### c", "    # d", "===", "---", "-", "text", "more text", "", "   ", "\t"],
    ["```", "````", "~~~", "```py", "``` x`y", "    ```", "> ```", "> text", ">", "- item", "1. item", "  - sub"],
)
MARKDOWN = st.lists(st.sampled_from([*ROWS[0], *ROWS[1]]) | st.text(max_size=12), max_size=30)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def kinds(body: str) -> list[str]:
    return [line.kind for line in lines(body)]


def outline(body: str) -> list[tuple[int, str]]:
    return [(line.level, line.heading) for line in lines(body) if line.level]


def texts(body: str) -> list[str]:
    return [body[line.start : line.end] for line in lines(body)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("# One\n## Two\n###### Six", [(1, "One"), (2, "Two"), (6, "Six")]),
        ("#\n## \n### ###", [(1, ""), (2, ""), (3, "")]),
        ("# a #\n# b ###   \n# c#\n# d \\#x #", [(1, "a"), (1, "b"), (1, "c#"), (1, "d \\#x")]),
        ("   # three blanks\n    # four blanks\n\t# a tab", [(1, "three blanks")]),
        ("#tag\n####### seven\n#\u00a0no blank", []),
        ("#\ttab behind", [(1, "tab behind")]),
        ("# Größe 日本", [(1, "Größe 日本")]),
        ("One\n===\n\nTwo\n---", [(1, "One"), (2, "Two")]),
        ("One\n=\n\nTwo\n   ---  ", [(1, "One"), (2, "Two")]),
        ("first line\nsecond line\n---", []),
        ("- item\n---\n\n> quote\n---\n\n| a |\n---\n\n%% c %%\n---", []),
        ("One\n    ---\n\nTwo\n-- -\n\n---\n\n***", []),
        ("\n---\ntext\n\n===", []),
        ("# a\n---", [(1, "a")]),
        ("One\n===\nTwo\n---", [(1, "One"), (2, "Two")]),
        ("```\n# code\n```\n# after", [(1, "after")]),
        ("~~~\nOne\n===\n~~~", []),
        ("> # quoted", []),
    ],
)
def test_the_outline_is_that_of_the_headings_outside_code(body: str, found: list[tuple[int, str]]) -> None:
    assert outline(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("```\na\n```", ["fence", "code", "fence"]),
        ("```\na\n~~~\n``\n````  \nb", ["fence", "code", "code", "code", "fence", "text"]),
        ("````\n```\n````", ["fence", "code", "fence"]),
        ("```\na\n\n# b", ["fence", "code", "code", "code"]),
        ("```\n``` x\n```", ["fence", "code", "fence"]),
        ("```a`b\n# c", ["text", "heading"]),
        ("~~~ a`b ~\nx\n~~~", ["fence", "code", "fence"]),
        ("   ```\nx\n   ```", ["fence", "code", "fence"]),
        ("    ```\n# x", ["text", "heading"]),
        ("```\n    ```\n```", ["fence", "code", "fence"]),
        ("- a\n\n    ```\n    # x\n    ```\nb", ["text", "blank", "fence", "code", "fence", "text"]),
        ("1. a\n   ```\n   x\n   ```", ["text", "fence", "code", "fence"]),
        ("- a\n\nb\n    ```\n# x", ["text", "blank", "text", "text", "heading"]),
        ("> ```\n> # x\n> ```\n# y", ["fence", "code", "fence", "heading"]),
        ("> ```\n> x\n# y", ["fence", "code", "heading"]),
        ("> > ```\n> x\n> y", ["fence", "text", "text"]),
        ("a\n \n\t\nb", ["text", "blank", "blank", "text"]),
    ],
)
def test_each_line_has_its_kind(body: str, found: list[str]) -> None:
    assert kinds(body) == found


def test_the_info_string_is_on_the_opening_run_and_on_the_code() -> None:
    assert [line.info for line in lines("``` dataview x\na\n```\nb")] == ["dataview x", "dataview x", "", ""]


def test_the_underline_of_a_heading_is_a_heading_line_without_level() -> None:
    assert list(lines("A b\n---\nc")) == [
        Line(0, 3, "heading", 2, "A b"),
        Line(4, 7, "heading"),
        Line(8, 9, "text"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_every_kind_of_line_end_counts_as_one(end: str) -> None:
    body = end.join(["# a", "", "b\u2028c\x0bd", "```", "e", "```", ""])
    assert texts(body) == ["# a", "", "b\u2028c\x0bd", "```", "e", "```"]
    assert kinds(body) == ["heading", "blank", "text", "fence", "code", "fence"]


def test_mixed_line_ends_keep_their_offsets() -> None:
    assert texts("a\r\nb\nc\rd\n\r\ne") == ["a", "b", "c", "d", "", "e"]


def test_an_empty_body_has_no_lines_and_a_final_line_end_begins_none() -> None:
    assert kinds("") == []
    assert kinds("\n") == ["blank"]
    assert kinds("a\n") == ["text"]


@pytest.mark.parametrize(
    "body",
    ["a" * (10 << 20), " " * (10 << 20) + "x", "#" * (10 << 20), "`" * (10 << 20), ">" * (10 << 20), "~" * (10 << 20)],
    ids=["letters", "blanks", "hashes", "ticks", "quotes", "tildes"],
)
def test_one_line_of_ten_megabytes_is_one_line(body: str) -> None:
    assert [(line.start, line.end) for line in lines(body)] == [(0, len(body))]


def test_two_hundred_thousand_blank_lines_are_as_many_lines() -> None:
    assert sum(line.kind == "blank" for line in lines("\r\n" * 200_000)) == 200_000


@given(rows=MARKDOWN, end=ENDS)
def test_the_lines_and_their_ends_are_the_body(rows: list[str], end: str) -> None:
    body = end.join(rows)
    found = list(lines(body))
    at = 0
    for line in found:
        assert re.fullmatch(r"\r\n|\r|\n", body[at : line.start]) or at == line.start == 0
        assert not re.search(r"[\r\n]", body[line.start : line.end])
        at = line.end
    assert re.fullmatch(r"(\r\n|\r|\n)?", body[at:])


@given(rows=MARKDOWN, end=ENDS)
def test_line_ends_do_not_change_what_a_line_is(rows: list[str], end: str) -> None:
    rows = [re.sub(r"[\r\n]", "", row) for row in rows]
    assert kinds(end.join(rows)) == kinds("\n".join(rows))


@given(rows=MARKDOWN)
def test_a_heading_has_a_level_and_its_text_comes_from_its_line(rows: list[str]) -> None:
    body = "\n".join(rows)
    for line in lines(body):
        assert 0 <= line.level <= 6
        assert line.kind == "heading" or not (line.level or line.heading)
        assert line.heading in body[line.start : line.end]
        assert line.kind != "code" or body[: line.start].strip()
