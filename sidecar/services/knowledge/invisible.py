"""Characters that a person does not see, or that show text in another order than it is read.

Joiners are at home inside emoji and in scripts whose letters join; selectors of
variants stand behind emoji and ideographs. There they are fine.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SUSPECT: Final = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,10}\U000e007f")
_ZWNJ, _ZWJ = "\u200c", "\u200d"
# first words of the Unicode names of letters in scripts that need joiners
_JOINING: Final = re.compile(
    "ARABIC|SYRIAC|MONGOLIAN|NKO|DEVANAGARI|BENGALI|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|KANNADA|MALAYALAM|SINHALA"
    "|KHMER|MYANMAR|TIBETAN|BALINESE|JAVANESE|LEPCHA|CHAKMA"
)


def line_of_first(text: str) -> int | None:
    """Line, counted from 1, of the first character that should not be there; None if there is none."""
    if text.isascii() and text.isprintable():
        return None
    flags: set[int] = set()
    for flag in _FLAG.finditer(text):
        flags.update(range(flag.start(), flag.end()))
    for found in _SUSPECT.finditer(text):
        at = found.start()
        if at not in flags and not _belongs(text, at):
            return text.count("\n", 0, at) + 1
    return None


def _belongs(text: str, at: int) -> bool:
    character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if character in (_ZWJ, _ZWNJ) and (_joins(before) or (_joins(after) and before.isalpha())):
        return True
    if character == _ZWJ:
        return _is_pictorial(before) and _is_pictorial(after)
    if character in "\ufe0e\ufe0f":
        return bool(before) and not before.isspace() and not before.isalpha()
    if "\ufe00" <= character <= "\ufe0d" or "\U000e0100" <= character <= "\U000e01ef":
        return unicodedata.category(before or " ") == "Lo" or unicodedata.category(before or " ")[0] == "S"
    return False


def _joins(letter: str) -> bool:
    return bool(letter) and _JOINING.match(unicodedata.name(letter, "")) is not None


def _is_pictorial(character: str) -> bool:
    return bool(character) and (unicodedata.category(character) in ("So", "Sk") or character == "\ufe0f")
