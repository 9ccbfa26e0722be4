"""Vectors that are kept on disk from one run of a benchmark to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from sidecar.index.embed.base import Embedder, Vectors

_TOGETHER = 64  # texts that are embedded and then kept


class KeptVectors:
    """An embedder whose vectors are kept on disk by the texts they are of."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.embedder = embedder
        self._database = sqlite3.connect(folder / "vectors.sqlite")
        self._database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")

    def passages(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """As `Embedder.passages`; what is not kept yet is embedded, a few at a time."""
        return self._vectors("passage", texts, self.embedder.passages)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder.query` for each."""
        return self._vectors("query", texts, lambda some: np.stack([self.embedder.query(text) for text in some]))

    def _vectors(self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        keys = [blake2b(f"{self.embedder.id}\n{kind}\n{text}".encode(), digest_size=16).digest() for text in texts]
        known = {key: vector for key in keys if (vector := self._kept(key)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for at in range(0, len(missing), _TOGETHER):
            some = list(missing.items())[at : at + _TOGETHER]
            found = embed([text for _, text in some])
            rows = [(key, vector.tobytes()) for (key, _), vector in zip(some, found, strict=True)]
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            known.update((key, vector) for (key, _), vector in zip(some, found, strict=True))
        return np.stack([known[key] for key in keys])

    def _kept(self, key: bytes) -> Vectors | None:
        row = self._database.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return None if row is None else np.frombuffer(row[0], np.float32)

    def close(self) -> None:
        """The embedder and the file."""
        self._database.close()
        self.embedder.close()
