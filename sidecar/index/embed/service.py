"""The embedder `openai`: any service that speaks `/v1/embeddings`, such as Ollama, LM Studio or vLLM.

What it answers is believed only as far as it has the right form. A service
that is away, slow or refuses is `EmbedderAway`; a text that it refuses is cut
in two, and one that can't be cut further gets zeros.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sidecar.index.embed.base import EmbedderAway, Vectors, readable
from sidecar.index.embed.service_http import ServiceConnection, TextRefused
from sidecar.index.wire import EmbedderOptions

_TOGETHER: Final = 16

_FIRST_S: Final = 100.0  # such services load a model when it is first asked for
_PASSAGES_S: Final = 25.0  # less than the silence after which the worker counts as hanging
_QUERY_S: Final = 10.0

_SHORT: Final = 200  # characters; that much is no more than a model can take
_MOST_NUMBERS: Final = 1 << 14


class Service:
    """See `base.Embedder`."""

    def __init__(self, model: str, options: EmbedderOptions) -> None:
        """Asks for the vector of one word, to learn how many numbers it has.

        Raises:
            EmbedderAway: the service can't be used now.
        """
        self._model = model
        self._options = options
        self._lines = {
            line: (ServiceConnection(options.base_url, options.key, network=options.network), threading.Lock())
            for line in ("query", "urgent", "passages")
        }
        self.dim = 0
        try:
            self.dim = self._asked("passages", ["text"], time.monotonic() + _FIRST_S).shape[1]
        except TextRefused as refused:
            raise EmbedderAway(f"was refused by the embedding service even one word ({refused})") from refused
        finally:
            if not self.dim:
                self.close()
        # the same name elsewhere may be another model, and another prefix makes another vector
        told = json.dumps([options.base_url, model, options.query_prefix, options.passage_prefix])
        self.id = f"openai:{model}@{hashlib.blake2b(told.encode(), digest_size=6).hexdigest()}/{self.dim}"

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """See `base.Embedder`.

        Raises:
            EmbedderAway: the service can't be used now.
        """
        give_up = time.monotonic() + _PASSAGES_S
        parts = [texts[at : at + _TOGETHER] for at in range(0, len(texts), _TOGETHER)]
        line, prefix = "urgent" if urgent else "passages", self._options.passage_prefix
        found = [self._vectors(line, prefix, [readable(text) for text in part], give_up) for part in parts]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *found])

    def query(self, text: str) -> Vectors:
        """See `base.Embedder`.

        Raises:
            EmbedderAway: the service can't be used now.
        """
        prefix = self._options.query_prefix
        return self._vectors("query", prefix, [readable(text)], time.monotonic() + _QUERY_S)[0]

    def close(self) -> None:
        """See `base.Embedder`."""
        for connection, lock in self._lines.values():
            with lock:
                connection.close()

    def _vectors(self, line: str, prefix: str, texts: Sequence[str], give_up: float) -> Vectors:
        """One row a text; rows of zeros for what the service does not take even in pieces."""
        try:
            return self._asked(line, [prefix + text for text in texts], give_up)
        except TextRefused:
            if len(texts) > 1:
                return np.concatenate([self._vectors(line, prefix, [text], give_up) for text in texts])
        [text] = texts
        if len(text) <= _SHORT:
            return np.zeros((1, self.dim), np.float32)
        middle = text.rfind(" ", _SHORT // 2, len(text) // 2) + 1 or len(text) // 2
        halves = (
            self._vectors(line, prefix, [text[:middle]], give_up),
            self._vectors(line, prefix, [text[middle:]], give_up),
        )
        return _of_length_one(halves[0] + halves[1])

    def _asked(self, line: str, texts: Sequence[str], give_up: float) -> Vectors:
        connection, lock = self._lines[line]
        with lock:
            left_s = give_up - time.monotonic()
            if left_s <= 0:
                raise EmbedderAway(f"got vectors too slowly from the embedding service ({_PASSAGES_S:g} s)")
            answer = connection.post("/embeddings", {"model": self._model, "input": list(texts)}, within_s=left_s)
        found = _matrix(answer, len(texts))
        if self.dim not in (0, found.shape[1]):
            raise EmbedderAway(
                f"got vectors of {found.shape[1]} numbers from the embedding service, before they had {self.dim}"
            )
        return _of_length_one(found)


def _matrix(answer: dict[str, Any], rows: int) -> Vectors:
    """float32[rows, dim], in the order of the texts.

    Raises:
        EmbedderAway: the answer does not hold that.
    """
    try:
        found: dict[int, Any] = {int(one["index"]): one["embedding"] for one in answer["data"]}
        matrix = np.array([found[row] for row in range(rows)], np.float32)
        fits = matrix.ndim == 2 and 0 < matrix.shape[1] <= _MOST_NUMBERS and len(found) == rows
    except (KeyError, TypeError, ValueError, OverflowError):
        matrix, fits = np.empty((0, 0), np.float32), False
    if not fits or not np.isfinite(matrix).all():
        raise EmbedderAway("got something else than one vector for each text from the embedding service")
    return matrix


def _of_length_one(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(lengths > 0, vectors / np.maximum(lengths, np.finfo(np.float32).tiny), 0).astype(np.float32)
