"""What is a word in which script: the regular expressions, and the forms that should be found as one.

Python's `\\w` leaves out combining marks, so Hindi and Thai words would fall to
pieces; the classes here hold them. Scripts written without blanks between words
("wide" here) are found apart, for they are cut into pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Thai and Lao, Myanmar, Khmer, Hangul, kana, bopomofo, Han, Yi, Tangut and their extensions, marks included.
_WIDE = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u3105-\u318f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48f\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uffdc\U00016fe0-\U00018fff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
WIDE = re.compile(f"[{_WIDE}]")
WIDE_RUN = re.compile(f"[{_WIDE}]+")


def _ranges(points: Iterable[int]) -> str:
    """The points, ascending, as ranges of a regular expression's class."""
    found: list[list[int]] = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in found)


# Beyond the basic plane marks are taken with the letters around them: each further range costs time at every blank.
_MARKS = _ranges(c for c in range(0x300, 0x10000) if unicodedata.category(chr(c))[0] == "M") + (
    "\U000101fd\U000102e0\U00010376-\U0001037a\U00010a01-\U00011fff\U0001d165-\U0001d1ad\U0001da00-\U0001e95f"
    "\U000e0100-\U000e01ef"
)
_JOINERS = "\u00ad\u200b-\u200d\u2060\ufeff"  # invisible inside words; taken out of them later

# Quantifiers are possessive: no text, however odd, makes them go back.
_WORD = f"[\\w{_MARKS}{_JOINERS}]++"
_ASCII_WORD = "[0-9A-Za-z_]++"
_PICTURE = "[\u2600-\u27bf\U0001f300-\U0001faff]"


def _compound(word: str) -> str:
    """Words joined by dots and hyphens, or a tag; eight parts at most, so that no text is one word."""
    return f"#{word}(?:[-/]{word}){{0,7}}+|{word}(?:[-.]{word}){{0,7}}+"


# Text without wide characters; see `WIDE`.
ASCII_WORDS = re.compile(_compound(_ASCII_WORD))
WORDS = re.compile(f"{_compound(_WORD)}|{_PICTURE}")
PATHS = re.compile(f"{_WORD}(?:-{_WORD}){{0,7}}+(?:/{_WORD}(?:-{_WORD}){{0,7}}+){{1,7}}+")

_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# Vowel and cantillation signs that are left out in everyday Hebrew and Arabic, and the Arabic stretching sign.
_OPTIONAL = re.compile("[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06ed]")
# Marks of no script. At the beginning of a word they are what decomposing left of a sign before it, such as ⇍.
_LOOSE = "".join(map(chr, range(0x300, 0x370)))
_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŧ": "t", "ŋ": "n"}
)


def normal(word: str) -> str:
    """Case folded, NFKC, without invisible characters and optional vowel signs; accents are still there."""
    if word.isascii():
        return word.lower()
    word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _HIDDEN.sub("", word)).casefold())
    word = "".join(_OPTIONAL.sub("", word).split())  # a few ligatures are phrases with blanks
    return word.lstrip(_LOOSE)


def wide_normal(run: str) -> str:
    """The same for a run of `WIDE` characters, which have no case."""
    return unicodedata.normalize("NFKC", run)


def fold(word: str) -> str:
    """Without the accents of Latin, Greek and Cyrillic letters.

    Marks of other scripts are letters in all but name and stay, and so does the breve that makes й out of и.
    """
    if word.isascii():
        return word
    kept: list[str] = []
    base = "\uffff"  # a mark without a letter before it stays
    for char in unicodedata.normalize("NFD", word):
        if unicodedata.category(char)[0] != "M":
            base = char
        elif (base < "\u0530" or "\u1e00" <= base < "\u2000") and not (char == "\u0306" and base >= "\u0400"):
            continue
        kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept)).translate(_LETTERS)
