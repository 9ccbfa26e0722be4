"""Cuts text into the numbers that multilingual-e5-small reads.

The tokenizer is sentencepiece's, with a model written here from the pieces in
the weight file. What happens before is done here, too: sentencepiece would want
its rules compiled, and the file has them as a plain map of code points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor  # pyright: ignore[reportMissingTypeStubs] - it has none

from sidecar.index.embed.base import readable
from sidecar.index.embed.e5_file import POSITIONS, WeightFile
from sidecar.index.embed.protobuf import blob, integer, real, text

WINDOW = POSITIONS - 2  # tokens of text in one run; a mark stands at each end
MASK = b"<mask>"

# numbers of sentencepiece_model.proto
_UNKNOWN, _CONTROL = 2, 3  # SentencePiece.Type; 1, a normal piece, is the default
_UNIGRAM = 1  # TrainerSpec.ModelType

_BLANKS = re.compile(" {2,}")

Ids = NDArray[np.int64]


def sentencepiece_model(weights: WeightFile) -> bytes:
    """The tokenizer in the form that sentencepiece loads. Takes a second: there are 250,002 pieces."""
    marks = {weights.first_id, weights.last_id, weights.pad_id}
    parts: list[bytes] = []
    for at, (piece, score) in enumerate(weights.pieces()):
        entry = blob(1, piece) + real(2, score)
        if at == weights.unknown_id:
            entry += integer(3, _UNKNOWN)
        elif at in marks or piece == MASK:
            entry += integer(3, _CONTROL)  # such a piece is never found in a text, also where one spells it out
        parts.append(blob(1, entry))
    ids = [(40, weights.unknown_id), (41, weights.first_id), (42, weights.last_id), (43, weights.pad_id)]
    trainer = integer(3, _UNIGRAM) + integer(4, len(parts)) + b"".join(integer(field, number) for field, number in ids)
    # A blank is put in front and blanks become ▁. They aren't collapsed there: that was done before.
    normalizer = text(1, "identity") + integer(3, 1) + integer(4, 0) + integer(5, 1)
    return b"".join([*parts, blob(2, trainer), blob(3, normalizer)])


class Cutter:
    """Texts to ids. Any number of threads may use one."""

    def __init__(self, model: bytes, weights: WeightFile) -> None:
        self._processor = SentencePieceProcessor(model_proto=model)
        self._letters = weights.letters()
        self._first, self._last = weights.first_id, weights.last_id

    def windows(self, text: str) -> Iterator[Ids]:
        """The text as one run after the other, each of at most `POSITIONS` ids with the marks at its ends."""
        plain = _BLANKS.sub(" ", readable(text).translate(self._letters)).strip(" ")
        ids: list[int] = self._processor.EncodeAsIds(plain)  # pyright: ignore[reportUnknownMemberType] - no types there
        for start in range(0, max(len(ids), 1), WINDOW):
            yield np.array([self._first, *ids[start : start + WINDOW], self._last], np.int64)
