"""A snippet is one line around the densest hits, and never more than it may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.snippets import SNIPPET_CHARS, snippet


def spans_of(text: str, word: str) -> list[tuple[int, int]]:
    found, at = [], text.find(word)
    while at >= 0:
        found.append((at, at + len(word)))
        at = text.find(word, at + len(word))
    return found


def test_hits_are_marked_and_lines_joined() -> None:
    text = "The plan\nfor the  winter\n\nis a plan"
    assert snippet(text, spans_of(text, "plan")) == "The [plan] for the winter is a [plan]"


def test_without_hits_the_start_is_shown() -> None:
    assert snippet("word " * 100, []) == ("word " * 32).strip() + "…"


def test_the_window_holds_the_most_hits() -> None:
    text = "plan " + "x" * 300 + " plan plan plan " + "y" * 300
    shown = snippet(text, spans_of(text, "plan"))
    assert shown.count("[plan]") == 3
    assert shown.startswith("…") and shown.endswith("…")


@given(st.text(alphabet="ab \n日é", max_size=400), st.sampled_from(["a", "ab", "日", "é"]))
def test_text_is_bounded_and_marks_only_add(text: str, word: str) -> None:
    shown = snippet(text, spans_of(text, word))
    plain = shown.replace("[", "").replace("]", "").removeprefix("…").removesuffix("…")
    assert len(plain) <= SNIPPET_CHARS
    assert "\n" not in shown
    assert plain in " ".join(text.split())
