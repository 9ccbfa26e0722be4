"""Takes a raw word apart: identifiers, dotted and hyphenated words, numbers, tags."""

from __future__ import annotations

import re
import unicodedata

from sidecar.index.letters import normal

_SEPARATORS = re.compile("[-._]+")
_CAMEL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
LONGEST = 64  # characters; of a longer word the beginning counts


def is_plain(word: str) -> bool:
    """Whether a word is one form, itself."""
    return word.isalpha() and (word.islower() or word.istitle() or word.isupper())


def taken_apart(word: str) -> tuple[list[str], list[str]]:
    """Normal forms of the whole, the first before all others, and raw parts that can be taken apart in turn.

    `user_name`, `user-name`, `user.name` and `userName` are `username` with two parts. A tag is itself and each tag
    above it (`#a/b`, `#a`), with its words as parts. Numbers joined by dots keep the dots: 3.14 is not 314.
    """
    # composed first: with its accent apart a capital would look like one of ASCII and begin a part
    word = (word if word.isascii() else unicodedata.normalize("NFC", word))[:LONGEST]
    if word[0] == "#":
        tag = normal(word).rstrip("-_")
        above = [tag[:at] for at, char in enumerate(tag) if char == "/"]
        return ([tag, *above] if len(tag) > 1 else []), [part for part in word[1:].split("/") if part]
    parts = [part for part in _SEPARATORS.split(word) if part]
    if len(parts) == 1 and not is_plain(parts[0]):
        parts = _CAMEL.split(parts[0])
    forms = [normal(part) for part in parts]
    numbers = "." in word and all(form.isdigit() for form in forms)
    whole = (".".join if numbers else "".join)(forms)
    # normal forms can be empty: a raw word may be nothing but invisible characters
    return ([whole] if whole else []), (parts if len(parts) > 1 else [])
