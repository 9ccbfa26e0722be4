"""What must be known of an embedder without loading it: the daemon decides by this how to ask and how to rank."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Name = Literal["e5", "use", "hash", "other"]


@dataclass(frozen=True, slots=True)
class EmbedderFacts:
    """One embedder.

    dim              numbers in a vector; 0: its model decides
    keyword_weight   share of the keywords in a fused score, in (0, 1)
    relevance_floor  cosine below which a text is as far from the query as texts that have nothing to do with it
    scripts          those it was trained on, by the first word of their letters' Unicode names; None: all
    languages        for people
    """

    name: Name
    dim: int
    keyword_weight: float
    relevance_floor: float
    scripts: frozenset[str] | None
    languages: str

    def weight_for(self, query: str) -> float:
        """The share of the keywords for this query: all of it where the embedder can't read the script."""
        return self.keyword_weight if self.reads(query) else 1.0

    def reads(self, text: str) -> bool:
        """Whether at least half of the letters are of a script that the embedder knows."""
        if self.scripts is None:
            return True
        scripts = [script for letter in text if (script := _script(letter))]
        return 2 * sum(script in self.scripts for script in scripts) >= len(scripts)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """`LATIN`, `CYRILLIC`, `CJK` …; "" for what is no letter or belongs to all scripts."""
    letter = unicodedata.normalize("NFKC", letter)[0]
    if not letter.isalpha():
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]
    return "" if script in ("MODIFIER", "MATHEMATICAL", "IDEOGRAPHIC") else script


_USE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "ARABIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI"})

# Both numbers are measured on the sets of scripts/bench quality.
# Weights: the mean over all sets is flat around them (e5: .949 from .5 to .6, .935 at .3; use: .934 from .7 to .8), and
# from .5 or .7 up no set falls more than .004 below the better of keywords and vectors.
# Floors: of the answers in another language than the question 97 and 96 of 100 lie above (in the same language: all,
# and 98), and of texts on another subject 81 and 92 of 100 below. No floor keeps words without sense away from e5:
# they come as near to a text as a question in another language does.
FACTS: dict[Name, EmbedderFacts] = {
    "e5": EmbedderFacts("e5", 384, 0.55, 0.75, None, "about 100 languages"),
    "use": EmbedderFacts(
        "use",
        512,
        0.75,
        0.1,
        _USE_SCRIPTS,
        "Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian,"
        " Spanish, Thai, Turkish",
    ),
    "hash": EmbedderFacts("hash", 64, 0.5, 0.3, None, "any, by its words alone"),
}

_OF_ANOTHER_KIND = EmbedderFacts("other", 0, 0.5, 0.0, None, "those of its model")
"""Of a model that the person named nothing is known: both legs count alike, and nothing is too far away."""


def facts_of(embedder_id: str | None) -> EmbedderFacts:
    """What is known of the embedder with this id."""
    return next(
        (known for name, known in FACTS.items() if name == (embedder_id or "").partition("@")[0]), _OF_ANOTHER_KIND
    )
