"""One line of a chunk around the words that hit."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

SNIPPET_CHARS = 160  # contracts: without marks and ellipses
_LEAD = 40  # characters shown before the first hit


def snippet(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The piece of `text` with the most hits in it, on one line, each hit in `[` `]`; the start where nothing hit.

    `spans` are ascending ranges of offsets, apart from each other. At most
    SNIPPET_CHARS characters of text; cut ends are marked with `…`.
    """
    start, end = _window(text, spans)
    pieces: list[str] = []
    place = start
    for low, high in spans:
        if start <= low and high <= end:
            pieces += [text[place:low], "[", text[low:high], "]"]
            place = high
    pieces.append(text[place:end])
    line = " ".join("".join(pieces).split())
    return ("…" if text[:start].strip() else "") + line + ("…" if text[end:].strip() else "")


def _window(text: str, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The window of SNIPPET_CHARS characters that holds the most spans, the first of equals."""
    lows, highs = [low for low, _ in spans], [high for _, high in spans]
    best, most = 0, 0
    for low in lows:
        start = max(0, low - _LEAD)
        inside = bisect_right(highs, start + SNIPPET_CHARS) - bisect_left(lows, start)
        if inside > most:
            best, most = start, inside
    start = min(best, max(0, len(text) - SNIPPET_CHARS))
    if start:
        blank = text.find(" ", start, start + _LEAD // 2)
        start = blank + 1 if blank >= 0 else start
    return start, min(len(text), start + SNIPPET_CHARS)
