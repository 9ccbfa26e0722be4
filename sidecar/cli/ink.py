"""Colours on a terminal, and text of strangers that can do no harm there."""

from __future__ import annotations

import os
import unicodedata
from typing import Final, TextIO

from sidecar.vault.paths import printable

_JOINERS: Final = "\u200c\u200d"  # emoji and some scripts are not right without them


class Ink:
    """Styles text, or leaves it as it is where nobody would see colours. Text is escaped by `visible` before."""

    def __init__(self, on: bool) -> None:
        self.on = on

    @classmethod
    def for_stream(cls, stream: TextIO) -> Ink:
        """On for a terminal, unless NO_COLOR is set (https://no-color.org) or the terminal knows no colours."""
        return cls(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def bold(self, text: str) -> str:
        """What the eye should find."""
        return self._style("1", "22", text)

    def dim(self, text: str) -> str:
        """What is there for completeness."""
        return self._style("2", "22", text)

    def red(self, text: str) -> str:
        """What goes."""
        return self._style("31", "39", text)

    def green(self, text: str) -> str:
        """What comes."""
        return self._style("32", "39", text)

    def yellow(self, text: str) -> str:
        """What needs attention."""
        return self._style("33", "39", text)

    def inverse(self, text: str) -> str:
        """A part of a line that makes the difference."""
        return self._style("7", "27", text)

    def _style(self, begin: str, end: str, text: str) -> str:
        return f"\x1b[{begin}m{text}\x1b[{end}m" if self.on and text else text


def visible(text: str) -> str:
    """A line of somebody's text with everything spelled out that a terminal would obey or hide. Tabs stay.

    That is control characters, and those that turn the direction of writing or show nothing: what is read must be
    what is applied.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == "\t" or character in _JOINERS:
        return character
    if unicodedata.category(character) == "Cf":
        return f"\\u{ord(character):04x}"
    return printable(character)
