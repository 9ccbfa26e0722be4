"""Colours on a terminal, and text of strangers that can do no harm there."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Final, TextIO

from sidecar.vault.paths import printable

# Joiners and variation selectors: emoji and some scripts are not right without them, one at a time. More in a row, but
# for a selector and the joiner of an emoji, say something that nobody sees.
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
UNSEEN: Final = f"[{_JOINERS}{_SELECTORS}]"
_MANY_UNSEEN: Final = re.compile(f"(?![{_SELECTORS}]\u200d(?!{UNSEEN})){UNSEEN}{{2,}}")
# Letters, marks and free numbers of Unicode that show nothing either.
_EMPTY: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)


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
    if not text.isascii():
        text = _EMPTY.sub(_spelled, _MANY_UNSEEN.sub(_spelled, text))
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == "\t" or character in _JOINERS:
        return character
    return _spell(character) if unicodedata.category(character) == "Cf" else printable(character)


def _spelled(found: re.Match[str]) -> str:
    return "".join(map(_spell, found[0]))


def _spell(character: str) -> str:
    return f"\\u{ord(character):04x}"
