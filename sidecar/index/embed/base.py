"""What an embedder is, and what a text goes through before any of them reads it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class EmbedderAway(Exception):
    """Something outside of this process keeps it from embedding; later it may work. No text is to blame.

    The message is the end of a sentence that begins with "the vector worker", without text of a note or a key.
    """


class Embedder(Protocol):
    """Texts in, vectors of length 1 out. Any number of threads may use one."""

    @property
    def id(self) -> str:
        """Changes whenever the same text would get another vector: `e5@1571fc982750.1/384`."""
        ...

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        ...

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """float32[len(texts), dim], one row for each text to be found. Blocks; takes all it was made to take of the
        processor. A vector depends on its own text alone. Several threads may call it; an urgent call goes first."""
        ...

    def query(self, text: str) -> Vectors:
        """float32[dim] of a text to search for. Blocks for some milliseconds."""
        ...

    def close(self) -> None:
        """End its threads."""
        ...


def readable(text: str) -> str:
    """A text that every tokenizer takes: composed as on most keyboards, without NUL and halves of UTF-16 pairs.

    Names of files that a Mac wrote are decomposed, and the same name must get the same vector.
    """
    text = unicodedata.normalize("NFC", text)
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text
