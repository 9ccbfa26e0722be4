"""Word stems by Snowball, chosen by script and language."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Protocol, cast

import Stemmer

from sidecar.index.letters import fold


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


# The library carries no types. 0: without its own cache, the tokenizer has one.
_new = cast("Callable[[str, int], _Stemmer]", getattr(Stemmer, "Stemmer"))  # noqa: B009
VERSION = str(cast("Callable[[], object]", getattr(Stemmer, "version"))())  # noqa: B009

_BY_SCRIPT = (
    (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), "greek"),
    (re.compile("[іїєґўђјљњћџѓќѕ]"), ""),  # Ukrainian, Belarusian, Serbian, Macedonian: the Russian endings are wrong
    (re.compile("[\u0400-\u04ff]"), "russian"),
    (re.compile("[\u0530-\u058f]"), "armenian"),
    (re.compile("[پچژگکیےٹڈڑ]"), ""),  # Persian and Urdu
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
    (re.compile("[\u0b80-\u0bff]"), "tamil"),
    (re.compile("[a-z\u00c0-\u024f\u1e00-\u1eff]"), "latin"),
)


class Stems:
    """All stemmers, made when first needed. Safe from several threads."""

    def __init__(self) -> None:
        self._stemmers: dict[str, _Stemmer] = {}
        self._lock = threading.Lock()  # a stemmer is one mutable object

    def __call__(self, word: str, language: str) -> str:
        """The stem of a normal word, accents folded; a tag's text stays. `language` decides for Latin letters alone."""
        name = "" if word[0] == "#" else _script(word)
        if not name:
            return fold(word)
        if name == "latin":
            name = language
            if name == "english":
                word = fold(word)  # its rules know no accents, and see a strange letter in each
        with self._lock:
            stemmer = self._stemmers.get(name)
            if stemmer is None:
                stemmer = self._stemmers[name] = _new(name, 0)
            stem = stemmer.stemWord(word)
        return stem if stem.isascii() and stem else fold(stem) or fold(word)


def _script(word: str) -> str:
    """The stemmer of a word's script: "latin" where the language decides, "" for none."""
    if word.isascii():
        return "latin"
    for letters, name in _BY_SCRIPT:
        if letters.search(word):
            return name
    return ""
