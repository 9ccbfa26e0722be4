"""Cuts texts that are too long for who reads them."""

from __future__ import annotations


def cut(text: str, most_chars: int) -> str:
    """The text, or its beginning with a last line that says so; at most so many characters in all."""
    if len(text) <= most_chars:
        return text
    mark = f"\n[Result cut at {most_chars:,} characters.]"
    return text[: most_chars - len(mark)] + mark
