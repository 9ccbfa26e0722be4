"""Diffs for people: line by line what the patch says, with the words marked that make the difference."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli import diff_view
from sidecar.cli.ink import Ink, visible
from sidecar.vault import patch

TEXTS = st.text(st.sampled_from("ab \t\r\n\x1b\u202e\u200d\u200c\ufe0f\U000e0101-+@\\é"), max_size=40)
_STYLE = re.compile("\x1b\\[[0-9]+m")


def shown(old: bytes | None, new: bytes, *, colours: bool = False) -> list[str]:
    return list(diff_view.lines(patch.make("x.md", old, new).decode("utf-8", "backslashreplace"), Ink(colours)))


def test_line_ends_of_a_whole_file_are_no_change() -> None:
    assert shown(b"one\r\ntwo\r\n", b"one\r\n2\r\n") == ["x.md  +1 -1", "@@ -1,2 +1,2 @@", " one", "-two", "+2"]


def test_line_ends_that_change_are_shown() -> None:
    assert shown(b"one\r\n", b"one\n") == ["x.md  +1 -1", "@@ -1,1 +1,1 @@", "-one\\r", "+one"]


def test_a_last_line_without_line_end_is_told() -> None:
    assert shown(b"one\n", b"one") == [
        "x.md  +1 -1", "@@ -1,1 +1,1 @@", "-one", "+one", "\\ No newline at end of file",
    ]  # fmt: skip


def test_lines_that_have_little_in_common_are_not_compared() -> None:
    assert "\x1b[7m" not in "".join(shown(b"abc def ghi\n", b"something else\n", colours=True))
    assert "\x1b[7mdef\x1b[27m" in "".join(shown(b"abc def ghi\n", b"abc DEF ghi\n", colours=True))


def test_a_very_long_line_is_not_looked_into() -> None:
    line = b"word " * 5000
    assert "\x1b[7m" not in "".join(shown(line + b"a\n", line + b"b\n", colours=True))


@pytest.mark.parametrize(
    "text",
    [
        "x\ufe0f\ufe0f",
        "x\U000e0101\U000e0165",
        "a\u200d\u200cb",
        "a\u200d\u200db",
        "x\ufe0f\u200d\u200d",
        "\ufe0f\u200d\ufe0f",
        "\u2800",
        "\u3164",
        "\U000e0041",
        "\U000e0080",
    ],
    ids=ascii,
)
def test_what_nobody_would_see_is_spelled_out(text: str) -> None:
    assert visible(text).isascii()


@pytest.mark.parametrize(
    "text",
    ["❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "👨\u200d👩\u200d👧", "葛\U000e0100", "नि\u200dक", "می\u200cخواهم"],
    ids=ascii,
)
def test_emoji_and_scripts_that_need_joiners_stay(text: str) -> None:
    assert visible(text) == text


def test_what_is_no_patch_is_shown_escaped() -> None:
    assert list(diff_view.lines("rubbish\x1b[2J\nmore", Ink(False))) == ["rubbish\\u001b[2J", "more"]


@given(TEXTS, TEXTS)
def test_colours_add_nothing_but_colours_and_text_adds_no_colours(old: str, new: str) -> None:
    if old == new:
        return
    plain = shown(old.encode(), new.encode())
    coloured = shown(old.encode(), new.encode(), colours=True)
    assert [_STYLE.sub("", line) for line in coloured] == plain
    assert all(line == visible(line) for line in plain)


@given(st.text())
def test_visible_text_is_on_one_line_and_obeys_nobody(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown and "\u202e" not in shown
    assert visible(shown) == shown
