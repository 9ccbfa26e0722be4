"""What is read from a file, and how reading is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST_CHUNKS: Final = 100_000
MOST_CHARACTERS: Final = 1 << 27
"""Of all chunks of one file. Both are above any text of 64 MiB that somebody wrote; what is not written can have one
chunk for every two bytes, or repeat the head of a table without end."""

_WORD: Final = re.compile(r"\w")

LONGEST: Final = 2_000
"""Characters of a passage."""
LONGEST_WHOLE: Final = 32_000
"""Characters of a chunk that stays whole by rule, such as a slide or 32 rows of a table, before it is cut all the
same."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it is found.

    chunks   in reading order; the first is number 1. One without a letter or digit is empty: it keeps its number and is
             not found. By meaning such signs would be near to everything
    warning  the end of a sentence that begins with the file, about what is not in the chunks; None: all is there
    """

    chunks: tuple[str, ...]
    warning: str | None = None


class Refused(Exception):
    """A file has nothing to read, or nothing that may be read. The text is a warning as in `Document`."""


def gathered(chunks: Iterable[str], warning: str | None = None) -> Document:
    """As many of the chunks as a document may have; a warning if there are more."""
    kept: list[str] = []
    characters = 0
    for chunk in chunks:
        characters += len(chunk)
        if len(kept) == MOST_CHUNKS or characters > MOST_CHARACTERS:
            return Document(tuple(kept), f"only its first {len(kept):,} passages are indexed")
        kept.append(chunk if _WORD.search(chunk) else "")
    return Document(tuple(kept), warning)
