"""The embedder `hash`: texts that share words or parts of words are near each other. For tests; it needs no weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from sidecar.index.embed.base import Vectors, readable

_DIM = 64
_WORDS = re.compile(r"\w+")
_PART = 3  # characters of a word's parts
_PART_WEIGHT = 0.3  # a word weighs as much as about three of its parts


class Hashing:
    """See `base.Embedder`. The same on every machine."""

    dim = _DIM
    id = f"hash@1/{_DIM}"

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """See `base.Embedder`."""
        return np.stack([self.query(text) for text in texts]) if texts else np.zeros((0, _DIM), np.float32)

    def query(self, text: str) -> Vectors:
        """See `base.Embedder`. A text without words gets a vector, too."""
        vector = np.zeros(_DIM)
        for feature, weight in _features(readable(text).casefold()):
            digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
            vector[digest[0] % _DIM] += weight if digest[1] & 1 else -weight
        length = np.linalg.norm(vector)
        if length == 0:
            vector[0] = length = 1
        return (vector / length).astype(np.float32)

    def close(self) -> None:
        """See `base.Embedder`."""


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORDS.findall(text):
        yield word, 1.0
        for at in range(len(word) - _PART + 1):
            yield f"{word[at : at + _PART]}…", _PART_WEIGHT
