"""Whether a text is one character as people count them, such as a flag or a family."""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINER: Final = "\u200d"
_MOST_POINTS: Final = 16  # the longest emoji have 10; a stack of marks has no end


def is_one_grapheme(text: str) -> bool:
    """One base with what belongs to it: marks, skin tones, tags, joined emoji, a pair that makes a flag.

    As Unicode's rules for grapheme clusters, without those for Hangul and Indic syllables.
    """
    if not text or len(text) > _MOST_POINTS or _is_extension(text[0]) or not text[0].isprintable() or text[0] == " ":
        return False
    if len(text) == 2 and all(map(_is_regional, text)):
        return True
    before = text[0]
    for point in text[1:]:
        is_joined = before == _JOINER and unicodedata.category(point)[0] == "S"  # no letter, blank or line end is
        if not (_is_extension(point) or point == _JOINER or is_joined):
            return False
        before = point
    return before != _JOINER


def _is_extension(point: str) -> bool:
    is_tag = "\U000e0020" <= point <= "\U000e007f"
    return unicodedata.category(point) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= point <= "\U0001f3ff" or is_tag


def _is_regional(point: str) -> bool:
    return "\U0001f1e6" <= point <= "\U0001f1ff"
